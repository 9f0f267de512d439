"""Tests of one folder that share an event loop and a sandbox backend, whose start costs more than most tests."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path

import pytest

__all__ = ["share_loop"]


def share_loop(items: Iterable[pytest.Item], folder: Path) -> None:
    """Runs the asynchronous tests of a folder in the session's event loop."""
    for item in items:
        is_async = isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function)
        if is_async and folder in item.path.parents:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
