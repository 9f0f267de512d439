"""Skips tests of what is not installed. Packages are not imported: every worker collects all tests, and one runs
them."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

__all__ = ["require_browser", "require_packages"]


def require_packages(*names: str) -> None:
    """Skips the tests of a module if a package is not installed."""
    for name in names:
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)


def require_browser() -> None:
    """Skips a test if there is no Chromium."""
    from assay.environments.browser.chromium import find_program
    from assay.errors import UserError

    try:
        find_program()
    except UserError as exc:
        pytest.skip(str(exc))
