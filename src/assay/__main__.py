"""`python -m assay`: the command `assay` of the interpreter that runs it."""

from __future__ import annotations

from assay.cli import main

if __name__ == "__main__":
    main()
