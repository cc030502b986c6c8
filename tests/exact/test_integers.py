"""Floats to integers: nothing is lost that a float64 answer could show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asot.exact.shared_cost import cost_bits_for, index_bits_for, quantize_cost, quantize_masses
from asot.exact.workspace import LANES, MASS_BITS
from tests.strategies import SIZES, histograms_of_every_kind


@pytest.mark.parametrize("k", [*SIZES, 2000])
def test_quantized_masses_sum_to_exactly_two_to_the_sixty(k):
    masses = quantize_masses(histograms_of_every_kind(k, np.random.default_rng(k)))
    assert masses.min() >= 0
    assert {sum(row) for row in masses.tolist()} == {2**MASS_BITS}


@pytest.mark.parametrize("k", SIZES)
def test_quantized_masses_are_the_masses_to_float64_rounding(k):
    histograms = histograms_of_every_kind(k, np.random.default_rng(k))
    np.testing.assert_allclose(np.ldexp(quantize_masses(histograms), -MASS_BITS), histograms, rtol=0, atol=1e-15)


def test_equal_histograms_have_equal_quantized_masses():
    row = np.random.default_rng(0).dirichlet(np.ones(50))
    first, second = quantize_masses(np.array([row, row]))
    np.testing.assert_array_equal(first, second)


@given(st.integers(1, 4000), st.integers(1, 4000))
def test_index_bits_hold_every_row_and_padded_column(n_sources, n_sinks):
    assert max(n_sources, n_sinks) + LANES - 1 < 2 ** index_bits_for(n_sources, n_sinks)


@given(st.integers(1, 4000))
def test_a_path_of_largest_costs_fits_in_62_bits(k):
    bits = index_bits_for(k, k)
    assert k * 2 ** (cost_bits_for(bits) + bits) < 2**62


@pytest.mark.parametrize("factor", [1e-300, 1e-3, 1.0, 7.0, 1e300])
def test_unit_costs_are_at_most_one_and_give_the_cost_back(factor):
    cost = factor * np.random.default_rng(1).random((20, 30))
    quantized, exponent = quantize_cost(cost)
    unit = quantized.arrays()["unit"]
    assert 0.5 <= unit.max() <= 1.0
    np.testing.assert_array_equal(np.ldexp(unit, exponent), cost)


def test_integer_costs_leave_the_index_bits_free():
    quantized, _ = quantize_cost(np.random.default_rng(2).random((20, 30)))
    bits, arrays = quantized.index_bits, quantized.arrays()
    assert not (arrays["integer"] & (2**bits - 1)).any()
    restored = np.ldexp(arrays["integer"].astype(float), -bits - cost_bits_for(bits))
    np.testing.assert_allclose(restored, arrays["unit"], rtol=0, atol=2.0 ** -cost_bits_for(bits))


def test_a_zero_cost_can_be_prepared():
    arrays = quantize_cost(np.zeros((3, 4)))[0].arrays()
    assert not arrays["integer"].any()
    assert not arrays["unit"].any()
