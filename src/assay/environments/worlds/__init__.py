"""Text worlds: turn-based environments in this process, their tasks and wrappers.

`interface` has the protocol, `played` adapts a text world to a run, `wrappers` modifies worlds; each family has a file.
"""
