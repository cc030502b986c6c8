"""Numbers that others published about Wasserstein distances between collections, run again with asot.

Each module is one table and one command, ``python -m asot_paper.elsewhere.NAME --data DIR``. A number of theirs is in a
column that names them; ours are computed here, with the seed and the machine.
"""
