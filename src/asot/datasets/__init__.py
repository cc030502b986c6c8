"""Collections to try things on. A loader never downloads anything without saying so.

Digits are here. Graphs, molecules and MNIST come from asot-paper, where it is installed.
"""

from asot.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
