"""Agents: baselines, the repair policy, and the plain tool-calling loop."""
