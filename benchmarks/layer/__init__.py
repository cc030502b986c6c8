"""Values and gradients of many problems."""
