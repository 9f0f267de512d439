"""The check `answer`: what the agent answered must be the expected value, compared as data.

In a workspace the answer is a file; in a world of services it is what was submitted (`verify.submitted_answers`).
The file is one JSON object, `{"result": value}` or `{"error": "ValueError"}`; the expected one lies in the task's
folder and is never in the sandbox. The file is read out of a fork of the final state in which no command is started,
and is compared as `verify.calls` compares answers: floats within 4 ulp, objects without order. Nothing that the agent
wrote is executed, so the verdict is graded `no-agent-code`.

Covered: links, devices, files of the kernel, and large or malformed files (they are wrong answers). If reading gives an
error that the host may have caused, a control file is read in a fresh sandbox; only if that fails too, the host is the
cause. Not covered: an answer that was guessed.
"""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import msgspec

from assay.environments.interface import Workspace
from assay.errors import HostFailure, TaskError
from assay.records import digest_bytes
from assay.verify._ruling import Ruling
from assay.verify._world_check import make_result, read_parameters
from assay.verify.calls import Answer, read_json_answer, same_answer
from assay.verify.cited_evidence import CitedEvidence, verifier_digest
from assay.verify.interface import CheckInput, CheckResult, WorldInput
from assay.verify.sanitise import opened, require_mounts
from assay.verify.submitted_answers import SubmittedParameters, rule_submitted

ANSWER_FILE = "answer.json"
EXPECTED_FILE = "tests/answer.json"
MAX_ANSWER_BYTES = 512 << 10
_FAULTS_OF_FILE = frozenset(
    {errno.EISDIR, errno.EINVAL, errno.ELOOP, errno.EACCES, errno.ENOTDIR, errno.ENXIO, errno.ENAMETOOLONG}
)
"""Errors that only the agent's file or its folders can cause; any other is compared with a control read."""
_CONTROL = "/tmp/assay-control-read"


class AnswerParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the check in a workspace."""

    file: str = ANSWER_FILE
    """Absolute, or relative to the working directory."""
    expected: str = EXPECTED_FILE
    """Relative to the task's folder."""


class AnswerCheck:
    """Compares the agent's file, or its submitted answers, with the expected values."""

    kind = "answer"

    async def judge(self, given: CheckInput) -> CheckResult:
        cited = CitedEvidence(given.prefix)
        require_mounts(given.backend)
        parameters = msgspec.convert(given.check.parameters, AnswerParameters)
        data = await asyncio.to_thread(_read_expected, given.folder, parameters.expected)
        expected = read_json_answer(data)
        if expected is None:
            raise TaskError(
                f"{parameters.expected} is not an answer: write an object with the one key 'result' or 'error'"
            )
        text, problem = await _read_answer(given, parameters.file)
        ruling = _rule(expected, text, problem)
        observed = text[:2000].decode(errors="replace")
        cited.add("state", "file", {"path": parameters.file, "bytes": len(text), "text": observed, "problem": problem})
        verifier = verifier_digest(self.kind, given.check.parameters, digest_bytes(data))
        verdict = cited.make_verdict(given.check, verifier, ruling, separation="no-agent-code")
        return CheckResult(verdict, tuple(cited.items))

    async def judge_world(self, given: WorldInput) -> CheckResult:
        cited = CitedEvidence(given.prefix)
        parameters = read_parameters(given, SubmittedParameters)
        return make_result(given, rule_submitted(parameters, given.check.name, given.facts, cited), cited)


def _read_expected(folder: Path | None, name: str) -> bytes:
    try:
        if folder is None:
            raise FileNotFoundError(name)
        return (folder / name).read_bytes()
    except OSError as exc:
        raise TaskError(f"the check 'answer' cannot read {name} in the task's folder: {exc}") from exc


async def _read_answer(given: CheckInput, name: str) -> tuple[bytes, str]:
    """Returns the file's bytes, or why the file cannot be read. Raises `HostFailure` if the host is the cause."""
    path = name if name.startswith("/") else f"{given.spec.workdir.rstrip('/')}/{name}"
    async with opened(given.backend, given.spec, given.state) as workspace:
        try:
            return await _read_file(workspace, path, name)
        except OSError as exc:
            problem = f"reading {name} out of the final state failed: {exc}"
            if not await _control_read_works(given):
                raise HostFailure(problem) from exc
        try:  # the agent may have linked a file of the kernel; a host that failed for a moment reads it now
            return await _read_file(workspace, path, name)
        except OSError as exc:
            return b"", f"{name} cannot be read: {exc}"


async def _read_file(workspace: Workspace, path: str, name: str) -> tuple[bytes, str]:
    """Returns the file's bytes, or why the agent made it unreadable. Raises `OSError` if the host may be the cause."""
    try:
        return await workspace.read(path, limit=MAX_ANSWER_BYTES), ""
    except FileNotFoundError:
        return b"", f"{name} is absent"
    except ValueError as exc:
        return b"", f"{name} cannot be read: {exc}"
    except OSError as exc:
        if exc.errno not in _FAULTS_OF_FILE:
            raise
        return b"", f"{name} cannot be read: {exc}"


async def _control_read_works(given: CheckInput) -> bool:
    """Returns whether a file can be written and read in a fresh sandbox, in which nothing is of the agent."""
    content = b"control"
    try:
        async with opened(given.backend, given.spec) as fresh:
            await fresh.write(_CONTROL, content)
            return await fresh.read(_CONTROL, limit=len(content)) == content
    except (OSError, ValueError):
        return False


def _rule(expected: Answer, text: bytes, problem: str) -> Ruling:
    answer = None if problem else read_json_answer(text)
    if answer is None:
        return Ruling("fail", 0.0, problem or "the answer is not a JSON object with the one key 'result' or 'error'")
    if not same_answer(expected, answer):
        return Ruling("fail", 0.0, "the answer is another value")
    return Ruling("pass", 1.0, "the answer is the expected value")
