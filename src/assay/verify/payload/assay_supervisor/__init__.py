"""Programs of the verifier's own sandbox: the supervisor of a test run, and the tests' process.

`runner` is the supervisor, `child` the process in which pytest and the code under test run, `probes` checks the
comparisons in test files, and `assay_judge` starts judged programs for a script. The folder is mounted read-only and
started by the tool layer's interpreter; it imports the standard library and pytest, nothing of assay.
"""
