"""Estimates, intervals and comparisons: pure functions over columns."""
