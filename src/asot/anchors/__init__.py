"""Learning an anchor space: one estimator per file, all of them ending in an `AnchorSpace`."""
