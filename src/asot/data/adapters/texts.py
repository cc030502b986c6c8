"""Documents as distributions: a word is a point at its vector, and its count is the mass.

Only the vectors of words that occur are stored, each of them once.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from asot.data.reading import label_of
from asot.validation import FloatArray, as_choice, can_be_walked, not_finite, to_array, to_float_array

Flat = tuple[FloatArray, NDArray[Any], NDArray[Any], NDArray[np.float64], Any]


def flatten_texts(
    documents: Any, vectors: Any, words: Sequence[str] | None, idf: bool, norm: bool, unknown: str, ids: Any
) -> Flat:
    """Vectors (V, d) of the words that occur, the index of every word of every document among them, and the rest."""
    as_choice(unknown, "unknown", ("warn", "drop", "raise"))
    have_words = isinstance(vectors, Mapping) or hasattr(vectors, "key_to_index") or hasattr(vectors, "reindex")
    if words is not None and not hasattr(documents, "tocsr") and have_words:
        raise ValueError("words names the columns of a matrix, or the rows of an array of vectors; here is neither")
    if hasattr(documents, "tocsr"):
        counts, names = _counts_of_matrix(documents, words, vectors)
    else:
        counts, names = _counts_of_tokens(documents, ids)
    known, rows = _places(vectors, names, words)
    _say_unknown(counts, names, known, unknown)
    full = np.diff(counts.indptr)
    if len(known) < len(names):
        counts = counts[:, known]
    counts.eliminate_zeros()
    empty = np.diff(counts.indptr) == 0
    if empty.any():
        i = int(np.argmax(empty))
        what = "has no words" if full[i] == 0 else "has no word with a vector"
        name = label_of(i, ids, "document")
        raise ValueError(f"{name} {what} ({int(empty.sum()):,} of {len(empty):,} documents have none); drop it")
    if idf:
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        counts.data *= (np.log((1 + counts.shape[0]) / (1 + frequency)) + 1.0)[counts.indices]
    support = _vectors_of(vectors, rows, [names[i] for i in known])
    if norm:
        length = np.linalg.norm(support, axis=1, keepdims=True)
        if not length.all():
            word = names[known[int(np.argmin(length))]]
            raise ValueError(f"the vector of {word!r} is zero and cannot be scaled to length 1; drop it, or norm=False")
        support = support / length.astype(support.dtype)
    return support, counts.indices, counts.indptr, counts.data, ids


def _counts_of_tokens(documents: Any, ids: Any) -> tuple[Any, list[str]]:
    """Counts (N, V), sparse, over the words that occur, in order of appearance."""
    if isinstance(documents, str) or not can_be_walked(documents):
        raise ValueError("documents must be a list of token lists, such as [text.split() for text in texts]")
    tokens = list(documents)
    if not tokens:
        raise ValueError("documents is empty: a collection needs at least one")
    for i, entry in enumerate(tokens):
        if isinstance(entry, str) or not hasattr(entry, "__len__"):
            name = label_of(i, ids, "document")
            raise ValueError(
                f"{name} is a {type(entry).__name__}, not a list of tokens; split it, such as text.split()"
            )
    place: dict[Any, int] = {}
    sizes = np.array([len(entry) for entry in tokens])
    every = itertools.chain.from_iterable(tokens)
    try:
        columns = np.fromiter((place.setdefault(token, len(place)) for token in every), np.int32, int(sizes.sum()))
        odd = next((word for word in place if not isinstance(word, str)), None)
    except TypeError:  # what cannot be hashed is no word
        odd = next(word for entry in tokens for word in entry if not isinstance(word, str))
    if odd is not None:
        raise ValueError(f"documents must hold words; found {odd!r}")
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    indptr = indptr.astype(np.int32) if indptr[-1] < 2**31 else indptr  # SciPy wants both of one kind
    counts = sparse.csr_array((np.ones(len(columns)), columns, indptr), shape=(len(tokens), len(place)))
    counts.sum_duplicates()
    return counts, list(place)


def _counts_of_matrix(matrix: Any, words: Sequence[str] | None, vectors: Any) -> tuple[Any, list[Any]]:
    counts = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    counts.sum_duplicates()
    bad = ~(np.isfinite(counts.data) & (counts.data >= 0))
    if bad.any():
        row = int(np.searchsorted(counts.indptr, int(np.argmax(bad)), side="right")) - 1
        raise ValueError(f"document {row} has the weight {counts.data[bad][0]:g}; weights must be finite and ≥ 0")
    if words is None:
        if isinstance(vectors, np.ndarray) and len(vectors) == counts.shape[1]:
            return counts, list(range(counts.shape[1]))
        raise ValueError("words must name the columns of the matrix: words=vectorizer.get_feature_names_out()")
    if len(words) != counts.shape[1]:
        raise ValueError(f"words names {len(words):,} columns, but the matrix has {counts.shape[1]:,}")
    return counts, list(words)


def _places(vectors: Any, names: list[Any], words: Sequence[str] | None) -> tuple[NDArray[Any], Any]:
    """Which of the words have a vector, and where it is: a row of an array, or a key."""
    lookup: Any
    if hasattr(vectors, "key_to_index"):  # gensim
        lookup = vectors.key_to_index
    elif hasattr(vectors, "wv"):
        raise ValueError("vectors is a gensim model; pass its vectors: model.wv")
    elif hasattr(vectors, "reindex"):  # pandas
        lookup = {word: i for i, word in enumerate(vectors.index)}
    elif isinstance(vectors, Mapping):
        known = np.array([i for i, name in enumerate(names) if name in vectors], dtype=np.int64)
        return known, [names[i] for i in known]
    elif words is None:
        if names and isinstance(names[0], str):
            raise ValueError("words must name the rows of the array of vectors, or pass {word: vector}")
        return np.arange(len(names)), np.arange(len(names))
    else:
        if len(words) != len(vectors):
            raise ValueError(f"words names {len(words):,} rows, but there are {len(vectors):,} vectors")
        lookup = {word: i for i, word in enumerate(words)}
    places = np.array([lookup.get(name, -1) for name in names], dtype=np.int64)
    known = np.flatnonzero(places >= 0)
    return known, places[known]


def _vectors_of(vectors: Any, rows: Any, names: list[Any]) -> FloatArray:
    """The vectors (V, d) of words, in memory of their own."""
    if isinstance(vectors, Mapping):
        chosen = [np.asarray(vectors[word]) for word in rows]
        for word, vector in zip(rows, chosen, strict=True):
            if vector.shape != chosen[0].shape or vector.ndim != 1:
                raise ValueError(
                    f"the vector of {word!r} has shape {vector.shape}, but that of {rows[0]!r} {chosen[0].shape}"
                )
        found = np.stack(chosen)
    else:
        table = getattr(vectors, "vectors", vectors) if hasattr(vectors, "key_to_index") else vectors
        table = to_array(table, "vectors")
        if table.ndim != 2:
            raise ValueError(f"vectors must be (V, d); found shape {table.shape}")
        found = table[rows]  # a copy
    support = to_float_array(found, "vectors", keep_float32=True)
    if odd := not_finite(support):
        raise ValueError(f"the vector of {names[odd[0]]!r} is {support[odd]} in column {odd[1]}; it must be finite")
    return support


def _say_unknown(counts: Any, names: list[Any], known: NDArray[Any], unknown: str) -> None:
    if len(known) == len(names) or unknown == "drop":
        return
    missing = np.ones(len(names), dtype=np.bool_)
    missing[known] = False
    lost = float(counts.data[missing[counts.indices]].sum())
    share = lost / max(float(counts.data.sum()), 1e-300)
    example = names[int(np.argmax(missing))]
    text = (
        f"{int(missing.sum()):,} of {len(names):,} words have no vector, such as {example!r}: {share:.1%} of the text"
    )
    if unknown == "raise":
        raise ValueError(f"{text}; add them, or leave them out with unknown='drop'")
    warnings.warn(f"{text} is left out", stacklevel=4)
