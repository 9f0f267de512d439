"""Preregistered experiments, scripted: `docs/experiments/` says what each asks, and what came of it."""
