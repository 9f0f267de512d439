"""Reuse of recorded attempts: re-verification, replay, counterfactual continuation."""
