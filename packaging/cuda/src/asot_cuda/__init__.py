"""The CUDA kernels of asot, compiled ahead: data for `asot.gpu.ahead`, nothing to call."""
