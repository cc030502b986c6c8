"""Learning an anchor space: one estimator per file, all of them producing an `AnchorSpace`."""
