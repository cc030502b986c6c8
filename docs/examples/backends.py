"""One script for every engine: `python backends.py threading run.zarr` (or loky, dask, ray); only the name changes."""

import hashlib
import sys

import joblib
import numpy as np

import asot


def start(backend):
    """What an engine needs before joblib knows it; two processes on this machine."""
    if backend == "dask":
        from dask.distributed import Client

        return Client(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=None,
            host="127.0.0.1",
        )
    if backend == "ray":
        import ray
        from ray.util.joblib import register_ray

        register_ray()
        return ray.init(num_cpus=2, include_dashboard=False)
    return None


def main(backend, path):
    rng = np.random.default_rng(0)
    D = asot.Distributions.from_list(
        [
            rng.normal(rng.normal(size=3), 1.0, size=(12, 3))
            for _ in range(400)
        ]
    )
    with joblib.parallel_config(backend=backend, n_jobs=2):
        stored = asot.pairwise_exact(D, sink=asot.sinks.Store(path))
        near = asot.kneighbors(D, 5, sink=asot.sinks.Store(path + ".near"))
    found = near.top_k()
    answers = stored.values(), found.indices, found.distances
    digest = hashlib.sha256(
        b"".join(part.tobytes() for part in answers)
    ).hexdigest()
    sys.stdout.write(f"{backend}: {stored!r}\n{digest}\n")


if __name__ == "__main__":
    engine = start(sys.argv[1])
    main(*sys.argv[1:])
