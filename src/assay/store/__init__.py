"""Where trajectories live: append, read, query, seal, and the hash chain."""
