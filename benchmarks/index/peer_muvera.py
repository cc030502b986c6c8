"""Encodes point sets with pymuvera, in a Python of its own: ``peer_muvera.py GIVEN.npz MADE.npz``."""

import sys
import time

import numpy as np
from pymuvera import MUVERAEncoder, ProjectionType

LARGE = 10_000  # members from which on encodings are shorter


def main(given: str, made: str) -> None:
    """Encode members and queries, and say how long a query took."""
    with np.load(given) as file:
        arrays = dict(file)
    sets = {
        name: np.split(arrays[f"{name}_points"], arrays[f"{name}_offsets"][1:-1]) for name in ("members", "queries")
    }
    encoder = MUVERAEncoder(
        dimension=sets["members"][0].shape[1], num_simhash_projections=4,
        num_repetitions=8 if len(sets["members"]) > LARGE else 20,
        projection_type=ProjectionType.AMS_SKETCH, projection_dimension=16, fill_empty_partitions=True,
    )  # fmt: skip
    members = np.array([encoder.encode_document(points) for points in sets["members"]], dtype=np.float32)
    encoder.encode_query(sets["queries"][0])
    started = time.process_time()
    queries = np.array([encoder.encode_query(points) for points in sets["queries"]], dtype=np.float32)
    seconds = (time.process_time() - started) / len(queries)
    np.savez(made, members=members, queries=queries, seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
