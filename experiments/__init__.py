"""Preregistered experiments, scripted: `docs/experiments/` says what each asks, and what came of it.

`python -m experiments.NAME --record` runs one with the seeds of its plan and writes `experiments/results`, with the
commit, the seeds, and bars that are decided by code; `python -m experiments.pages` makes the tables of the pages of
these files. Some experiments with a browser, or with hours of training, print their tables or keep them elsewhere.
"""
