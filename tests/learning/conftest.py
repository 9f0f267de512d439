"""Attempts with tokens, recorded by a real session; see `recorded`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.records import Body, Trajectory
from assay.store import RunStore
from tests.learning.recorded import Script, bodies, store_run


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer, enough to open a renderer. Needs no PyTorch."""
    pytest.importorskip("renderers")
    from scripts.tiny_model import write_tiny_tokenizer

    return write_tiny_tokenizer(tmp_path_factory.getbasetemp() / "tiny-tokenizer-of-rows")


@pytest.fixture(scope="session")
def renderer(model_folder: Path) -> Any:
    from assay.gateway.tokens.library import open_renderer

    return open_renderer(model_folder)


@pytest.fixture(scope="session")
def attempt(renderer: Any) -> Callable[..., list[Body]]:
    """An attempt's events: `attempt("a1", "up", "key:k", outcome="pass")`."""

    def make(chain: str, *moves: str, **how: Any) -> list[Body]:
        script = Script(renderer, moves or ("up", "right"))
        asyncio.run(script.play())
        return bodies(chain, script, **how)

    return make


@pytest.fixture
def trajectory(attempt: Callable[..., list[Body]], tmp_path: Path) -> Callable[..., Trajectory]:
    """The same, assembled."""

    def make(chain: str, *moves: str, **how: Any) -> Trajectory:
        root = store_run(tmp_path / chain, [attempt(chain, *moves, **how)])
        with RunStore.open(root, "r") as store:
            return store.trajectory(f"{chain}.0")

    return make


@pytest.fixture(scope="session")
def small_run(attempt: Callable[..., list[Body]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with run `r`: two plain passes, a doubted one, and two failures of one task."""
    root = tmp_path_factory.mktemp("small-run")
    made = [
        attempt("a0", "up", "right", number=0),
        attempt("a1", "up", "key:k", "right", number=1),
        attempt("a2", "up", "up", outcome="pass", integrity="fail", number=2),
        attempt("a3", "left", "left", outcome="fail", number=3),
        attempt("a4", "up", "left", outcome="fail", integrity=None, number=4),
    ]
    return store_run(root, made)
