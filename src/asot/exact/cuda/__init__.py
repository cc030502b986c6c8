"""The exact solver on NVIDIA GPUs."""
