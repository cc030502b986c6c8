"""So that the tests here and those of asot have different names."""
