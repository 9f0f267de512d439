"""Import and export of runs, and recording without a run."""
