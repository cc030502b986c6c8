"""Other distances between collections: sliced Wasserstein, and entropic transport on the points themselves.

>>> import numpy as np, asot
>>> from asot import baselines
>>> rng = np.random.default_rng(0)
>>> D = asot.Distributions.from_list([rng.normal(i, 1.0, size=(20 + i, 2)) for i in range(4)])
>>> baselines.sliced(D, random_state=0).matrix().shape
(4, 4)
"""

from asot.baselines.eot import entropic
from asot.baselines.sliced_wasserstein import sliced

__all__ = ["entropic", "sliced"]
