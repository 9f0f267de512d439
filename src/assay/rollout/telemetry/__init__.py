"""Metrics and traces of attempts while they run; they observe, and decide nothing."""
