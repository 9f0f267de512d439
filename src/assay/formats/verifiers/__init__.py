"""Traces of verifiers and of NeMo Gym."""
