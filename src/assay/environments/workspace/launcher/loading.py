"""Loads the program of a template before the launcher's own modules, so that it finds those of a fresh interpreter."""

from __future__ import annotations

import sys

MODULES: set[str] = set()
"""Names of the modules that were there when the program was loaded."""


def load(program: str) -> None:
    """Runs a program's file as the module `__main__`, without its last step, and imports what it uses."""
    names = vars(sys.modules["__main__"])
    names.update(__name__="template", __file__=program)
    with open(program, "rb") as file:
        exec(compile(file.read(), program, "exec"), names)
    if "preload" in names:
        names["preload"]()
    MODULES.update(sys.modules)
