"""Runs that go in and out, and recording without a run."""
