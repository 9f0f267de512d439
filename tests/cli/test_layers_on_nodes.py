"""Two machines with folders of their own: layers that the first one made, and attempts that need one of the two."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from assay.environments.workspace.cached_layers import read_cached
from assay.environments.workspace.layer_exchange import LayerRecipe
from assay.environments.workspace.toolchain import recipe_name
from assay.settings import Settings
from assay.store import RunStore
from tests.admission.folders import CAREFUL, write_task
from tests.optional import require_packages

require_packages("obstore")
PROGRAM = "import sys; from assay.cli import main; sys.argv[0] = 'assay'; main()"
DOCKERFILE = "FROM scratch\nRUN head -c 32 /dev/urandom > /stamp\n"
"""Gives another layer each time that it is executed."""
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the program with folders of its own, and without the package index."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(machine: str, *words: str) -> subprocess.Popen[bytes]:
        (tmp_path / machine).mkdir(exist_ok=True)
        own = {name: str(tmp_path / machine / name.lower()) for name in ("ASSAY_CACHE", "ASSAY_STORE")}
        env = {**os.environ, **own, "PIP_NO_INDEX": "1", "ASSAY_NODE_TOKEN": "a-token-of-some-length"}
        with (tmp_path / f"{machine}.log").open("ab") as log:
            command = [sys.executable, "-c", PROGRAM, *words]
            started.append(subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, env=env))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def _run(start: Start, tmp_path: Path, run: str, node: str) -> list[str | None]:
    """Has an attempt done by a node; returns the outcomes."""
    place = ("--place", f"file://{tmp_path}/place")
    words = ("run", "task", "--agent", "oracle", "--run", run, "--nodes", "external", *place)
    command = start("command", *words)
    serving = start(node, "node", run, *place, "--slots", "1")
    codes = command.wait(120), serving.wait(60)
    assert codes == (0, 0), (tmp_path / "command.log").read_text() + (tmp_path / f"{node}.log").read_text()
    with RunStore.open(tmp_path / "command" / "assay_store", run) as store:
        return [row.outcome for row in store.attempts()]


def _stamps(tmp_path: Path, node: str) -> list[bytes]:
    return [path.read_bytes() for path in (tmp_path / node / "assay_cache" / "images").glob("*/stamp")]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_second_machine_downloads_what_the_first_one_made(start: Start, tmp_path: Path) -> None:
    task = write_task(tmp_path / "task", CAREFUL)
    (task / "environment" / "Dockerfile").write_text(DOCKERFILE, encoding="utf-8")
    (tmp_path / "place").mkdir()
    (tmp_path / "first" / "assay_cache").mkdir(parents=True)
    (tmp_path / "first" / "assay_cache" / "tools").symlink_to(Settings.from_environment().cache / "tools")
    assert _run(start, tmp_path, "one", "first") == ["pass"]
    assert _run(start, tmp_path, "two", "second") == ["pass"]
    assert _stamps(tmp_path, "second") == _stamps(tmp_path, "first")
    assert len(_stamps(tmp_path, "first")) == 1
    cache = tmp_path / "second" / "assay_cache"
    assert read_cached(cache, LayerRecipe("tools", recipe_name())) is not None
    assert "It is made on this machine" not in (tmp_path / "second.log").read_text()

    (changed,) = [path for path in (tmp_path / "place" / "layers").glob("*.zst") if path.stat().st_size < 10_000]
    changed.write_bytes(b"changed")
    (tmp_path / "third" / "assay_cache").mkdir(parents=True)
    (tmp_path / "third" / "assay_cache" / "tools").symlink_to(cache / "tools")
    assert _run(start, tmp_path, "three", "third") == ["pass"]
    assert _stamps(tmp_path, "third") != _stamps(tmp_path, "first")
    warning = (tmp_path / "third.log").read_text()
    assert f"layers/{changed.name} has fewer than its" in warning
    assert "It is made on this machine" in warning


def _write_asking_task(folder: Path, backend: str, gpus: int = 0) -> None:
    task = write_task(folder, CAREFUL) / "task.toml"
    text = task.read_text(encoding="utf-8").replace("memory_mb = 512", f"memory_mb = 512\ngpus = {gpus}")
    task.write_text(f'{text}\n[metadata.assay.environment]\nbackend = "{backend}"\n', encoding="utf-8")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_attempts_go_to_the_node_that_has_what_their_tasks_ask_for(start: Start, tmp_path: Path) -> None:
    for backend in ("namespaces", "bubblewrap"):
        _write_asking_task(tmp_path / "tasks" / backend, backend)
    (tmp_path / "place").mkdir()
    for machine in ("first", "second", "command"):
        (tmp_path / machine / "assay_cache").mkdir(parents=True)
        (tmp_path / machine / "assay_cache" / "tools").symlink_to(Settings.from_environment().cache / "tools")
    place = ("--place", f"file://{tmp_path}/place")
    command = start("command", "run", "tasks", "--agent", "oracle", "--run", "both", "--nodes", "external", *place)
    nodes = [
        start("first", "node", "both", *place, "--slots", "4", "--backend", "namespaces"),
        start("second", "node", "both", *place, "--slots", "4", "--backend", "bubblewrap"),
    ]
    logs = [tmp_path / f"{machine}.log" for machine in ("command", "first", "second")]
    assert [one.wait(240) for one in (command, *nodes)] == [0, 0, 0], "".join(log.read_text() for log in logs)
    with RunStore.open(tmp_path / "command" / "assay_store", "both") as store:
        found = [(row.task, row.isolation, row.outcome) for row in store.attempts()]
    assert sorted(found) == [(f"admission/{name}", name, "pass") for name in ("bubblewrap", "namespaces")]

    _write_asking_task(tmp_path / "stuck", "namespaces", gpus=1)
    local = start("command", "run", "stuck", "--agent", "oracle", "--run", "none", "--nodes", "2")
    assert local.wait(240) == 2
    problem = "@0 of run 'none' needs the sandbox 'namespaces' and 1 GPU(s), which no node has (local-"
    assert problem in logs[0].read_text().replace("\n", " ")
