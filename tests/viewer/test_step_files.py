"""The files that each step changed, of real runs in a sandbox and of records made by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.agents.interface import Attempt
from assay.records import (
    AttemptStarted,
    Evidence,
    EvidenceAdded,
    Observation,
    Step,
    StepAdded,
    ToolCall,
    canonical_bytes,
    digest_bytes,
    digest_record,
)
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore
from assay.viewer.interface import view_name
from assay.viewer.views import make_view
from tests.viewer.chains_made import shown

IMAGE = "blake3:" + "2" * 64
OLD, NEW = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"


def edit(path: str, old: str, new: str) -> ToolCall:
    arguments = {"path": path, "old": old, "new": new}
    return ToolCall("t", "edit", json.dumps(arguments), arguments)


def shell(command: str) -> ToolCall:
    return ToolCall("t", "shell", json.dumps({"command": command}), {"command": command})


class Editor:
    """Edits by calls and by shell commands, and removes one of its own files."""

    name = "editor"
    needs_model = False

    async def run(self, attempt: Attempt) -> None:
        await attempt.act([shell("ls")])
        await attempt.act([edit("lib.py", "a - b", "a * b")])
        await attempt.act([shell("mkdir -p notes && echo one > notes/one.txt && echo x > draft")])
        await attempt.act([edit("lib.py", "a * b", "a + b")])
        await attempt.act([shell("sed -i 's/one/two/' notes/one.txt")])
        await attempt.act([shell("rm draft; head -c 300 /dev/zero > blob.bin")])
        attempt.finish("edited")


def task_folder(folder: Path) -> Path:
    for name, text in {
        "instruction.md": "Repair add.",
        "task.toml": 'schema_version = "1.4"\n[environment]\nworkdir = "/work"\n',
        "environment/Dockerfile": "FROM scratch\nWORKDIR /work\nCOPY lib.py /work/lib.py\n",
        "environment/lib.py": OLD,
        "tests/test.sh": "#!/bin/sh\nmkdir -p /logs/verifier\necho 1 > /logs/verifier/reward.txt\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


async def test_a_real_run_shows_what_each_step_changed(tmp_path: Path) -> None:
    config = RunConfig(tasks=(str(task_folder(tmp_path / "add")),), agent=f"{__file__}:Editor", run="r", concurrency=1)
    root = tmp_path / "store"
    await start_run(config, Settings(cache=Settings.from_environment().cache, store=root), Tally())
    with RunStore.open(root, "r") as store:
        (row,) = store.attempts()
    found = json.loads(make_view(root, view_name("run", "r", "attempt", row.chain, "changes")) or b"")
    steps: dict[int, Any] = {one["step"]: one for one in found["steps"]}
    assert [(n, one["basis"], [f["kind"] for f in one["files"]]) for n, one in steps.items()] == [
        (1, "states", ["changed"]),
        (2, None, []),  # the draft was removed later, and of the note only the last text is stored
        (3, "calls", ["changed"]),
        (4, None, []),
        (5, None, []),
    ]
    (first,), (second,) = steps[1]["files"], steps[3]["files"]
    middle = OLD.replace("-", "*")
    assert (first["from"], first["text"]) == ("environment/lib.py", middle)
    assert (second["before_text"], second["text"]) == (middle, NEW)


def change(path: str, text: str, kind: str = "changed") -> dict[str, Any]:
    data = text.encode()
    return {"path": path, "kind": kind, "mode": 0o644, "size": len(data), "digest": digest_bytes(data)}


def state(*changes: Any) -> str:
    return digest_record({"image": IMAGE, "changes": sorted(changes, key=lambda one: str(one["path"]))})


def record(
    root: Path,
    steps: Sequence[tuple[ToolCall, str | None]],
    texts: Sequence[str],
    final: Sequence[Any],
    *,
    run: str = "r",
) -> dict[int, Any]:
    """Writes an attempt whose steps recorded these states; returns its steps that changed files."""
    with RunStore.create(root, run, {}) as store:
        blobs = [store.blobs.put(text.encode()) for text in (OLD, *texts)]
        listing = store.blobs.put(canonical_bytes([{"path": "environment/lib.py", "digest": blobs[0]}]))
        manifest = store.blobs.put(canonical_bytes(sorted(final, key=lambda one: one["path"])))
        sealed = {"digest": state(*final), "image": IMAGE, "manifest": manifest}
        store.append(
            "t@0.0",
            [
                AttemptStarted(run, "t@0", "t", "d", "loop", None, 0, 0),
                EvidenceAdded(Evidence("e1", "state", "task", {"listing": listing}, (listing, blobs[0]))),
                *(
                    StepAdded(Step(n, "agent", None, None, (call,), (Observation("", "t", 0),), None, digest))
                    for n, (call, digest) in enumerate(steps)
                ),
                EvidenceAdded(Evidence("e2", "state", "snapshot", sealed, (manifest, *blobs[1:]))),
            ],
        )
    return {one["step"]: one for one in shown(root, "changes", run=run)["steps"]}


def test_one_shell_command_that_changed_everything_is_compared_with_the_start(tmp_path: Path) -> None:
    final = [change("/work/lib.py", NEW), change("/work/a.txt", "a\n", "added")]
    steps = record(tmp_path, [(shell("ls"), state()), (shell("make all"), state(*final))], [NEW, "a\n"], final)
    assert list(steps) == [1]
    added, changed = steps[1]["files"]
    assert (steps[1]["basis"], steps[1]["since"]) == ("states", 0)
    assert (added["path"], added["kind"], added["digest"]) == ("/work/a.txt", "added", digest_bytes(b"a\n"))
    assert (changed["before"], changed["digest"]) == (digest_bytes(OLD.encode()), digest_bytes(NEW.encode()))


def test_commands_that_name_no_file_are_found_by_their_digests(tmp_path: Path) -> None:
    lib, note = change("/work/lib.py", NEW), change("/work/a.txt", "a\n", "added")
    made = [(shell("./one"), state(note)), (shell("./two"), state(note, lib))]
    steps = record(tmp_path, made, [NEW, "a\n"], [lib, note])
    assert {n: [(f["path"], f["kind"]) for f in one["files"]] for n, one in steps.items()} == {
        0: [("/work/a.txt", "added")],
        1: [("/work/lib.py", "changed")],
    }


def test_a_removed_and_a_reverted_file_are_told(tmp_path: Path) -> None:
    gone = {"path": "/work/old.py", "kind": "removed"}
    lib = change("/work/lib.py", NEW)
    made = [(edit("/work/lib.py", OLD, NEW), state(lib)), (shell("rm old.py"), state(lib, gone))]
    made.append((shell("git checkout lib.py"), state(gone)))
    steps = record(tmp_path, [*made, (shell("./fix"), state(lib, gone))], [NEW], [lib, gone])
    assert [(n, f["path"], f["kind"]) for n, one in steps.items() for f in one["files"]] == [
        (0, "/work/lib.py", "changed"),
        (1, "/work/old.py", "removed"),
        (2, "/work/lib.py", "changed"),
        (3, "/work/lib.py", "changed"),
    ]
    (reverted,) = steps[2]["files"]
    assert (reverted["before"], reverted["digest"]) == (digest_bytes(NEW.encode()), digest_bytes(OLD.encode()))


def test_calls_that_do_not_lead_to_the_stored_file_show_no_contents(tmp_path: Path) -> None:
    final = [change("/work/lib.py", NEW + "# by a formatter\n")]
    made = [(edit("lib.py", "a - b", "a * b"), "s1"), (edit("lib.py", "a * b", "a + b"), "s2")]
    steps = record(tmp_path, made, [NEW + "# by a formatter\n"], final)
    assert [(one["basis"], one["files"], one["paths"]) for one in steps.values()] == [(None, [], ["lib.py"])] * 2


def test_texts_before_a_whole_write_are_not_proved_by_the_end(tmp_path: Path) -> None:
    whole = ToolCall("t", "write", "{}", {"path": "/work/lib.py", "content": "x = 0\n"})
    made = [(edit("lib.py", "a - b", "a * b"), "s1"), (whole, "s2"), (edit("lib.py", "0", "1"), "s3")]
    steps = record(tmp_path, made, ["x = 1\n"], [change("/work/lib.py", "x = 1\n")])
    assert {n: one["basis"] for n, one in steps.items()} == {0: None, 1: "calls", 2: "calls"}
    assert [f["text"] for f in steps[2]["files"]] == ["x = 1\n"]


def test_a_here_document_is_a_whole_write(tmp_path: Path) -> None:
    command = "cd /work && cat > new.py <<'EOF'\nprint('$x')\nEOF"
    final = [change("/work/new.py", "print('y')\n", "added")]
    made = [(shell(command), "s1"), (edit("new.py", "$x", "y"), "s2")]
    steps = record(tmp_path, made, ["print('y')\n"], final)
    assert [(f["kind"], f["before_text"], f["text"]) for one in steps.values() for f in one["files"]] == [
        ("added", "", "print('$x')\n"),
        ("changed", "print('$x')\n", "print('y')\n"),
    ]


@pytest.mark.parametrize(
    "manifest", [[{"path": 7}], [{"kind": "changed"}], [{"path": "/a", "kind": [], "size": "x", "digest": {}}], {}]
)
def test_a_hostile_manifest_breaks_no_page(tmp_path: Path, manifest: Any) -> None:
    with RunStore.create(tmp_path, "r", {}) as store:
        digest = store.blobs.put(canonical_bytes(manifest))
        data = {"digest": "d", "image": [1], "manifest": digest}
        step = Step(0, "agent", None, None, (edit("/a", "", "x"),), (), None, "d")
        store.append(
            "t@0.0",
            [
                AttemptStarted("r", "t@0", "t", "d", "loop", None, 0, 0),
                StepAdded(step),
                EvidenceAdded(Evidence("e", "state", "snapshot", data, (digest,))),
            ],
        )
    assert shown(tmp_path, "changes")["steps"][0]["step"] == 0
