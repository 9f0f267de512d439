"""Standard-library programs that admission starts inside a sandbox. They import nothing from Assay."""
