"""Typer without shell completion, markup and decorated tracebacks, for all commands and groups."""

from __future__ import annotations

from functools import partial
from typing import Final

import typer

plain_typer: Final = partial(typer.Typer, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
"""Makes an app; arguments as those of `typer.Typer`."""
