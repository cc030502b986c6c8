"""Documents, with gensim's and scikit-learn's own objects, against gensim's word mover's distance."""

import numpy as np
import pytest

import asot
from asot.data.distributions import Distributions

DOCUMENTS = [["cat", "dog", "cat"], ["bus", "car"], ["cat", "bus", "bus"]]
VECTORS = {"cat": [0.0, 1.0], "dog": [0.2, 1.0], "bus": [3.0, 0.5], "car": [3.2, 0.1]}


def keyed_vectors(vectors):
    gensim = pytest.importorskip("gensim.models")
    keyed = gensim.KeyedVectors(len(next(iter(vectors.values()))))
    keyed.add_vectors(list(vectors), np.array(list(vectors.values()), dtype=np.float32))
    return keyed


def test_every_kind_of_vectors_gives_the_same_distances():
    pandas = pytest.importorskip("pandas")
    D = Distributions.from_texts(DOCUMENTS, VECTORS, ids=["a", "b", "c"])
    assert D.masses.tolist() == pytest.approx([2 / 3, 1 / 3, 0.5, 0.5, 1 / 3, 2 / 3])
    assert D.ids.tolist() == ["a", "b", "c"]
    frame = pandas.DataFrame(VECTORS).T
    table = np.array(list(VECTORS.values()))
    for vectors, words in ((keyed_vectors(VECTORS), None), (frame, None), (table, list(VECTORS))):
        other = Distributions.from_texts(DOCUMENTS, vectors, words=words)
        np.testing.assert_allclose(asot.pairwise_exact(other).values, asot.pairwise_exact(D).values, rtol=1e-6)


def test_it_is_gensims_word_movers_distance():
    pytest.importorskip("ot")
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(40)]
    keyed = keyed_vectors({word: rng.normal(size=8) for word in words})
    documents = [list(rng.choice(words, size=12)) for _ in range(4)]
    for norm in (True, False):
        r = asot.pairwise_exact(Distributions.from_texts(documents, keyed, norm=norm))
        for (i, j), value in zip(r.pairs, r.values, strict=True):
            assert value == pytest.approx(keyed.wmdistance(documents[i], documents[j], norm=norm), rel=1e-4)


def test_matrices_of_scikit_learn_are_read():
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

    texts = [" ".join(words) for words in DOCUMENTS]
    counter = CountVectorizer()
    D = Distributions.from_texts(counter.fit_transform(texts), VECTORS, words=counter.get_feature_names_out())
    tokens = Distributions.from_texts(DOCUMENTS, VECTORS)
    np.testing.assert_allclose(asot.pairwise_exact(D).values, asot.pairwise_exact(tokens).values, rtol=1e-12)
    tfidf = TfidfVectorizer(norm=None)
    weighted = Distributions.from_texts(tfidf.fit_transform(texts), VECTORS, words=tfidf.get_feature_names_out())
    by_idf = Distributions.from_texts(DOCUMENTS, VECTORS, idf=True)
    np.testing.assert_allclose(asot.pairwise_exact(weighted).values, asot.pairwise_exact(by_idf).values, rtol=1e-12)
    plain = Distributions.from_texts(counter.transform(texts), np.eye(4))
    assert plain.dim == 4


def test_unknown_words_are_counted_and_said():
    documents = [*DOCUMENTS, ["cat", "zebra", "yak", "zebra"]]
    with pytest.warns(UserWarning, match="2 of 6 words have no vector, such as 'zebra': 25.0% of the text is left out"):
        D = Distributions.from_texts(documents, VECTORS)
    assert D.sizes.tolist() == [2, 2, 2, 1]
    assert Distributions.from_texts(documents, VECTORS, unknown="drop") == D
    with pytest.raises(ValueError, match="2 of 6 words have no vector"):
        Distributions.from_texts(documents, VECTORS, unknown="raise")
    with pytest.raises(ValueError, match=r"document 3 \('d'\) has no word with a vector \(1 of 4 documents"):
        Distributions.from_texts([*DOCUMENTS, ["zebra"]], VECTORS, unknown="drop", ids=list("abcd"))
    with pytest.raises(ValueError, match="document 1 has no words"):
        Distributions.from_texts([["cat"], []], VECTORS)


def test_only_the_words_that_occur_are_held():
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(2000)]
    keyed = keyed_vectors({word: rng.normal(size=50) for word in words})
    D = Distributions.from_texts([list(rng.choice(words[:30], size=20)) for _ in range(100)], keyed)
    support, _ = D.vocabulary
    assert len(support) == 30
    assert "points" not in vars(D)
    keyed.vectors[:] = np.nan
    assert np.isfinite(asot.pairwise_exact(D[:3]).values).all()


def test_what_is_wrong_is_reported():
    pandas = pytest.importorskip("pandas")
    from scipy import sparse

    for call, message in (
        (lambda: Distributions.from_texts("a b", VECTORS), r"such as \[text.split\(\) for text in texts\]"),
        (lambda: Distributions.from_texts(["a b"], VECTORS), "document 0 is a str, not a list of tokens"),
        (lambda: Distributions.from_texts([], VECTORS), "documents is empty"),
        (lambda: Distributions.from_texts([[1, 2]], VECTORS), "documents must hold words; found 1"),
        (lambda: Distributions.from_texts(DOCUMENTS, np.eye(4)), "words must name the rows of the array of vectors"),
        (lambda: Distributions.from_texts(DOCUMENTS, np.eye(4), words=["cat"]), "words names 1 rows, but there are 4"),
        (lambda: Distributions.from_texts(sparse.eye(2), VECTORS), "words must name the columns of the matrix"),
        (lambda: Distributions.from_texts(sparse.eye(2), VECTORS, words=["cat"]), "words names 1 columns, but the"),
        (lambda: Distributions.from_texts(-sparse.eye(1), VECTORS, words=["cat"]), "document 0 has the weight -1"),
        (lambda: Distributions.from_texts([["a", "b"]], {"a": [0.0], "b": [0.0, 1.0]}), r"the vector of 'b' has shape"),
        (lambda: Distributions.from_texts([["a"]], {"a": [np.nan]}), "the vector of 'a' is nan in column 0"),
        (lambda: Distributions.from_texts([["a"]], {"a": [0.0]}, norm=True), "the vector of 'a' is zero"),
        (lambda: Distributions.from_texts(DOCUMENTS, VECTORS, unknown="x"), "unknown must be one of"),
        (lambda: Distributions.from_texts([["a"]], pandas.DataFrame(index=["b"]), unknown="drop"), "has no word with"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
