"""MNIST: inked pixels with place and ink as point."""

import gzip
import struct

import numpy as np
import pytest
from asot_paper.datasets import catalogue, load_mnist

from reproduction.tests.datasets.made import idx_images, idx_labels, known, write
from reproduction.tests.datasets.serving import serving

IMAGES = np.zeros((2, 28, 28), np.uint8)
IMAGES[0, 3, 4], IMAGES[0, 27, 0] = 255, 1
IMAGES[1, 14, 7] = 128


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Make two files the known ones of the test split, and put them where they are looked for."""

    def place(images, labels, home="http://127.0.0.1:9", there=True):
        files = []
        for name, content in (("images.gz", images), ("labels.gz", labels)):
            files.append(known(f"mnist/{name}", content, f"{home}/{name}"))
            if there:
                write(tmp_path, f"mnist/{name}", content)
        monkeypatch.setitem(catalogue.MNIST, "test", tuple(files))
        return tmp_path

    return place


def test_an_image_is_the_set_of_its_inked_pixels(place):
    folder = place(idx_images(IMAGES), idx_labels([5, 7]))
    digits, labels, about = load_mnist("test", folder=folder, download=False)
    np.testing.assert_allclose(digits[0][0], [[3 / 28, 4 / 28, 255 / 256], [27 / 28, 0, 1 / 256]])
    np.testing.assert_allclose(digits[0][1], [0.5, 0.5])
    np.testing.assert_allclose(digits[1][0], [[0.5, 0.25, 0.5]])
    assert labels.tolist() == [5, 7]
    assert labels.dtype == np.int64
    assert about["name"] == "MNIST (test)"
    assert about["verified"] == "sha256"
    assert about["home"] == "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (struct.pack(">2i", 2049, 2) + bytes(2), [5, 7], r"images\.gz is not the idx file.*begins with 2049, not 2051"),
        (b"", [5, 7], "begins with 0, not 2051"),
        (struct.pack(">4i", 2051, 1, 28, 28) + bytes(784), [5, 7], "has 1 images, .* 2 labels"),
        (struct.pack(">4i", 2051, 2, 28, 28) + bytes(10), [5, 7], r"claims the shape \(2, 28, 28\), but 10 bytes"),
        (struct.pack(">4i", 2051, 1, 2, 2) + bytes(4), [5], r"claims the shape \(1, 2, 2\)"),
        (struct.pack(">4i", 2051, -1, 28, 28) + bytes(784), [5], "claims the shape"),
        (struct.pack(">i", 2051), [5], "claims the shape .* but 0 bytes"),
    ],
    ids=["labels", "nothing", "fewer", "short", "small", "negative", "magic"],
)
def test_files_that_are_not_what_they_should_be_are_reported(place, images, labels, message):
    folder = place(gzip.compress(images), idx_labels(labels))
    with pytest.raises(ValueError, match=message):
        load_mnist("test", folder=folder, download=False)


def test_a_file_that_is_not_packed_is_reported(place):
    with pytest.raises(ValueError, match=r"images\.gz cannot be unpacked"):
        load_mnist("test", folder=place(b"not packed", idx_labels([5])), download=False)


def test_a_split_that_is_not_there_is_reported(tmp_path):
    with pytest.raises(ValueError, match="split must be one of 'train', 'test'; found 'val'"):
        load_mnist("val", folder=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"mnist/train-images-idx3-ubyte\.gz is not there.*440fcabf"):
        load_mnist("train", folder=tmp_path, download=False)


def test_both_files_are_downloaded(place):
    images, labels = idx_images(IMAGES), idx_labels([5, 7])
    with serving(files={"images.gz": images, "labels.gz": labels}) as site:
        folder = place(images, labels, site.url, there=False)
        assert load_mnist("test", folder=folder).labels.tolist() == [5, 7]
    assert len(site.requests) == 2
