"""Images: ink is mass, pixels are points."""

import numpy as np
import pytest

import asot
from asot.data.distributions import Distributions


def test_ink_is_mass_at_its_pixel():
    digits, _, about = asot.datasets.load_digits(20)
    images = about["images"]
    D = Distributions.from_images(images, ids=[f"d{i}" for i in range(20)])
    np.testing.assert_allclose(D.points, 8 * digits.points)
    np.testing.assert_array_equal(D.masses, digits.masses)
    np.testing.assert_allclose(asot.pairwise_exact(D).values, 8 * asot.pairwise_exact(digits).values, rtol=1e-12)
    assert D.ids[3] == "d3"
    assert Distributions.from_images(images.astype(np.uint8)).sizes.tolist() == D.sizes.tolist()


@pytest.mark.parametrize(
    ("stack", "message"),
    [
        (np.zeros((4, 4)), r"found shape \(4, 4\); pass image\[None\] for a single one"),
        (np.zeros((2, 4, 4, 3)), "turn colors into gray first"),
        (np.array([[[1.0]], [[0.0]]]), "image 1 is blank; drop it"),
        (np.array([[[1.0, -2.0]]]), r"image 0 has the ink -2 at \(0, 1\)"),
        (np.array([[[np.nan]]]), "image 0 has the ink nan"),
    ],
)
def test_what_is_wrong_is_reported(stack, message):
    with pytest.raises(ValueError, match=message):
        Distributions.from_images(stack)
