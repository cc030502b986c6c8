"""Random histories of an index, and the plain list that it must agree with."""

from __future__ import annotations

import numpy as np

import asot


class PlainList:
    """What an index is: members in the order in which they were added, and brute force."""

    def __init__(self):
        self.members = {}

    def add(self, clouds, ids):
        for name, cloud in zip(ids, clouds, strict=True):
            self.members.pop(name, None)
            self.members[name] = cloud

    def remove(self, ids):
        for name in ids:
            del self.members[name]

    def check(self, index, queries, n_neighbors, **words):
        """Every answer, id and member of an index."""
        assert len(index) == len(self.members)
        assert index.ids.tolist() == list(self.members)
        if not self.members:
            return
        for name in list(self.members)[:: max(1, len(self.members) // 5)]:
            points, masses = index[name]
            assert points.tobytes() == self.members[name].tobytes()
            assert points.dtype == self.members[name].dtype
            assert masses.tobytes() == np.full(len(points), 1.0 / len(points)).tobytes()
        k = min(n_neighbors, len(self.members))
        found = index.query(queries, k)
        everyone = [cloud.astype(np.float64) for cloud in self.members.values()]
        matrix = asot.pairwise_exact(queries, everyone, **words).matrix()
        check_neighbors(found, matrix, k)
        assert found.neighbor_ids.tolist() == [[list(self.members)[j] for j in row] for row in found.indices]


def check_neighbors(found, matrix, k):
    """That neighbors are the nearest columns of a matrix; ties may be broken by the last digit."""
    np.testing.assert_allclose(found.distances, np.sort(matrix, axis=1)[:, :k], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.take_along_axis(matrix, found.indices, 1), found.distances, rtol=1e-9, atol=1e-12)
    assert all(len(set(row)) == k for row in found.indices.tolist())


def cloud(rng, dim=2):
    return rng.normal(rng.normal(0.0, 3.0, size=dim), 1.0, size=(rng.integers(1, 7), dim))


def step(rng, index, plain, dim=2):
    """One random change of both."""
    kind = rng.integers(4)
    if kind == 0 and plain.members:
        names = list(plain.members)
        chosen = [names[i] for i in rng.permutation(len(names))[: rng.integers(1, 4)]]
        index.remove(chosen)
        plain.remove(chosen)
        return
    count = int(rng.integers(1, 5)) if kind < 3 else int(rng.integers(20, 90))
    ids = [f"m{i}" if i % 2 else int(i) for i in rng.permutation(500)[:count].tolist()]
    clouds = [cloud(rng, dim) for _ in ids]
    if rng.integers(4) == 0:
        clouds = [one.astype(np.float32) for one in clouds]
    index.add(clouds, ids=ids, replace=True)
    plain.add(clouds, ids)
