"""Programs for the sandboxes of the verifier: they import the standard library (some also pytest), nothing of assay.

`assay_supervisor` runs and records tests. If a test is judged from outside, `splice_plugin` runs with pytest in the
judge's sandbox, `splice_worker` with the agent's package in the worker's, and `splice_codec` encodes their messages.
"""
