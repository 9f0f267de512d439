"""One attempt, from an open sandbox to a closed record."""
