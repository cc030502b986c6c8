"""The HTTP service of the documentation under load: its code is taken from the page and run as it is printed there.

Clients are threads of another process on the same machine. Each sends one request after the other.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import asot
from benchmarks.common import Options, Report, Table, require
from benchmarks.index.index import collection

NEEDS = {"fastapi"}

NEIGHBORS, REQUESTS = 10, 200
_PAGE = Path(__file__).parents[2] / "docs" / "index-of-distributions.md"
_STARTS = 60.0  # seconds until a service answers


def run(options: Options) -> Report:
    """Ask from one client, from four, and from four beside one that changes members."""
    n_members, n_queries = (2000, 20) if options.quick else (50_000, 100)
    requests = 40 if options.quick else REQUESTS
    with tempfile.TemporaryDirectory() as folder:
        name, members, queries = collection(options.data, n_members, n_queries)
        index = asot.Index()
        index.add(members, ids=[f"m{i}" for i in range(len(members))])
        index.save(Path(folder) / "molecules.index")
        (Path(folder) / "service.py").write_text(service_code())
        bodies = [json.dumps({"points": queries[i][0].tolist()}) for i in range(len(queries))]
        with _Service(Path(folder)) as port:
            truth = index.query(queries[:5], NEIGHBORS)
            for i in range(5):
                answer = np.array(list(json.loads(_asked(port, bodies[i])).values()))
                require("the service", float(np.abs(np.sort(answer) - truth.distances[i]).max()), 1e-9)
            rows = [_row(port, bodies, clients, False, requests) for clients in (1, 4)]
            rows.append(_row(port, bodies, 4, True, requests))
    columns = ["clients", "requests", "per second", "p50, ms", "p99, ms", "changes"]
    return Report(
        "index_http",
        "An index behind HTTP",
        __doc__ or "",
        [Table(f"{n_members:,} {name}, {NEIGHBORS} nearest, certain; one process of uvicorn:", columns, rows)],
        ("The third row has one more client, which replaces a member every 0.1 s; each change is on disk when its "
         "request returns.",),
    )  # fmt: skip


def service_code() -> str:
    """The example of the page."""
    (code,) = re.findall(r"```python\n(.*?FastAPI\(\).*?)```", _PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return code


class _Service:
    """uvicorn with the example, in a process of its own on a port of this machine only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> int:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = int(free.getsockname()[1])
        paths = os.pathsep.join(path for path in sys.path if path)
        command = [sys.executable, "-m", "uvicorn", "service:app", "--host", "127.0.0.1", "--port", str(port)]
        self._process = subprocess.Popen(
            [*command, "--log-level", "warning"], cwd=self._folder, env=os.environ | {"PYTHONPATH": paths}
        )
        until = time.monotonic() + _STARTS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return port
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    self.__exit__()
                    raise RuntimeError("the service did not start") from None
                time.sleep(0.05)

    def __exit__(self, *error: Any) -> None:
        self._process.terminate()
        self._process.wait()


def _asked(port: int, body: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", f"/nearest?k={NEIGHBORS}", body, {"Content-Type": "application/json"})
    return connection.getresponse().read()


def _row(port: int, bodies: list[str], clients: int, changes: bool, requests: int) -> list[str]:
    seconds: list[float] = []
    stop, changed = threading.Event(), [0]

    def ask(client: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for i in range(requests // clients):
            started = time.perf_counter()
            body = bodies[(client + clients * i) % len(bodies)]
            connection.request("POST", f"/nearest?k={NEIGHBORS}", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"the service answered {answer.status}")
            seconds.append(time.perf_counter() - started)

    def change() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while not stop.wait(0.1):
            connection.request("PUT", f"/members/m{changed[0]}", bodies[0], {"Content-Type": "application/json"})
            connection.getresponse().read()
            changed[0] += 1

    threads = [threading.Thread(target=ask, args=(client,)) for client in range(clients)]
    writer = threading.Thread(target=change)
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    if changes:
        writer.start()
    for thread in threads:
        thread.join()
    elapsed = time.perf_counter() - started
    stop.set()
    if changes:
        writer.join()
    if len(seconds) < clients * (requests // clients):
        raise RuntimeError("a client failed")
    p50, p99 = 1e3 * np.quantile(seconds, [0.5, 0.99])
    return [
        str(clients),
        str(len(seconds)),
        f"{len(seconds) / elapsed:.1f}",
        f"{p50:.1f}",
        f"{p99:.1f}",
        str(changed[0]),
    ]
