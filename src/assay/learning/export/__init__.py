"""Exports for other trainers: one module per target, each a projection of training rows or messages."""
