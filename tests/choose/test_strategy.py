"""The choice of a strategy: right by default, told in full, repeatable, and never a silent guess."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import asot
from asot import Distributions, KMeansAnchors, Status
from asot.choose.prices import AnchorPrices, Load, Place, count_load, prices_of
from asot.choose.strategy import Planner
from asot.estimate.attempts import attempts_for
from asot.exact import price
from asot.request import Distance, Request, Strategy, as_error
from asot.run import devices
from asot.run.engine import Resources
from asot.run.pairs import AllPairs


def clouds(seed, n, size, d=2):
    """Large enough for anchors to pay: distributions of a few hundred points."""
    rng = np.random.default_rng(seed)
    return Distributions.from_list(
        [rng.normal(rng.normal(size=d), rng.uniform(0.5, 1.5, size=d), size=(size, d)) for _ in range(n)]
    )


def off(values, exact):
    return float(np.sqrt(np.mean((values - exact) ** 2)) / exact.mean())


@pytest.fixture(scope="module")
def D():
    return clouds(0, 40, 150)


@pytest.fixture(scope="module")
def exact(D):
    return asot.pairwise_exact(D).values


@pytest.fixture(scope="module")
def by_default(D):
    return asot.pairwise(D)


# ------------------------------------------------------------------------------------------- right by default


def test_a_call_without_options_is_within_two_percent_and_says_so(by_default, exact):
    record = by_default.info["strategy"]
    assert record["kind"] == "calibrated"
    assert off(by_default.values, exact) < 0.022
    assert record["relative_error"] <= 0.02
    low, high = record["error_interval"]
    assert low <= record["error"] <= high
    assert f"{100 * record['relative_error']:.2g} % rms error" in repr(by_default)


def test_small_problems_are_solved_exactly():
    small = clouds(1, 20, 12)
    r = asot.pairwise(small)
    assert r.info["strategy"]["kind"] == "exact"
    np.testing.assert_array_equal(r.values, asot.pairwise_exact(small).values)
    np.testing.assert_array_equal(r.status, Status.EXACT)
    assert np.all(r.error <= 1e-11 * r.values)
    assert repr(r).endswith("exact")


@pytest.mark.parametrize("error", ["1%", "5%", 0.05])
def test_other_aims_are_met(D, exact, error):
    r = asot.pairwise(D, error=error)
    aim = as_error(error)
    assert np.sqrt(np.mean((r.values - exact) ** 2)) <= 1.1 * aim.allowed(exact.mean())


def test_an_aim_that_no_anchors_meet_is_solved_exactly(D, exact):
    r = asot.pairwise(D, error="0.0001%")
    assert r.info["strategy"]["kind"] == "exact"
    np.testing.assert_array_equal(r.values, exact)


@pytest.mark.parametrize("how", [{"n_anchors": 6}, {"space": KMeansAnchors(6, random_state=0)}], ids=["n", "space"])
def test_anchors_that_were_asked_for_are_measured_however_few_they_are(D, exact, how):
    r = asot.pairwise(D, **how)
    record = r.info["strategy"]
    assert record["kind"] == "calibrated"
    assert r.info["n_anchors"] == 6
    assert off(r.values, exact) < 0.022


def test_exact_solves_are_not_said_to_be_cheaper_than_what_was_expected_to_fail(D):
    assert asot.pairwise(D, error="0.0001%").info["strategy"]["why"] == (
        "exact solves: no estimate is expected to meet 0.0001%"
    )
    assert asot.pairwise(clouds(1, 20, 12)).info["strategy"]["why"] == "exact solves: no estimate would be cheaper"


def test_a_result_says_what_no_value_is_off_by(D):
    plain = asot.pairwise(D, estimate="anchor", n_anchors=8)
    assert repr(plain).endswith("on 8 anchors, error not measured")
    proven = asot.pairwise(D, estimate="anchor", n_anchors=8, max_error=0.5)
    assert repr(proven).endswith("on 8 anchors, no value more than 0.5 off")


def test_pairs_that_were_solved_exactly_keep_their_values(by_default, exact):
    solved = by_default.status == Status.EXACT
    assert solved.sum() >= 60
    np.testing.assert_allclose(by_default.values[solved], exact[solved], rtol=1e-12)


def test_expected_errors_are_of_the_size_of_the_errors(by_default, exact):
    estimated = by_default.status == Status.ESTIMATED
    z = (by_default.values - exact)[estimated] / by_default.error[estimated]
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.6


def test_bounds_and_max_error_hold_beside_the_aim(D, exact):
    r = asot.pairwise(D, bounds=True)
    assert np.all((r.lower <= exact * (1 + 1e-9)) & (exact <= r.upper * (1 + 1e-9)))
    assert off(r.values, exact) < 0.022
    certain = asot.pairwise(D, max_error="5%")
    assert np.all(np.abs(certain.values - exact) <= 0.05 * exact * (1 + 1e-9))


# ------------------------------------------------------------------------------------------- told and repeated


def test_the_record_is_plain_and_repeats_the_call(D, by_default):
    record = json.loads(json.dumps(by_default.info["strategy"]))
    again = asot.pairwise(D, strategy=record)
    np.testing.assert_array_equal(again.values, by_default.values)
    assert {"why", "tried", "predicted_seconds", "seconds", "aim"} <= set(record)


def test_a_strategy_that_was_not_tried_first_is_repeated_to_the_last_bit():
    """Exact pairs are drawn by the first space tried, which the record remembers."""
    rng = np.random.default_rng(3)
    D = Distributions.from_list([rng.normal(size=(150, 2)) for _ in range(40)])
    r = asot.pairwise(D)
    record = r.info["strategy"]
    assert len(record["tried"]) > 1
    assert record["drawn_at"] != record["n_anchors"]
    np.testing.assert_array_equal(asot.pairwise(D, strategy=record).values, r.values)


@pytest.mark.parametrize("options", [{"n_jobs": 2}, {"memory": "200K"}])
def test_the_way_and_the_values_do_not_depend_on_how_it_runs(D, by_default, options):
    again = asot.pairwise(D, **options)
    assert again.info["strategy"]["n_anchors"] == by_default.info["strategy"]["n_anchors"]
    np.testing.assert_array_equal(again.values, by_default.values)


def test_a_space_of_the_user_is_used(D, exact):
    space = KMeansAnchors(96, random_state=0).fit(D).space_
    r = asot.pairwise(D, space=space)
    assert r.info["strategy"]["given_space"]
    assert r.info["n_anchors"] == 96
    assert off(r.values, exact) < 0.022
    with pytest.raises(ValueError, match="pass the same space= again"):
        asot.pairwise(D, strategy=r.info["strategy"])


def test_the_papers_distance_is_untouched(D):
    space = KMeansAnchors(8, random_state=0).fit(D).space_
    plain = asot.pairwise(D, space=space, estimate="anchor")
    np.testing.assert_array_equal(plain.values, asot.emd_many(space.histograms(D), cost=space.cost).values)
    assert "error not measured" in repr(plain)
    assert "its error as an estimate of W_1 is not known" in Status(plain.status[0]).text


def test_calibrated_values_go_to_any_sink(D, by_default):
    matrix = asot.pairwise(D, sink=asot.sinks.Dense())
    np.testing.assert_array_equal(matrix, by_default.matrix())


# ------------------------------------------------------------------------------------------- the choice itself


def test_prices_count_what_common_mass_leaves():
    points = np.random.default_rng(0).normal(size=(30, 2))
    same = Distributions.from_list([points] * 4)
    different = Distributions.from_list([points + i for i in range(4)])
    equal, apart = (count_load(d, None, AllPairs(4)).exact_pair for d in (same, different))
    assert equal < 0.3 * apart


def test_the_cheapest_way_that_meets_the_aim_is_found_and_failures_are_learned_from(D):
    class Trial:
        mean, exact_share, n_kinds = 1.0, 0.0, 1

        def __init__(self, strategy):
            self.strategy = strategy
            self.rmse = self.cautious = 0.3 / strategy.n_anchors  # more anchors are better, as always
            self.interval = self.rmse, self.rmse

    load = count_load(clouds(0, 60, 300), None, AllPairs(60))
    tried = []

    def attempt(strategy):
        tried.append(strategy)
        return Trial(strategy)

    choice = Planner(AnchorPrices(load), as_error("0.5%"), attempt, seed=0).choose()
    assert choice.strategy.kind == "calibrated"
    assert Trial(choice.strategy).rmse <= 0.005
    assert len(tried) == len(choice.tried) <= 4
    hopeless = Planner(AnchorPrices(load), as_error("0.00001%"), attempt, seed=0).choose()
    assert hopeless.strategy == Strategy("exact")
    assert hopeless.why.startswith("exact solves")


class Measured:
    """A trial whose error is known the better, the more pairs are drawn; 1.8 percent, whatever is tried."""

    mean, exact_share, n_kinds = 1.0, 0.0, 1

    def __init__(self, strategy, rmse=0.018):
        self.strategy, self.rmse = strategy, rmse
        factor = np.exp(0.2 / np.sqrt(strategy.n_draws))
        self.interval = rmse / factor, rmse * factor
        self.cautious = 0.5 * (rmse + self.interval[1])


def test_an_error_close_to_the_aim_is_measured_on_more_pairs_until_the_interval_decides():
    load = count_load(clouds(0, 60, 300), None, AllPairs(60))
    drawn = []

    def attempt(strategy):
        drawn.append((strategy.n_anchors, strategy.n_draws))
        return Measured(strategy)

    choice = Planner(AnchorPrices(load), as_error("2%"), attempt, seed=0).choose()
    assert [n_draws for _, n_draws in drawn] == [1, 2]  # at most an eighth of all pairs is solved
    assert len({n_anchors for n_anchors, _ in drawn}) == 1
    assert choice.strategy.kind == "calibrated"
    assert choice.strategy.n_draws == 2
    assert len(choice.tried) == 1


@pytest.mark.parametrize(
    ("rmse", "n_kinds", "expected"),
    [
        (0.005, 1, [16]),  # far below the aim: few pairs are enough
        (0.005, 4, [16, 32]),  # of each of four kinds, 16 pairs hold too few
        (0.03, 1, [16, 32, 64]),  # above the aim: a fit to more pairs may be better
        (0.2, 1, [16]),  # far above
    ],
)
def test_of_large_distributions_few_pairs_are_solved_first(rmse, n_kinds, expected):
    load = Load(10_000, 400_000, 10, 2000.0, 0.15, 1e-3)
    drawn = []

    def attempt(strategy):
        drawn.append(strategy.n_draws * strategy.n_exact)
        trial = Measured(strategy, rmse)
        trial.n_kinds = n_kinds
        spread = 4.0 / drawn[-1] ** 0.5
        trial.interval = rmse * np.exp(-spread), rmse * np.exp(spread)
        return trial

    prices = AnchorPrices(load)
    prices.numbers = (64,)
    Planner(prices, as_error("2%"), attempt, seed=0).choose()
    assert drawn[: len(expected)] == expected


def large(n_pairs):
    """Pairs of 2,000 points: an exact one takes as long as thousands of estimates."""
    return AnchorPrices(Load(n_pairs, 400_000, 10, 2000.0, 0.15, 1e-3))


def of_anchors(error, drawn, spread=2.0):
    """Attempts whose error is a function of the number of anchors; few pairs leave its interval wide."""

    def attempt(strategy):
        n = strategy.n_draws * strategy.n_exact
        drawn.append((strategy.n_anchors, n))
        trial = Measured(strategy, error(strategy.n_anchors))
        factor = np.exp(spread / n**0.5)
        trial.interval = trial.rmse / factor, trial.rmse * factor
        trial.cautious = 0.5 * (trial.rmse + trial.interval[1])
        return trial

    return attempt


def test_four_draws_of_a_few_pairs_are_as_many_as_usual():
    drawn, prices = [], large(19_900)  # of which a 250th, 79, are usual
    prices.numbers, prices.spaces, prices.looks = (64,), (1,), (False,)
    Planner(prices, as_error("2%"), of_anchors(lambda k: 0.0192, drawn), seed=0).choose()
    assert [n for _, n in drawn[:3]] == [20, 40, 80]
    drawn.clear()
    Planner(prices, as_error("2%"), of_anchors(lambda k: 0.015, drawn), seed=0).choose()
    assert [n for _, n in drawn] == [20, 40, 80]


def test_where_pairs_are_dear_more_anchors_are_tried_before_more_pairs():
    drawn = []
    choice = Planner(large(19_900), as_error("2%"), of_anchors(lambda k: 0.5 / k, drawn), seed=0).choose()
    assert {n for _, n in drawn} == {20}
    assert len(drawn) == 2
    assert drawn[1][0] > drawn[0][0]
    assert choice.trial.interval[1] < 0.02


def test_where_more_anchors_hardly_help_more_pairs_are_solved():
    drawn = []
    choice = Planner(large(19_900), as_error("2%"), of_anchors(lambda k: 0.015, drawn), seed=0).choose()
    assert choice.strategy.kind == "calibrated"
    assert choice.strategy.n_draws > 1
    assert choice.trial.interval[1] < 0.02


def test_trials_show_how_much_more_anchors_help():
    prices, drawn = AnchorPrices(count_load(clouds(0, 60, 300), None, AllPairs(60))), []
    prices.spaces, prices.looks = (1,), (False,)
    choice = Planner(prices, as_error("2%"), of_anchors(lambda k: 0.03, drawn, 0.1), seed=0).choose()
    assert choice.strategy.kind == "exact"
    assert len(drawn) == 2  # by the power that is expected, four numbers of anchors would have been tried


def test_fewer_anchors_are_tried_where_the_first_are_better_than_they_have_to_be():
    prices = AnchorPrices(Load(2_000_000, 400_000, 10, 300.0, 1e-3, 1e-3))
    drawn = []
    choice = Planner(prices, as_error("2%"), of_anchors(lambda k: 0.1 / k, drawn, 0.1), seed=0).choose()
    assert choice.strategy.n_anchors < drawn[0][0]
    assert choice.trial.cautious <= 0.02
    assert [one.n_anchors for one in choice.tried] == [n for n, _ in drawn]
    assert choice.predicted_seconds < choice.tried[0].price


def test_what_was_good_enough_is_kept_where_fewer_anchors_are_not():
    prices, drawn = AnchorPrices(Load(2_000_000, 400_000, 10, 300.0, 1e-3, 1e-3)), []
    choice = Planner(
        prices, as_error("2%"), of_anchors(lambda k: 0.003 if k >= 32 else 0.05, drawn, 0.1), seed=0
    ).choose()  # fmt: skip
    assert choice.strategy.n_anchors == drawn[0][0] == 32
    assert len(drawn) > 1
    few = AnchorPrices(Load(2_000, 4_000, 10, 300.0, 1e-3, 1e-3))  # pairs: another trial would cost more than it saves
    drawn.clear()
    Planner(few, as_error("2%"), of_anchors(lambda k: 0.1 / k, drawn, 0.1), seed=0).choose()
    assert len(drawn) == 1


def test_errors_far_from_the_aim_are_measured_once():
    load = count_load(clouds(0, 60, 300), None, AllPairs(60))
    for rmse in (0.01, 0.03):
        drawn = []

        def attempt(strategy, rmse=rmse, drawn=drawn):
            drawn.append(strategy.n_draws)
            return Measured(strategy, rmse)

        Planner(AnchorPrices(load), as_error("2%"), attempt, seed=0).choose()
        assert set(drawn) == {1}


def test_the_number_that_was_compared_is_told():
    load = count_load(clouds(0, 60, 300), None, AllPairs(60))
    choice = Planner(AnchorPrices(load), as_error("2%"), lambda strategy: Measured(strategy, 0.0195), seed=0).choose()
    assert choice.strategy.kind == "exact"
    assert "measured to be 1.95 percent off, 2.1 percent with a margin for the sample" in choice.why
    assert "compared with 2%" in choice.why
    assert choice.tried[0].compared_error > 0.02 > choice.tried[0].relative_error


def test_more_draws_begin_with_the_same_pairs_and_are_repeated_to_the_last_bit(D, exact):
    one, two = ({"kind": "calibrated", "n_anchors": 16, "n_exact": 64, "n_draws": n} for n in (1, 2))
    few, many = asot.pairwise(D, strategy=one), asot.pairwise(D, strategy=two)
    before, after = few.status == Status.EXACT, many.status == Status.EXACT
    assert np.all(after[before])
    assert after.sum() > 1.5 * before.sum()
    np.testing.assert_allclose(many.values[after], exact[after], rtol=1e-12)
    np.testing.assert_array_equal(asot.pairwise(D, strategy=many.info["strategy"]).values, many.values)


# ------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("bad", [0, -1, -0.5, "2", "200%", "100%", "0%", "-2%", np.nan, np.inf, True, "two", [1]])
def test_aims_that_mean_nothing_are_refused(bad):
    with pytest.raises(ValueError, match=re.escape("error must be a share of the mean distance such as '2%'")):
        asot.pairwise(clouds(0, 3, 5), error=bad)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_distributions_are_solved_exactly(n):
    D = clouds(3, n, 20)
    r = asot.pairwise(D)
    assert len(r) == n * (n - 1) // 2
    np.testing.assert_array_equal(r.values, asot.pairwise_exact(D).values)


def test_equal_distributions_are_at_distance_zero():
    D = Distributions.from_list([np.random.default_rng(0).normal(size=(50, 2))] * 40)
    np.testing.assert_array_equal(asot.pairwise(D).values, 0.0)


def test_two_collections_far_apart():
    D, E = clouds(4, 20, 150), clouds(5, 15, 150)
    E = Distributions(E.points + 1e6, E.offsets)
    exact = asot.pairwise_exact(D, E).values
    assert off(asot.pairwise(D, E).values, exact) < 0.022


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": {"kind": "best"}}, "strategy must be r.info['strategy'] of another call"),
        ({"strategy": {"kind": "calibrated", "n_exact": 64}}, "strategy['n_anchors'] must be a whole number"),
        ({"strategy": {"kind": "exact"}, "estimate": "anchor"}, "leave out estimate and reg"),
        ({"reg": 0.1, "error": "1%"}, "leave out error"),
        ({"n_anchors": 0}, "n_anchors must be a whole number ≥ 1"),
        (
            {"n_anchors": 3, "strategy": {"kind": "calibrated", "n_anchors": 8, "n_exact": 64}},
            "strategy= is for 8 anchors, calibrated; leave out n_anchors=3",
        ),
        ({"n_anchors": 3, "space": KMeansAnchors(2)}, "pass either space or n_anchors"),
    ],
)
def test_options_that_mean_nothing_together_are_refused(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        asot.pairwise(clouds(0, 5, 10), **options)


def test_without_an_aim_the_cheapest_way_is_taken(D, exact):
    r = asot.pairwise(D, error=None)
    assert r.info["strategy"]["aim"] is None
    assert r.info["strategy"]["n_anchors"] <= 16
    assert off(r.values, exact) < 0.2


def test_a_plan_of_one_pair_is_the_optimal_one(D, exact):
    plan = asot.plan(D, 0, 1)
    assert plan.is_exact
    assert plan.cost == pytest.approx(exact[0], rel=1e-9)


# ------------------------------------------------------------------------------------------- exact solves on a GPU


class OnePercent:
    """A trial whose error is one percent of the mean distance, whatever is tried."""

    rmse, cautious, mean, interval, exact_share, n_kinds = 0.01, 0.01, 1.0, (0.009, 0.011), 0.0, 1

    def __init__(self, strategy):
        self.strategy = strategy


@pytest.mark.parametrize(("seconds", "kind"), [(0.1, "exact"), (4.0, "calibrated")])
def test_exact_solves_on_a_gpu_are_a_candidate_by_their_price(seconds, kind):
    """5,000 pairs of a millisecond, which a GPU does in a tenth of a second, or hardly faster."""
    load = Load(5_000, 20_000, 3, 100.0, 1e-3, 1e-4)
    prices = AnchorPrices(load, place=Place(jobs=1, exact=seconds))
    assert Planner(prices, as_error("2%"), OnePercent, seed=0).choose().strategy.kind == kind


def test_a_second_of_a_gpu_costs_what_the_cores_could_do_meanwhile():
    load = Load(10**6, 0, 3, 100.0, 1e-3, 1e-4)
    one, many = (AnchorPrices(load, place=Place(jobs, exact=2.0, estimates_from=0.0)) for jobs in (1, 16))
    assert many.exact == 16 * one.exact
    assert many.estimates(32, 1, True) == pytest.approx(16 * one.estimates(32, 1, True))
    assert many.on_cpu(32, 1, True) == one.on_cpu(32, 1, True) > one.estimates(32, 1, True)


@pytest.fixture
def a_gpu(monkeypatch):
    """As far as anybody asks, there is one."""
    monkeypatch.setattr(devices, "_obstacle", lambda needs: None)
    monkeypatch.setattr(devices, "gpu_count", lambda: 1)
    monkeypatch.setattr(devices, "_awake", True)


@pytest.mark.parametrize(("rate", "d", "on_gpu"), [(1e6, 2, True), (10.0, 2, False), (1e6, 1, False)])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_the_planner_prices_exact_solves_where_they_would_run(rate, d, on_gpu, metric, a_gpu, monkeypatch):
    """Not on a GPU that is slower than the CPU, and on a line, sorting takes none."""
    monkeypatch.setattr(price, "RATES", ((16, rate), (64, rate / 2)))
    request = Request(clouds(0, 60, 60, d), None, Distance(1.0, metric), resources=Resources(1))
    asked, never = (prices_of(request, attempts_for(request, None), on_gpu=gpu) for gpu in (True, False))
    assert (asked.exact < 0.5 * never.exact) == on_gpu
    assert on_gpu or asked.exact == never.exact


def test_estimates_are_made_where_they_were_priced(a_gpu):
    request = Request(clouds(0, 60, 60), None, resources=Resources(1))
    prices = prices_of(request, attempts_for(request, None))
    assert prices.estimates(512, 4, True) < prices.on_cpu(512, 4, True)  # much work
    assert prices.estimates(8, 1, False) == prices.on_cpu(8, 1, False) < devices.LATER_CALL_SECONDS
