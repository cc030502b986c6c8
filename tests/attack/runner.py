"""Chooses whose turn it is, and repeats rounds."""

from __future__ import annotations

import time
import warnings
import zlib

import numpy as np

from tests.attack import bounds, globe, invariances, line, others, solvers
from tests.attack.report import Report

FAMILIES = {
    "line": line.attack,
    "metrics": solvers.any_metric,
    "equal-masses": solvers.equal_masses,
    "assignments": solvers.assignments,
    "histograms": solvers.histograms,
    "others-exact": others.exact,
    "others-search": others.search,
    "others-promised": others.promised,
    "others-histograms": others.histograms,
    "invariances": invariances.attack,
    "bounds": bounds.bounds,
    "max-error": bounds.max_error,
    "globe": globe.attack,
}


def run(families=None, *, seconds=60.0, seed=0, only_round=None):
    """A report on all families, or some: one round of each, and then rounds of whoever had the least time so far."""
    chosen = {name: FAMILIES[name] for name in (families or FAMILIES)}
    report = Report()
    spent, rounds = dict.fromkeys(chosen, 0.0), dict.fromkeys(chosen, 1)
    for name in chosen:
        attack_once(name, chosen[name], seed, only_round or 0, report)
    end = time.monotonic() + seconds
    while only_round is None and time.monotonic() < end:
        name = min(spent, key=lambda name: (spent[name], name))
        started = time.monotonic()
        attack_once(name, chosen[name], seed, rounds[name], report)
        spent[name] += time.monotonic() - started
        rounds[name] += 1
    return report


def attack_once(name, attack, seed, number, report):
    """One round. An error is a finding, too."""
    report.begin(name, seed, number)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # anchors that coincide or are far away are part of the attack
        try:
            attack(rng, report)
        except Exception as error:
            report.find(f"{type(error).__name__}: {error}")
