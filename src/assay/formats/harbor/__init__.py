"""Harbor's jobs, and ATIF, its trajectory format."""
