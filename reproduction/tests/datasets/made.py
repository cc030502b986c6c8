"""Small files of the kinds that the loaders read."""

import gzip
import hashlib
import io
import struct
import zipfile

import numpy as np
from asot_paper.datasets.catalogue import KnownFile

TABLES = {  # a path of three nodes, a single edge, and a lonely node; labels begin at 5
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n3\n",
    "graph_labels": "1\n-1\n1\n",
    "node_labels": "5\n7\n5\n7\n7\n9\n",
    "node_attributes": "0.5, 1\n1.5, 2\n2.5, 3\n3.5, 4\n4.5, 5\n5.5, 6\n",
}


def tu_zip(name="TINY", folder="TINY//", **changes):
    """The bytes of a TU archive; a table that is None is left out."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{folder}README.txt", "made for a test")
        for kind, text in (TABLES | changes).items():
            if text is not None:
                archive.writestr(f"{folder}{name}_{kind}.txt", text)
    return stream.getvalue()


def write(folder, place, content):
    """Put bytes at a place in the data folder."""
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def known(place, content, *urls):
    """A file that is known by its content."""
    return KnownFile(place, urls, hashlib.sha256(content).hexdigest(), len(content))


def idx_images(images):
    return gzip.compress(struct.pack(">4i", 2051, *images.shape) + images.astype(np.uint8).tobytes())


def idx_labels(labels):
    return gzip.compress(struct.pack(">2i", 2049, len(labels)) + np.asarray(labels, np.uint8).tobytes())
