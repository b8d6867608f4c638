"""Keeps the modules that were imported before this one from the garbage collector.

The process that forks nodes imports it last. The collector of each node would look through all modules again,
and write into every object: the nodes would get copies of memory that they can share.
"""

import gc

gc.collect()
gc.freeze()
