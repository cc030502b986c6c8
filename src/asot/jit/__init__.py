"""How kernels are compiled, and the small parts that many of them share."""
