"""The known files: where each belongs in the data folder, where it can be downloaded, and its checksum.

A checksum makes sure that a result is about the data that it names. Six TU archives are known by the bytes of one
public copy. The same graphs, packed differently, are known by a checksum of the graphs themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

_TU_HOME = "https://www.chrsmrrs.com/graphkerneldatasets"
_TU_COPY = "https://raw.githubusercontent.com/bknyaz/graph_nn/42424688d23f34f6b6e9b4c110f3381c02198312/data"
_ZINC_HOME = "https://raw.githubusercontent.com/wengong-jin/icml18-jtnn/master/data/zinc"
_MNIST_HOMES = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)


@dataclass(frozen=True)
class KnownFile:
    """A file of the data folder.

    ``place`` is its path in the folder. ``urls`` are tried in turn; without any, the file is used if it is there and
    never downloaded. ``sha256`` and ``n_bytes`` are None where any content is accepted.
    """

    place: str
    urls: tuple[str, ...] = ()
    sha256: str | None = None
    n_bytes: int | None = None

    @property
    def name(self) -> str:
        return self.place.rpartition("/")[2]


_TU_FILES = {  # sha256 and size of the archive, sha256 of the graphs
    "MUTAG": (
        "20f52db82d6d85d5f67d2fa42c3fb705d05934be44329314ab17b05d0c012f7e", 24_422,
        "2db675bb1b410e846aa6f56c7c8889c2aea64ad2f1fecf11ed8edea0b429d0b5",
    ),
    "PTC_MR": (
        "2f935126a9ec684e13ed9ff5ea389f62c4c70f41dcedb3e1114c0b0947103200", 34_185,
        "885fa97504419e3e469aba0a84d518c82767b6c2b4686282300e2379680b9254",
    ),
    "ENZYMES": (
        "0ca7125d7978788346fc6ba5c3cc643b6122153b304220c2230bcb09f99f8ffb", 536_482,
        "359f5d336b9927a78409b55841c0f2f11a339bcd1c3b5d210e099bda0150719a",
    ),
    "BZR": (
        "1f861d71a881914dd3da323f2b3b2f2f285ed03558d1277fddc021e1cd7bf18b", 276_978,
        "7016caee0d182a0697448665a2be280a5fd5f6aeef7989c41a7ab8277da2c595",
    ),
    "COX2": (
        "82e7287b19a29b8150b5fae374ca09fe6e8b91fa71993fb7eaa31e4566b2eddd", 365_096,
        "f02339e478fd107b800f7f00c4a38c53de545e3e1eb2dec59fc084974a5a1040",
    ),
    "NCI1": (
        "eae6b0c076d59e667c67de0039cfc3214eefb91a8dddc2fa3099126da02d4376", 802_908,
        "4b95b79c0a61091a0d60ae7f80dcbac8c661550744f8abf2a27bf13ee32ce238",
    ),
}  # fmt: skip

TU_GRAPHS = {name: graphs for name, (_, _, graphs) in _TU_FILES.items()}
"""sha256 of the graphs of a known TU set, as `asot_paper.datasets.tu.graphs_digest` computes it."""


def tu_archive(name: str) -> KnownFile:
    """The archive of any TU set; only the known ones have a checksum."""
    if name in _TU_FILES:
        sha256, n_bytes, _ = _TU_FILES[name]
        return KnownFile(f"tu/{name}.zip", (f"{_TU_COPY}/{name}.zip",), sha256, n_bytes)
    return KnownFile(f"tu/{name}.zip", (f"{_TU_HOME}/{name}.zip",))


ZINC_SMILES = {  # for each split: what is used if it is there, and last what can be downloaded
    "train": (
        KnownFile("zinc/train.smi.xz", (), "9f49dd59c8280e4cc0e3f548759073858a2e4a768e1fd474edc1286649002439"),
        KnownFile(
            "zinc/train.txt", (f"{_ZINC_HOME}/train.txt",),
            "a3b0ec77d45a6d5cc6884532145de6fc310f4a6da77d25babcd9449e03a027c7", 9_971_283,
        ),
    ),
    "val": (
        KnownFile("zinc/val.smi.xz", (), "0423dc461c0d0b04708f607b22e75918d50d06f44e21a4d9c549299b0db3022a"),
        KnownFile(
            "zinc/valid.txt", (f"{_ZINC_HOME}/valid.txt",),
            "ad7d9c2bfebd93ffda6c32ed0e89d1714ae1f592f6340c0e6ae057521bbae30d", 1_106_144,
        ),
    ),
    "test": (
        KnownFile("zinc/test.smi.xz", (), "3b9c4535e0c269567419ae05774a866baa9646c1e2093e9a7876b4ce413b0c52"),
        KnownFile(
            "zinc/test.txt", (f"{_ZINC_HOME}/test.txt",),
            "31f6ce92914814db33bf0dbfc45f3836193e27cb80a59c54d88bc05a1f5fab83", 225_615,
        ),
    ),
}  # fmt: skip

ZINC_GRAPHS = KnownFile(
    "zinc/zinc_graphs.npz", (), "25080aaec242310bd6219a07f7572557e033f2d5100c03e06250265f156dfd9d", 5_854_694
)
"""The molecules as graphs of elements, made from the SMILES once, for machines without RDKit."""


def _mnist(name: str, sha256: str, n_bytes: int) -> KnownFile:
    return KnownFile(f"mnist/{name}", tuple(f"{home}/{name}" for home in _MNIST_HOMES), sha256, n_bytes)


MNIST = {  # images and labels of each split
    "train": (
        _mnist(
            "train-images-idx3-ubyte.gz",
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9_912_422,
        ),
        _mnist(
            "train-labels-idx1-ubyte.gz",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28_881,
        ),
    ),
    "test": (
        _mnist(
            "t10k-images-idx3-ubyte.gz",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1_648_877,
        ),
        _mnist(
            "t10k-labels-idx1-ubyte.gz",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4_542,
        ),
    ),
}  # fmt: skip
