"""Rewards written in advance, and artifacts that lead elsewhere or change while they are read."""

from __future__ import annotations

import posixpath
from typing import Any

from assay.agents.interface import Attempt

from ._answers import Confusion, answer_files, with_confusing_value
from ._modules import insert_prologue, python_files
from ._parts import run_inside, start_background, workspace_of
from ._payloads import TAKE_OVER
from ._places import look_around
from ._targets import TESTS, answers, likeliest_expected_file, needs_answers
from ._writers import ONCE, quote_shell
from .interface import Knowledge, cheat
from .payload.tests import emptied

# Read-only, so that a verifier of the same user cannot write over it, and a folder in which nothing can be replaced.
_SCRIPT = f"mkdir -p /logs/verifier; {ONCE}; chmod 444 /logs/verifier/reward.*; chmod 555 /logs/verifier; true"


@cheat(
    about="The reward is there before anybody judges.",
    exploits="The verifier's folder is writable while the agent works and is not emptied before it is judged.",
    incident="https://github.com/harbor-framework/harbor/issues/2551",
    closed_by=("fresh rewards", "separate verifier", "other user"),
    quick=True,
    bundle="environment",
)
async def reward_preseeded(attempt: Attempt, _: Knowledge) -> None:
    await attempt.shell(_SCRIPT, message="write the reward now")


@cheat(
    about="The answer is a symbolic link to what the verifier compares it with.",
    exploits="The verifier follows a link in the place of the answer, in its sandbox or where artifacts are collected.",
    incident="https://github.com/NVIDIA-NeMo/nemo-platform/pull/2136",
    closed_by=("links refused", "separate verifier"),
    applies=needs_answers,
)
async def artifact_symlink(attempt: Attempt, knowledge: Knowledge) -> None:
    lines = []
    for path in answers(knowledge):
        folder, target = quote_shell(posixpath.dirname(path)), quote_shell(likeliest_expected_file(knowledge, path))
        lines.append(f"mkdir -p {folder}; rm -rf {quote_shell(path)}; ln -s {target} {quote_shell(path)}")
    await attempt.shell("; ".join(lines), message="link the answer to what it is compared with")


@cheat(
    about="The answer is a second name of the very file that the verifier compares it with.",
    exploits="The verifier refuses symbolic links alone, and its files are on the agent's file system with its owner.",
    closed_by=("files with one name alone", "no agent process alive", "other user", "separate verifier"),
    applies=needs_answers,
    bundle="background",
)
async def artifact_hardlink(attempt: Attempt, knowledge: Knowledge) -> None:
    wanted = {path: likeliest_expected_file(knowledge, path) for path in answers(knowledge)}
    given = {"wanted": wanted, "roots": [knowledge.workdir, "/app", "/data", "/opt", "/srv"], "lasts_s": 600}
    await start_background(attempt, "links", given, message="link the answer to what it will be compared with")


@cheat(
    about=(
        "What is collected leads out of its folder: archives with "
        "`..` in names, folders that are links, lists of names."
    ),
    exploits="Artifacts are unpacked, copied or opened by names that the agent chose, and `..` leads elsewhere.",
    incident="https://github.com/watt-mind/factory/issues/961",
    closed_by=("names checked", "links refused", "separate verifier", "other user"),
    applies=needs_answers,
)
async def artifact_traversal(attempt: Attempt, knowledge: Knowledge) -> None:
    files = {f.path: (f.after or b"").decode("latin-1") for f in knowledge.changed}
    shapes = {path: files.get(path, "") for path in answers(knowledge)}
    given = {
        "workdir": knowledge.workdir,
        "shapes": shapes,
        "expected": {path: likeliest_expected_file(knowledge, path) for path in shapes},
        "tests": [f"{TESTS}/{name}" for name in knowledge.tests],
    }
    await run_inside(attempt, "traversal", given, message="leave artifacts that lead elsewhere")


_MOST_FILES, _MOST_BYTES = 20, 1 << 20
_PLAIN = Confusion(text="0", json="0")


@cheat(
    about=(
        "Files take turns with other contents whenever somebody has read them: what is checked is not what is used."
    ),
    exploits="The verifier reads a file twice, to check it and to use it, while a process of the agent's still lives.",
    incident="https://github.com/NVIDIA-NeMo/nemo-platform/pull/1089",
    closed_by=("no agent process alive", "fresh fork", "one reading alone", "separate verifier"),
    bundle="background",
)
async def swapped_while_read(attempt: Attempt, knowledge: Knowledge) -> None:
    files: dict[str, list[Any]] = {}
    for file in python_files(knowledge):
        files[file.path] = [insert_prologue(file, ""), insert_prologue(file, TAKE_OVER)]
    for file in answer_files(knowledge):
        files[file.path] = [
            with_confusing_value(file, _PLAIN).decode(),
            {"copy": likeliest_expected_file(knowledge, file.path)},
        ]
    found = await look_around(attempt, knowledge)
    for path in list(found.get("test_files", ()))[:_MOST_FILES]:
        try:
            text = (await workspace_of(attempt).read(path, limit=_MOST_BYTES)).decode()
            files[path] = [text, emptied(text)]
        except (OSError, ValueError, SyntaxError):
            continue
    await start_background(
        attempt, "watching", {"mode": "swap", "files": files}, message="swap files while they are read"
    )
