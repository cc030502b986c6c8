"""The same word has the same default in every public call, and flags on the command line are named as arguments are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest

import asot
from asot.cli import COMMANDS, cli

DEFAULTS: dict[str, Any] = {
    "random_state": None,
    "progress": None,
    "memory": None,
    "device": "auto",
    "n_jobs": None,
    "p": 1,
    "metric": "euclidean",
    "metric_params": None,
    "unmatched": None,
    "space": None,
    "n_anchors": None,
    "pairs": None,
    "sink": None,
    "folder": None,
    "download": True,
    "value": "transport",
    "min_size": None,
}
"""What each word is where it is left out. ``bounds`` is not among them: `pairwise` adds bounds to the result, which is
off by default, and a search always uses bounds, by default those that pay off."""


OTHER_DEFAULTS = {
    **{(f"asot.{name}", "p"): 2 for name in ("gromov", "gromov_plan", "Distributions.from_spaces", "gradients.assign")},
    ("asot.Index", "random_state"): 0,
}
"""Everybody's Gromov–Wasserstein distance, and flow matching's pairing, is that of squares. An index is kept on disk,
and says which seed it has."""


def own(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).startswith("asot")


def functions_of(module: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in sorted(getattr(module, "__all__", None) or dir(module)):
        thing = getattr(module, name)
        if not name.startswith("_") and inspect.isfunction(thing) and thing.__module__.startswith(module.__name__):
            yield f"{module.__name__}.{name}", thing


def public_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every function, constructor and method that `asot` shows, by name."""
    for name in asot.__all__:
        thing = getattr(asot, name)
        if inspect.ismodule(thing):
            yield from functions_of(thing)
        elif inspect.isclass(thing) and own(thing):
            yield f"asot.{name}", thing
            for method, code in inspect.getmembers(thing, inspect.isroutine):
                if not method.startswith("_") and own(code):
                    yield f"asot.{name}.{method}", code
        elif callable(thing):
            yield f"asot.{name}", thing


CALLS = dict(public_calls())


def test_the_walk_sees_functions_classes_methods_and_modules() -> None:
    expected = {"asot.pairwise", "asot.KMeansAnchors", "asot.AnchorSpace.histograms", "asot.gradients.emd_many"}
    assert expected <= set(CALLS)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_word_has_the_same_default_in_every_call(name: str) -> None:
    if name in ("asot.Plans", "asot.Distances", "asot.Neighbors"):
        pytest.skip("a result, whose fields are not arguments")
    for parameter in inspect.signature(CALLS[name]).parameters.values():
        if (name, parameter.name) in OTHER_DEFAULTS:
            assert parameter.default == OTHER_DEFAULTS[name, parameter.name]
        elif parameter.name in DEFAULTS and parameter.default is not parameter.empty:
            assert parameter.default == DEFAULTS[parameter.name], f"{parameter.name} of {name}"


@pytest.mark.parametrize("call", ["kneighbors", "radius_neighbors", "pairwise", "pairwise_exact", "emd_many"])
def test_calls_over_pairs_take_all_words_of_a_run(call: str) -> None:
    assert {"device", "n_jobs", "memory", "progress"} <= set(inspect.signature(getattr(asot, call)).parameters)


@pytest.mark.parametrize("estimator", ["WassersteinNeighbors", "WassersteinKernel", "WassersteinKMeans"])
def test_estimators_take_what_their_calls_take(estimator: str) -> None:
    assert {"device", "n_jobs", "progress"} <= set(inspect.signature(getattr(asot, estimator)).parameters)


ARGUMENTS = {
    "cluster": asot.WassersteinKMeans,
    "exact": asot.pairwise_exact,
    "fit": asot.KMeansAnchors,
    "groups": asot.group_differences,
    "noise": asot.noise_floor,
    "neighbors": asot.kneighbors,
    "pairwise": asot.pairwise,
    "plan": asot.plan,
}
FILES = {
    "collection",
    "other",
    "output",
    "help",
    "first",
    "second",
    "store_path",
    "part",
    "groupby",
    "use_rep",
    "attributes",
}
"""Arguments that name files, or what to read of them, which the calls have no need for."""


@pytest.mark.parametrize("command", sorted(ARGUMENTS))
def test_flags_are_named_as_the_arguments_are(command: str) -> None:
    with click.Context(cli) as context:
        found = cli.get_command(context, command)
    assert found is not None
    known = set(inspect.signature(ARGUMENTS[command]).parameters) | FILES
    for option in found.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.name in known, f"--{option.name} of asot {command}"
            flags = [flag for flag in option.opts if flag.startswith("--")]
            assert option.name in FILES or flags == [f"--{option.name.replace('_', '-')}"]


def test_every_output_is_named_output() -> None:
    with click.Context(cli) as context:
        commands = [cli.get_command(context, name) for name in COMMANDS]
    for command in commands:
        assert command is not None
        assert not {"out"} & {str(option.name) for option in command.params}
