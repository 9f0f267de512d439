"""What runs inside the verifier's sandbox: a trusted parent, and the tests' process that it watches.

`runner` is the parent, `child` the process in which pytest and the code under test run, `probes` what comparisons in
test files are checked with. The folder is mounted read-only and started by the tool layer's own interpreter; it needs
the standard library and pytest, nothing of ours.
"""
