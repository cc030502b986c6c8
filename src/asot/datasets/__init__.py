"""Collections to try things on. A loader never downloads anything without saying so."""

from asot.data.adapters.graphs import from_networkx, from_pyg, graph_features
from asot.datasets.dataset import Dataset
from asot.datasets.digits import load_digits
from asot.datasets.mnist import load_mnist
from asot.datasets.tu import load_tu, load_tu_graphs
from asot.datasets.zinc import load_zinc

__all__ = [
    "Dataset",
    "from_networkx",
    "from_pyg",
    "graph_features",
    "load_digits",
    "load_mnist",
    "load_tu",
    "load_tu_graphs",
    "load_zinc",
]
