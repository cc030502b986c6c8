"""The paper's methods, beside plain loops."""
