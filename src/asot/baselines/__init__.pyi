from asot_paper.baselines.bds_eot import block_diagonal as block_diagonal
from asot_paper.baselines.emd import ot_emd as ot_emd
from asot_paper.baselines.eot import entropic as entropic
from asot_paper.baselines.ott import ott_low_rank as ott_low_rank
from asot_paper.baselines.pot import low_rank as low_rank
from asot_paper.baselines.pot import pot_emd as pot_emd
from asot_paper.baselines.pot import pot_sinkhorn as pot_sinkhorn
from asot_paper.baselines.pot import pot_sliced as pot_sliced

from asot.baselines.sliced_wasserstein import sliced as sliced
