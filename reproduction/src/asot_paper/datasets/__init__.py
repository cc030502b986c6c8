"""The collections of graphs, molecules and images that the paper is about, read from the files of their makers.

A loader never downloads anything without saying so. `asot.datasets` hands these names on.
"""

from asot_paper.datasets.mnist import load_mnist
from asot_paper.datasets.tu import load_tu, load_tu_graphs
from asot_paper.datasets.zinc import load_zinc

__all__ = ["load_mnist", "load_tu", "load_tu_graphs", "load_zinc"]
