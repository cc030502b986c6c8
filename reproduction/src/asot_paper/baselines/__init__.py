"""The methods that anchor spaces are compared with, each behind the same pairs, threads and results.

>>> import numpy as np, asot
>>> from asot_paper import baselines
>>> rng = np.random.default_rng(0)
>>> D = asot.Distributions.from_list([rng.normal(i, 1.0, size=(20 + i, 2)) for i in range(4)])
>>> baselines.ot_emd(D).matrix().shape == baselines.sliced(D, random_state=0).matrix().shape
True
"""

from asot_paper.baselines.bds_eot import block_diagonal
from asot_paper.baselines.emd import ot_emd
from asot_paper.baselines.eot import entropic
from asot_paper.baselines.fresh_directions import sliced
from asot_paper.baselines.ott import ott_low_rank
from asot_paper.baselines.pot import low_rank, pot_emd, pot_sinkhorn, pot_sliced

__all__ = [
    "block_diagonal",
    "entropic",
    "low_rank",
    "ot_emd",
    "ott_low_rank",
    "pot_emd",
    "pot_sinkhorn",
    "pot_sliced",
    "sliced",
]
