"""Adversaries: one file a cheat. `CHEATS` lists them all."""
