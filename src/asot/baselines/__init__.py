"""Other distances between collections: sliced Wasserstein, and those of asot-paper where it is installed.

>>> import numpy as np, asot
>>> from asot import baselines
>>> rng = np.random.default_rng(0)
>>> D = asot.Distributions.from_list([rng.normal(i, 1.0, size=(20 + i, 2)) for i in range(4)])
>>> baselines.sliced(D, random_state=0).matrix().shape
(4, 4)
"""

from asot.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
