from asot_paper.datasets.mnist import load_mnist as load_mnist
from asot_paper.datasets.tu import load_tu as load_tu
from asot_paper.datasets.tu import load_tu_graphs as load_tu_graphs
from asot_paper.datasets.zinc import load_zinc as load_zinc

from asot.data.adapters.graphs import from_networkx as from_networkx
from asot.data.adapters.graphs import from_pyg as from_pyg
from asot.data.adapters.graphs import graph_features as graph_features
from asot.datasets.dataset import Dataset as Dataset
from asot.datasets.dataset import load_digits as load_digits
