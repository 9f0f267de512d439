"""Programs that run inside a sandbox. They are copied there and started; nothing here is imported on the host."""

from __future__ import annotations

from pathlib import Path

__all__ = ["FORKED_TESTS"]

FORKED_TESTS = Path(__file__).with_name("forked_tests.py")
"""Runs a batch of test runs in the format of `assay.code.batches`."""
