"""Parts of the site that no package on PyPI has: figures from a page's own code, charts from measured tables, checks.

Every module has a ``setup`` that ``docs/conf.py`` calls, or functions that another one uses. No number is typed here:
what is measured is read from ``benchmarks/results``, what is drawn is computed by asot.
"""
