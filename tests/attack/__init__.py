"""Random attacks on everything that is promised about values, for as long as one likes.

    python -m tests.attack [family ...] [--seconds 60] [--seed 0] [--round R] [--list]

Every family makes random and degenerate problems and compares what the package says with something independent:
rational numbers, brute force, other solvers, or the same problem asked in another way. A round has a seed of its own,
so that a finding is repeated by its family, seed and round. The run prints how much was compared with whom, the largest
difference, and every finding with a reproduction; with findings it ends with 1.
"""
