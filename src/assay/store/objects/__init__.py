"""The durable truth of a run on many machines: create-only objects in a folder or a bucket."""
