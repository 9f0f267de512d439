"""The built-in trainer: plain PyTorch on rows of verified attempts, for small models on one device (`assay[train]`)."""
