"""Measurements: each script prints a table beside a peer or a limit that ran in the same minutes."""
