"""Task folders and other task sources: read, validate, lint, write."""
