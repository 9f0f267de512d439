"""Programs for the sandboxes of the verifier: they need the standard library (the plugin: pytest) and nothing else.

Where a test is judged from outside, `splice_plugin` runs with pytest in the judge's sandbox, `splice_worker` with the
agent's package in the worker's, and `splice_codec` is the language that they speak over two pipes.
"""
