"""Text worlds: turn-based environments in this process, their tasks, and what turns them into environments of a run.

One file a family; `interface` is the protocol, `played` the way into `rollout`, `wrappers` what can be put around one.
"""
