"""Curation: selects attempts for training, with the reason for each, and derives lessons from failed ones."""
