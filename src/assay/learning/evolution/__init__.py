"""Search over an agent's configuration, with a gate on tasks that the search never saw."""
