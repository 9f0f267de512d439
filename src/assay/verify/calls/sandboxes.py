"""Runs the programs of `verify/payload` in sandboxes and returns their output."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.environments.interface import Backend, ExecResult, Mount, Snapshot, Workspace, WorkspaceSpec
from assay.errors import EnvironmentFailure, VerifierError
from assay.verify._staging import stage_programs
from assay.verify.sanitise import PYTHON, has_tool_layer, opened, require_mounts, verifier_spec

from .answers import LATE, MAX_REPLY_BYTES, Answer, read_answers
from .programs import CallProgram, Recording

MOUNT = "/opt/assay-calls"
PROGRAM_S = 1.0
"""Processor seconds for one program."""
ANSWER_BYTES = 256 * 1024


class CallRequest(msgspec.Struct, frozen=True):
    programs: tuple[dict[str, Any], ...]
    imports: tuple[str, ...]
    paths: tuple[str, ...]
    program_s: float = PROGRAM_S
    answer_bytes: int = ANSWER_BYTES
    endless: int = 4
    """Number of timeouts after which no more programs are asked."""
    patience: float = 1.0
    """Factor of all limits in wall seconds, for a busy host."""


class RecordRequest(msgspec.Struct, frozen=True):
    """Tests to record, and the functions that they have to reach."""

    tests: dict[str, tuple[str, ...]]
    """Absolute path of a test file to the node ids to run."""
    targets: dict[str, tuple[str, ...]]
    """Absolute path of a source file to qualified names of functions."""
    packages: tuple[str, ...]
    """Names of packages, each with a dot at its end."""
    imports: tuple[str, ...]
    paths: tuple[str, ...]
    root: str


def payload_folder() -> Path:
    """Returns a copy of the payload folder that a sandbox may mount."""
    return stage_programs(Path(__file__).parents[1] / "payload")


def calls_spec(given: WorkspaceSpec) -> WorkspaceSpec:
    """Returns the spec of a sandbox that answers calls: the verifier's, without tests, with the payload mounted."""
    if not has_tool_layer(given):
        raise VerifierError("judging by calls needs the tool layer mounted at /opt/assay: run `assay setup`")
    return verifier_spec(given, (Mount(str(payload_folder()), MOUNT),), {"PYTHONPATH": ""})


async def put_texts(workspace: Workspace, texts: Mapping[str, bytes]) -> None:
    for path, data in sorted(texts.items()):
        await workspace.write(path, data)


async def answer_calls(
    workspace: Workspace, inputs: Sequence[tuple[int, CallProgram]], request: CallRequest, *, hash_seed: int = 0
) -> dict[int, Answer]:
    """Returns a worker's answers by input; those that it did not give are missing, or `LATE` if the overall limit ended
    it. Every process in the sandbox is dead when this returns."""
    programs = tuple(
        {"id": n, "operations": one.operations, "observed": one.observed, "compared": one.compared} for n, one in inputs
    )
    wall_s = (60.0 + len(programs) * (2 * request.program_s + 0.2)) * request.patience
    whole = msgspec.structs.replace(request, programs=programs)
    result = await run_payload(workspace, "call_programs.py", whole, hash_seed, wall_s)
    answers = await asyncio.to_thread(read_answers, result.stdout.encode())
    missing: dict[int, Answer] = {number: LATE for number, _ in inputs} if result.timed_out else {}
    return missing | answers


async def record_calls(
    backend: Backend,
    spec: WorkspaceSpec,
    texts: Mapping[str, bytes],
    request: RecordRequest,
    state: Snapshot | None = None,
) -> tuple[Recording, ...]:
    """Runs tests on the reference and returns the recorded operations. Only for making tasks: all code is trusted."""
    require_mounts(backend)
    async with opened(backend, calls_spec(spec), state) as workspace:
        await put_texts(workspace, texts)
        result = await run_payload(workspace, "call_recorder.py", request, 0, 600.0)
    if result.exit_code != 0:
        raise EnvironmentFailure(f"the calls of the tests could not be recorded: {result.stderr[-500:]}")
    return tuple(_recordings(result.stdout.encode().splitlines()))


def _recordings(lines: Iterable[bytes]) -> Iterable[Recording]:
    for line in lines:
        try:
            yield msgspec.json.decode(line, type=Recording)
        except (msgspec.DecodeError, RecursionError):
            continue


async def run_payload(
    workspace: Workspace, name: str, request: msgspec.Struct, hash_seed: int, wall_s: float
) -> ExecResult:
    """Runs one of the payload's programs on a request; every process in the sandbox is dead when this returns."""
    command = [PYTHON, "-s", "-B", f"{MOUNT}/{name}"]
    env = {"PYTHONHASHSEED": str(hash_seed), "PYTHONSAFEPATH": "1"}
    if hash_seed:  # another home folder, too: an answer that depends on it is not the same twice
        env["HOME"] = "/tmp"
    result = await workspace.exec(
        command, stdin=msgspec.json.encode(request), env=env, timeout_s=wall_s, show_bytes=MAX_REPLY_BYTES, cwd="/tmp"
    )
    await workspace.kill_all()
    return result
