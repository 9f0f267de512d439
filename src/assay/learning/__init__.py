"""From evidence to better agents: curation, credit, training rows and their exports, the built-in trainer."""
