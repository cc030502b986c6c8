"""Collections of samples: how they are read, and tests between groups of them."""
