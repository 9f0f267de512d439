"""Verified attempts as other trainers take them: one file a target, each a projection of training rows or messages."""
