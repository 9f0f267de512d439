"""What one try writes down: its chain, its model calls, its commands, without secrets."""
