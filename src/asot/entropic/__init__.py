"""Entropic transport: Sinkhorn's iteration, with an implementation per device."""
