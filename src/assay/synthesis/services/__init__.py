"""Makes tasks in worlds of services from walks over their actions.

`walk` draws plans of writes and finds the reads that they need, `instruction` writes what a person says, `family` keeps
the plans that make sound tasks.
"""
