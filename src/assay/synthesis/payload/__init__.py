"""Programs that run inside a synthesis sandbox. They need the standard library and pytest alone.

`entry_trace` runs the deciding tests of a task and records through which functions of the package they reach what the
task changes; `false_entries` makes those functions answer falsely; `package_functions` finds and replaces functions,
and `value_shapes` describes values. They are copied into one folder together with the batch runner `forked_tests`.
"""
