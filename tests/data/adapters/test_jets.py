"""Jets: padded arrays, lists and awkward arrays give one collection, whose distances are the energy mover's."""

import numpy as np
import pytest

import asot
from asot.data.distributions import Distributions
from tests.test_every_distance import by_energyflow_definition


@pytest.fixture
def events():
    """Four events of 1 to 5 particles as EnergyFlow has them: (pT, y, φ, particle id), filled up with zeros."""
    rng = np.random.default_rng(0)
    padded = np.zeros((4, 6, 4))
    for i, n in enumerate((3, 5, 1, 4)):
        padded[i, :n] = np.column_stack([rng.gamma(2.0, size=n), rng.normal(size=(n, 2)), np.full(n, 211)])
    return padded


def test_every_way_to_hold_events_gives_the_same_collection(events):
    awkward = pytest.importorskip("awkward")
    D = Distributions.from_jets(events, ids=list("abcd"))
    assert D.sizes.tolist() == [3, 5, 1, 4]
    np.testing.assert_array_equal(D["c"][0], events[2, :1, 1:3])
    np.testing.assert_allclose(D.totals, events[:, :, 0].sum(axis=1), rtol=1e-14)
    listed = [event[event[:, 0] > 0] for event in events]
    ragged = awkward.Array([event.tolist() for event in listed])
    records = awkward.zip({"phi": ragged[:, :, 2], "eta": ragged[:, :, 1], "pt": ragged[:, :, 0]})
    for other in (events[:, :, :3], listed, ragged, awkward.Array(events), records):
        assert Distributions.from_jets(other, ids=list("abcd")) == D
    assert Distributions.from_jets(events.astype(np.float32)).dtype == np.float32
    shuffled = events[:, ::-1]  # padding need not come last
    assert Distributions.from_jets(shuffled).sizes.tolist() == D.sizes.tolist()


def test_cartesian_momenta_are_the_same_particles(events):
    pt, y, phi, _ = np.moveaxis(events, 2, 0)
    mass = 0.14 * (pt > 0)
    transverse = np.hypot(pt, mass)
    four = np.stack([transverse * np.cosh(y), pt * np.cos(phi), pt * np.sin(phi), transverse * np.sinh(y)], axis=2)
    D, E = Distributions.from_jets(events), Distributions.from_jets(four, coords="cartesian")
    np.testing.assert_allclose(E.points, D.points, atol=1e-12)
    np.testing.assert_allclose(E.totals, D.totals, rtol=1e-12)


def test_the_distance_is_the_energy_movers(events):
    R = 4.0
    D = Distributions.from_jets(events)
    r = asot.pairwise_exact(D, unmatched=R)
    for (i, j), value in zip(r.pairs, r.values, strict=True):
        (x, a), (y, b) = D[i], D[j]
        expected = by_energyflow_definition(x, a * D.totals[i], y, b * D.totals[j], R)
        assert value == pytest.approx(expected, rel=1e-8)


def test_centered_jets_know_neither_where_they_were_nor_the_cut_of_the_azimuth(events):
    events[:, :, 2] *= 0.3
    moved = events.copy()
    moved[:, :, 1] += 1.5
    moved[:, :, 2] = (events[:, :, 2] + 3.0 + np.pi) % (2 * np.pi) - np.pi  # some particles jump to the other side
    D, E = Distributions.from_jets(events, center=True), Distributions.from_jets(moved, center=True)
    np.testing.assert_allclose(E.points, D.points, atol=1e-12)
    assert np.abs(np.add.reduceat(D.masses[:, None] * D.points, D.offsets[:-1])).max() < 1e-12
    box = {"box": [100.0, 2 * np.pi]}
    straight = asot.pairwise_exact(Distributions.from_jets(events)).values
    across = asot.pairwise_exact(Distributions.from_jets(moved), metric="periodic", metric_params=box).values
    np.testing.assert_allclose(across, straight, rtol=1e-9)


def test_what_is_wrong_is_told(events):
    awkward = pytest.importorskip("awkward")
    made = Distributions.from_jets
    bad, blank, negative = events.copy(), events.copy(), events.copy()
    bad[1, 2, 1], blank[2] = np.nan, 0.0
    negative[3, 1, 0] = -2.0
    for call, message in (
        (lambda: made(events[0]), r"found shape \(6, 4\); pass events\[None\] for a single one"),
        (lambda: made(events[:, :, :2]), r"events must be \(N, M, 3 or more: pt, y, phi\)"),
        (lambda: made(bad), "event 1 has nan at particle 2, column 1"),
        (lambda: made(blank, ids=list("abcd")), r"event 2 \('c'\) has no particle with transverse momentum; drop it"),
        (lambda: made(negative), r"event 3 has a negative transverse momentum \(-2 at particle 1\)"),
        (lambda: made([events[0], events[1][:, :2]]), r"event 1 must be particles \(n, 3 or more"),
        (lambda: made(awkward.Array([[1.0], [2.0]])), "events must hold particles"),
        (lambda: made(awkward.Array([1.0, 2.0])), "a list of particles for every event"),
        (
            lambda: made(awkward.Array([[{"pt": 1.0, "phi": 0.0}]])),
            "events has no field 'y'; its fields are 'pt', 'phi'",
        ),
        (lambda: made(awkward.Array([[[1.0, 0.0, 0.0]], []])), "event 1 has no particle"),
        (lambda: made(events, coords="polar"), "coords must be one of 'hadronic', 'cartesian'"),
        (lambda: made(events, coords="cartesian"), "not above .pz. = .*columns must be E, px, py, pz"),
        (lambda: made("events.npz"), "events must be"),
        (lambda: made([]), "events must be"),
        (lambda: made({"a": events}), "events cannot be read as an array: it is a dict"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
