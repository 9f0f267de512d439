"""Applications of our own, one file each; every one is a `Service` that entry point `assay.services` names."""
