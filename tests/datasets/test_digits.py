"""The embedded digits as distributions."""

import numpy as np
import pytest

from asot.datasets import load_digits


def test_every_digit_is_the_bag_of_its_inked_pixels():
    digits, labels, about = load_digits(50)
    images = about["images"]
    assert len(digits) == len(labels) == len(images) == 50
    for i in (0, 17, 49):
        points, masses = digits[i]
        rows, columns = np.nonzero(images[i])
        np.testing.assert_array_equal(points, np.column_stack([rows, columns]) / 8)
        np.testing.assert_allclose(masses, images[i][rows, columns] / images[i].sum())


def test_sizes_vary_and_all_classes_are_there():
    digits, labels, _ = load_digits()
    assert len(digits) == 1797
    assert digits.dim == 2
    assert digits.sizes.min() < digits.sizes.max()
    assert set(labels) == set(range(10))


@pytest.mark.parametrize(("n", "message"), [(0, "n must be a whole number ≥ 1"), (1798, "only 1,797 digits")])
def test_a_number_of_digits_that_cannot_be_is_refused(n, message):
    with pytest.raises(ValueError, match=message):
        load_digits(n)
