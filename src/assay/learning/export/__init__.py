"""Exports for other trainers: one module per trainer, each target a projection of training rows or messages."""
