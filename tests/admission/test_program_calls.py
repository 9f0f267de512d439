"""Shell programs compared by the calls that a verifier makes of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from assay.admission._program_calls import ProgramCall, ProgramComparer, Programs, first_difference
from assay.environments.interface import Image, WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.environments.workspace.toolchain import ensure_toolchain
from assay.records import Check
from assay.settings import Settings

PROGRAM = '#!/bin/sh\nls "$1" | sort | head -n "$2" | while read -r name; do rm "$1/$name"; done\n'
TEST = """folder=$(mktemp -d)
touch "$folder/a" "$folder/b" "$folder/c"
sh /workspace/oldest.sh "$folder" 1
[ "$(ls "$folder" | wc -l)" -eq 2 ] && echo 1 > /logs/verifier/reward.txt
"""
PATH = "/workspace/oldest.sh"
CALL = ProgramCall("0", ("<1>",), ({"a": "1"},), True, "done", ({"a": "1"},))


def answered(**fields: object) -> list[ProgramCall]:
    return [msgspec.structs.replace(CALL, **fields)]


def programs(text: str) -> Programs:
    return {PATH: (text.encode(), 0o755)}


@pytest.fixture
async def comparer(tmp_path: Path) -> AsyncIterator[ProgramComparer]:
    layer = ensure_toolchain(Settings.from_environment().cache)
    (tmp_path / "layer" / "workspace").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test.sh").write_text(TEST)
    image = Image(layers=(str(tmp_path / "layer"),), digest="blake3:programs")
    spec = WorkspaceSpec(image=image, mounts=(layer.mount(),), network="none")
    backend = NamespacesBackend()
    workspace = await backend.open(spec)
    try:
        state = await workspace.snapshot()
        yield ProgramComparer(backend, spec, state, Check("t", "script", {"script": "tests/test.sh"}), tmp_path)
    finally:
        await workspace.close()
        await backend.close()


async def test_a_wrong_program_that_the_verifier_accepts_is_shown(comparer: ProgramComparer) -> None:
    found = await comparer.compare(programs(PROGRAM), programs(PROGRAM.replace("sort", "sort -r")))
    assert found.looked == 1
    assert found.witness == "the program <1> 1: a is removed, and in the other a stays"


async def test_a_program_that_does_the_same_is_not(comparer: ProgramComparer) -> None:
    found = await comparer.compare(programs(PROGRAM), programs(PROGRAM.replace("read -r", "IFS= read -r")))
    assert (found.looked, found.witness) == (1, "")
    assert await comparer.compare({"/workspace/a.txt": (b"x", 0o644)}, {"/workspace/a.txt": (b"y", 0o644)}) == (0, "")


@pytest.mark.quick
@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"ok": False}, "succeeds, and in the other fails"),
        ({"printed": "gone"}, "prints 'done', and in the other 'gone'"),
        ({"after": ({"a": "2"},)}, "a stays, and in the other a is written"),
        ({"after": ({},)}, "a stays, and in the other a is removed"),
        ({"printed": " done\n"}, ""),
        ({"arguments": ("<1>", "-x"), "ok": False}, ""),
        ({"before": ({"a": "7"},), "ok": False}, ""),
    ],
)
def test_calls_with_the_same_inputs_differ_by_what_they_do(fields: dict[str, object], shown: str) -> None:
    other = answered(**fields)
    found = first_difference([CALL], [CALL], other, other)
    assert found.endswith(shown)
    assert bool(found) is bool(shown)


@pytest.mark.quick
def test_what_does_not_repeat_is_no_difference() -> None:
    other = answered(ok=False)
    assert first_difference([CALL], answered(printed="x"), other, other) == ""
    assert first_difference([CALL], [CALL], other, [CALL]) == ""
