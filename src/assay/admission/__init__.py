"""Proves verifiers sound before their verdicts are used."""
