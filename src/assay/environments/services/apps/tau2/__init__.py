"""Domains of tau-bench and tau2-bench over the databases of those benchmarks, which the user names by a folder.

Actions have the names, arguments, effects and error texts of the originals, and a state has the original's hash
(`database_hash`). What differs: an action that raises changes nothing, arguments are checked against their types before
an action runs, errors begin with `Error (kind):`, and tables of a result are sorted by key.
"""
