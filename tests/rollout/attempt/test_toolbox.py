"""Tool servers of a task, as programs in its sandbox get them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.environments.workspace.process import ProcessBackend
from assay.errors import UserError
from assay.records import EnvironmentSpec, Task
from assay.rollout import RunConfig
from assay.rollout.attempt.preparation import Preparer
from assay.settings import Settings
from assay.tasks import LoadedTask

pytestmark = pytest.mark.quick


def servers_of(tmp_path: Path, *servers: Any) -> list[tuple[str, str]]:
    spec = EnvironmentSpec("workspace", {"mcp_servers": list(servers)})
    task = Task("t", "do it", spec, (), digest="blake3:0")
    preparer = Preparer(ProcessBackend(), RunConfig(tasks=("-",)), Settings(cache=tmp_path, store=tmp_path))
    return [(server.name, server.url) for server in preparer.toolbox(LoadedTask(task, None)).servers]


def test_names_that_are_alike_in_plain_letters_stay_distinct(tmp_path: Path) -> None:
    given = [{"name": name, "url": f"http://{at}"} for at, name in enumerate(("a-3", "a", "a!", "\u00fc", "server"))]
    names = [name for name, _ in servers_of(tmp_path, *given)]
    assert names == ["a-3", "a", "a-2", "server", "server-2"]


@pytest.mark.parametrize(
    ("server", "part"),
    [
        ({}, "missing required field `name`"),
        ({"name": "a"}, "'a' needs a url"),
        ({"name": "a", "transport": "stdio", "url": "http://x"}, "'a' needs a command"),
        ({"name": "a", "transport": "http", "url": "http://x"}, "Invalid enum value 'http'"),
        ("a", "Expected `object`, got `str`"),
    ],
)
def test_servers_of_generated_tasks_are_checked(server: Any, part: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"environment\.mcp_servers") as raised:
        servers_of(tmp_path, server)
    assert part in str(raised.value)
