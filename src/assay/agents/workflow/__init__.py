"""Declared workflows: nodes with parameters, conditions and routes; checked, executed and followed."""
