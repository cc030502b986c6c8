"""
Documents as bags of word vectors
=================================

The word mover's distance: a document is a bag of word vectors. Similar words are near each other, so two documents can
be close without sharing a word. The vectors here are made up; in your work they come from a model.
"""

import numpy as np

import asot

rng = np.random.default_rng(1)
topics = {"sport": 0, "music": 1, "food": 2}
centers = 4.0 * rng.normal(size=(3, 50))
vocabulary = np.concatenate(
    [center + rng.normal(size=(40, 50)) for center in centers]
)  # 120 words
weights, subjects = [], []
for subject, topic in topics.items():
    for _ in range(12):
        counts = np.zeros(120)
        own = 40 * topic + rng.integers(0, 40, size=12)
        other = rng.integers(0, 120, size=4)
        np.add.at(counts, np.concatenate([own, other]), 1.0)
        weights.append(counts)
        subjects.append(subject)
documents = asot.Distributions.from_weights(np.array(weights), vocabulary)
distances = asot.pairwise_exact(documents)

# %%
# Subjects are well separated, even though two documents on the same subject share few words.

asot.plots.map(distances, labels=subjects, method="mds")
