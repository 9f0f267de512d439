"""Programs that run inside a sandbox. They are copied there and started; nothing here is imported on the host."""

from __future__ import annotations

from pathlib import Path

__all__ = ["FORKED_TESTS"]

FORKED_TESTS = tuple(Path(__file__).with_name(f"{name}.py") for name in ("forked_tests", "live_functions"))
"""The program that runs a batch of test runs in the format of `assay.code.batches`, and what it imports, which is
copied into the same folder."""
