"""All Wasserstein distances within a collection of distributions.

>>> import numpy as np, asot
>>> rng = np.random.default_rng(0)
>>> D = asot.Distributions.from_list([rng.normal(size=(n, 2)) for n in (5, 8, 13)])
>>> asot.pairwise_exact(D).matrix().shape
(3, 3)

Names are loaded when first used (`asot.lazy`), as ``__init__.pyi`` lists them.
"""

from asot.lazy import attach

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = attach(__name__, __file__, renamed={"barycentre": "barycenter"})
