"""The tools of a model, over a real workspace without isolation (they add none)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from assay.environments.interface import WorkspaceSpec
from assay.environments.tools import WorkspaceTools
from assay.environments.workspace.process import ProcessBackend
from assay.records import Observation

pytestmark = pytest.mark.newest


@pytest_asyncio.fixture(loop_scope="session")
async def tools() -> AsyncIterator[WorkspaceTools]:
    backend = ProcessBackend()
    workspace = await backend.open(WorkspaceSpec())
    await workspace.write("/workspace/a.py", b"one\n  two\nthree\ntwo\n", mode=0o755)
    await workspace.write("/workspace/bytes", b"\xff\xfe")
    yield WorkspaceTools(workspace)
    await backend.close()


async def content(tools: WorkspaceTools, name: str, **arguments: Any) -> str:
    observation = await tools.call(name, arguments)
    assert not observation.error, observation.content
    return observation.content


async def refused(tools: WorkspaceTools, name: str, **arguments: Any) -> str:
    observation: Observation = await tools.call(name, arguments)
    assert observation.error
    return observation.content


async def test_shell_tells_streams_codes_and_timeouts(tools: WorkspaceTools) -> None:
    seen = await tools.call("shell", {"command": "echo out; echo err >&2; exit 3"})
    assert (seen.content, seen.stderr, seen.exit_code, seen.error) == ("out\n", "err\n", 3, False)
    late = await tools.call("shell", {"command": "sleep 60", "timeout_s": 0.2})
    assert late.timed_out


async def test_long_output_is_kept_whole_where_there_is_a_place(tools: WorkspaceTools, tmp_path: Path) -> None:
    class Kept:
        def put_file(self, path: Path) -> str:
            return path.rename(tmp_path / "whole").name

    tools = WorkspaceTools(tools._workspace, spill=Kept())
    seen = await tools.call("shell", {"command": "seq 1 40000"})
    assert seen.truncated is not None
    assert (seen.truncated.length, seen.truncated.digest, seen.truncated.complete) == (228894, "whole", True)
    assert (tmp_path / "whole").read_text().endswith("\n40000\n")


async def test_read_numbers_lines_and_pages(tools: WorkspaceTools) -> None:
    assert await content(tools, "read", path="a.py") == "     1\tone\n     2\t  two\n     3\tthree\n     4\ttwo"
    paged = await content(tools, "read", path="/workspace/a.py", start=2, lines=1)
    assert paged == "     2\t  two\n... 2 more lines; read on with start=3"
    assert "has 4 lines; line 9 is beyond" in await refused(tools, "read", path="a.py", start=9)


async def test_edit_replaces_the_one_place_and_keeps_the_mode(tools: WorkspaceTools) -> None:
    assert "at line 3" in await content(tools, "edit", path="a.py", old="three\n", new="3\n")
    assert (await tools.call("shell", {"command": "cat a.py; stat -c %a a.py"})).content == "one\n  two\n3\ntwo\n755\n"


async def test_edit_makes_a_new_file(tools: WorkspaceTools) -> None:
    assert "made /workspace/new/b" in await content(tools, "edit", path="new/b", old="", new="text")
    assert await content(tools, "shell", command="cat new/b") == "text"
    assert "exists and is not empty" in await refused(tools, "edit", path="new/b", old="", new="other")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "a.py", "old": "two", "new": "x"}, "stands 2 times in /workspace/a.py, at lines 2, 4"),
        ({"path": "a.py", "old": "thre e", "new": "x"}, "nearest line is 3: 'three'"),
        ({"path": "a.py", "old": "\ttwo\n", "new": "x"}, "the white space or a later line differs"),
        ({"path": "a.py", "old": "one", "new": "one"}, "the same"),
        ({"path": "absent", "old": "x", "new": "y"}, "no such file"),
        ({"path": "/workspace", "old": "x", "new": "y"}, "it is a folder"),
        ({"path": "bytes", "old": "x", "new": "y"}, "not UTF-8 text"),
        ({"path": "", "old": "x", "new": "y"}, "is not a path"),
        ({"path": "a.py", "old": "one"}, "missing required field `new`"),
        ({"path": "a.py", "old": "one", "new": 1}, "Expected `str`"),
        ({"path": "a.py", "old": "one", "new": "\ud800"}, "surrogates not allowed"),
    ],
)
async def test_edit_that_cannot_be_done_says_why(tools: WorkspaceTools, arguments: dict, said: str) -> None:
    before = await tools.digest()
    assert said in await refused(tools, "edit", **arguments)
    assert await tools.digest() == before


async def test_wrong_calls_are_answered(tools: WorkspaceTools) -> None:
    assert "the tools are shell, read, edit" in await refused(tools, "write")
    assert "it takes command, timeout_s" in await refused(tools, "shell", cmd="ls")
    assert "wrong arguments" in await refused(tools, "shell", command="ls", timeout_s=-1)


def test_schemas_are_flat_objects() -> None:
    specs = {spec.name: spec.parameters for spec in WorkspaceTools(None).specs()}  # type: ignore[arg-type]
    assert list(specs) == ["shell", "read", "edit"]
    assert specs["edit"]["required"] == ["path", "old", "new"]
    assert all(s["type"] == "object" and s["additionalProperties"] is False for s in specs.values())
