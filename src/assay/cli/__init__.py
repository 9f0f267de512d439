"""The command line: one thin file per verb, no logic."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Entry point of the console script `assay`."""
    from .output import exit_on_errors, interrupt_on_termination

    with interrupt_on_termination(), exit_on_errors():
        from .app import build_app

        build_app()()
