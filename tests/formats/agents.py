"""The formats of agents and of data sets of their runs, what they are tested on, and how."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

from assay.formats.benchmarks.agentlens import AgentLensFormat
from assay.formats.benchmarks.agentrx import AgentRxFormat
from assay.formats.benchmarks.spark import SparkFormat
from assay.formats.benchmarks.tau2 import Tau2Format
from assay.formats.benchmarks.tau_bench import TauBenchFormat
from assay.formats.benchmarks.who_and_when import WhoAndWhenFormat
from assay.formats.claude_code.format import ClaudeCodeFormat
from assay.formats.codex.exec_events import CodexExecFormat
from assay.formats.codex.format import CodexFormat
from assay.formats.interface import ExportContext, Format, ImportedTrajectory, ReadProblem
from assay.formats.openhands.format import OpenHandsFormat
from assay.formats.pi.format import PiFormat
from assay.formats.swe_agent.format import SweAgentFormat
from assay.formats.swe_agent.mini import MiniSweAgentFormat
from assay.formats.swe_agent.smith import SweSmithFormat
from assay.records import Evidence, EvidenceAdded, Step, StepAdded, Verdict, VerdictAdded
from tests.formats.generated import Blobs, assembled, plain, read_all

SESSIONS = Path(__file__).parent / "sessions"
TWO_WAY: dict[str, tuple[Format, str]] = {
    "claude-code": (ClaudeCodeFormat(), ".jsonl"),
    "codex": (CodexFormat(), ".jsonl"),
    "mini-swe-agent": (MiniSweAgentFormat(), ".traj.json"),
    "openhands": (OpenHandsFormat(), ".jsonl"),
    "pi": (PiFormat(), ".jsonl"),
    "swe-agent": (SweAgentFormat(), ".traj"),
    "tau-bench": (TauBenchFormat(), ".json"),
    "tau2": (Tau2Format(), ".json"),
}
READ_ONLY: dict[str, Format] = {
    "agentlens": AgentLensFormat(),
    "agentrx": AgentRxFormat(),
    "codex-exec": CodexExecFormat(),
    "spark": SparkFormat(),
    "swe-smith": SweSmithFormat(),
    "who-and-when": WhoAndWhenFormat(),
}
ALL: dict[str, Format] = {**{name: format for name, (format, _) in TWO_WAY.items()}, **READ_ONLY}


def comes_back(format: Format, path: Path, scratch: Path) -> list[ImportedTrajectory]:
    """Reads a file, writes what was read and reads it again: the same. Returns the first reading."""
    blobs, ending = Blobs(), TWO_WAY[format.name][1]
    read, unreadable = read_all(format, path, blobs)
    assert not unreadable, unreadable
    target = scratch / f"written{ending}"
    format.write([assembled(one) for one in read], target, ExportContext(blobs.content, lambda loss: None))
    again, unreadable = read_all(format, target, blobs)
    assert not unreadable, unreadable
    assert [plain(assembled(one)) for one in again] == [plain(assembled(one)) for one in read]
    return read


def imported(format: Format, path: Path) -> tuple[list[ImportedTrajectory], list[ReadProblem]]:
    """What a format reads of a path that it takes for its own."""
    assert format.recognises(path), path
    return read_all(format, path, Blobs())


def steps_of(one: ImportedTrajectory) -> list[Step]:
    """The turns."""
    return [body.step for body in one.bodies if isinstance(body, StepAdded)]


def facts_of(one: ImportedTrajectory, kind: str) -> list[Evidence]:
    """The evidence of a kind."""
    found = [body.evidence for body in one.bodies if isinstance(body, EvidenceAdded)]
    return [fact for fact in found if fact.kind == kind]


def verdict_of(one: ImportedTrajectory) -> Verdict:
    """The one verdict."""
    (verdict,) = (body.verdict for body in one.bodies if isinstance(body, VerdictAdded))
    return verdict


_JUNK: list[Any] = [
    *(None, True, 0, -1, 1.5, 1e308, 2**63, 2**70, "", "x", "NaN", "../../etc/passwd", "A" * 70_000),
    *([], {}, [[]], [None], [1, "a", {}]),
    *({"": None}, {"-": 1}, {"=": 2}, {"a": {"-": []}}, {"content": [{"text": 3}]}),
]


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Noise; or a real file cut short, with bytes changed, or with parts of its JSON replaced by something else."""
    kind = chance.randrange(5)
    if kind == 0:
        return chance.randbytes(chance.randrange(2000))
    if kind == 1:
        return data[: chance.randrange(len(data))]
    if kind == 2:
        changed = bytearray(data)
        for _ in range(chance.randrange(1, 20)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        return bytes(changed)
    try:
        value, lines = json.loads(data), False
    except ValueError:
        value, lines = [json.loads(line) for line in data.splitlines() if line.strip()], True
    for _ in range(chance.randrange(1, 6)):
        _replace_somewhere(chance, value)
    return ("\n".join(map(json.dumps, value)) if lines else json.dumps(value)).encode()


def _replace_somewhere(chance: random.Random, value: Any) -> None:
    """Goes down some way into a value and puts something else there."""
    for _ in range(chance.randrange(1, 12)):
        keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
        if not keys:
            return
        key = chance.choice(keys)
        below = value[key]
        if not isinstance(below, dict | list) or not below or chance.random() < 0.25:
            value[key] = copy.deepcopy(chance.choice(_JUNK))
            return
        value = below
