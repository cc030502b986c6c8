"""Other libraries: how they are called, and what people who come from them see."""
