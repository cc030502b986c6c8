"""Collections to try things on. A loader never downloads anything without saying so."""

from asot.datasets.digits import load_digits

__all__ = ["load_digits"]
