"""
Graphs as bags of node features
===============================

A graph is a bag of its nodes. Each node is described by its degree and its neighborhood. The distances alone separate
rings, hubs and random graphs.
"""

import networkx as nx
import numpy as np

import asot


def nodes_of(graph):
    """Degree, mean degree of the neighbors, share of triangles: (n, 3)."""
    degree = dict(graph.degree())
    around = [np.mean([degree[v] for v in graph[u]] or [0]) for u in graph]
    return np.column_stack(
        [list(degree.values()), around, list(nx.clustering(graph).values())]
    ).astype(float)


rng = np.random.default_rng(2)
makers = {
    "ring": lambda n: nx.watts_strogatz_graph(
        n, 4, 0.05, seed=int(rng.integers(1e9))
    ),
    "hub": lambda n: nx.barabasi_albert_graph(
        n, 2, seed=int(rng.integers(1e9))
    ),
    "random": lambda n: nx.gnm_random_graph(
        n, 2 * n, seed=int(rng.integers(1e9))
    ),
}
kinds = np.repeat(list(makers), 15)
graphs = [makers[kind](int(rng.integers(20, 60))) for kind in kinds]
collection = asot.Distributions.from_list([nodes_of(graph) for graph in graphs])

# %%
# The graphs have between 20 and 60 nodes, and the distances do not care.

asot.plots.map(asot.pairwise_exact(collection), labels=kinds, method="mds")
