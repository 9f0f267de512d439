"""Signals, graphs, consistency, integrity, attribution and contracts: pure functions over trajectories."""
