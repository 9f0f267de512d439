"""Limits on an attempt: budgets, contracts, early stopping."""
