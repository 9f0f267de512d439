"""Makes tasks in worlds of services from walks over their actions.

`walk` draws plans of writes and finds the reads that they need, `instruction` writes what a person says, `family` keeps
the plans that make sound tasks. `tau2` takes the tasks of tau2-bench and tau-bench instead, whose scenarios `scenario`
turns into the script of a person.
"""
