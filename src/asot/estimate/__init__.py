"""Calibrated estimates: features of a pair, a sample of exact pairs, a fit, and how well it did."""
