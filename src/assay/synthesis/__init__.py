"""Makes tasks and environments."""
