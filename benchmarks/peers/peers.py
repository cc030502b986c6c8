"""The others in the race: POT, and the C++ library wasserstein.

POT runs in our process. It looks through every array library it can find at each call, which costs its loops a third of
their speed where PyTorch is installed, so it is told to look at NumPy only. wasserstein is under the GPL and needs
NumPy 1: it lives in a virtual environment and a process of its own, gets its data through a file, and is never
imported here.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

from benchmarks.common import SelfTimed
from benchmarks.made import Histograms

RUNNER = Path(__file__).with_name("peer_wasserstein.py")


def pot() -> ModuleType:
    """POT with the NumPy backend alone."""
    for backend in ("PYTORCH", "JAX", "TENSORFLOW", "CUPY"):
        os.environ.setdefault(f"POT_BACKEND_DISABLE_{backend}", "1")
    import ot

    return ot


class Unavailable(Exception):
    """Why a peer cannot take part."""


class WassersteinPeer:
    """``wasserstein.PairwiseEMD`` behind files: events go out as .npz, values and a time come back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._python = _environment(folder)
        self.version = self._ask("--version")["version"]

    def contestant(self, histograms: Histograms, name: str) -> _PairwiseEMD:
        """All pairs of these histograms, each time in a fresh process."""
        problem = self._folder / f"{name}.npz"
        np.savez(problem, masses=histograms.masses, anchors=histograms.anchors)
        return _PairwiseEMD(self, problem)

    def solve(self, problem: Path) -> SelfTimed:
        values = problem.with_suffix(".values.npy")
        report = self._ask(str(problem), str(values))
        return SelfTimed(report["seconds"], np.load(values))

    def _ask(self, *arguments: str) -> dict:
        return json.loads(checked([str(self._python), str(RUNNER), *arguments]))


class _PairwiseEMD:
    def __init__(self, peer: WassersteinPeer, problem: Path) -> None:
        self._peer, self._problem = peer, problem

    def __call__(self) -> SelfTimed:
        return self._peer.solve(self._problem)


@contextlib.contextmanager
def wasserstein_peer(folder: Path | None) -> Iterator[WassersteinPeer | Unavailable]:
    """The peer with its environment in ``folder`` (kept) or in a temporary folder (removed), or why there is none."""
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="asot-peers-")))
        folder.mkdir(parents=True, exist_ok=True)
        try:
            peer: WassersteinPeer | Unavailable = WassersteinPeer(folder.resolve())
        except Unavailable as reason:
            peer = reason
        yield peer


def _environment(folder: Path) -> Path:
    """The interpreter of a virtual environment with wasserstein, made on first use."""
    python = environment(folder, ".venv-peers", ("numpy<2", "wasserstein"))
    return python if _works(python) else environment(folder, ".venv-peers", ("numpy<2", "wasserstein"), anew=True)


def environment(folder: Path, name: str, packages: tuple[str, ...], *, anew: bool = False) -> Path:
    """The interpreter of a virtual environment with some packages, made on first use."""
    home = folder / name
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if python.exists() and not anew:
        return python
    print(f"setting up an environment for {packages[-1]} …", file=sys.stderr, flush=True)
    checked([sys.executable, "-m", "venv", "--clear", str(home)])
    checked([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
    return python


def _works(python: Path) -> bool:
    try:
        checked([str(python), str(RUNNER), "--version"])
    except Unavailable:
        return False
    return True


def checked(command: list[str]) -> str:
    """Output of a command; what it says last when it fails becomes the reason."""
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(command, capture_output=True, text=True, env=clean | one_thread, check=False)
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise Unavailable(lines[-1].strip() if lines else f"{Path(command[0]).name} failed without a word")
    return done.stdout
