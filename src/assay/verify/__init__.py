"""Checks that turn facts into verdicts."""
