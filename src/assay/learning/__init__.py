"""Training from verified attempts: curation, credit assignment, training rows, exports, and the built-in trainer."""
