"""How kernels for GPUs are compiled and loaded; the kernels lie beside the solvers that launch them."""
