"""Model backends, one file each."""
