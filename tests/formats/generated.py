"""Trajectories made up for round-trip tests, and the one way in which every two-way format is tested with them.

A generated trajectory is drawn from a handful of choices that hypothesis shrinks (how many turns, which features, a few
texts); the rest follows from a seed, because drawing each field would take most of a test's time.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from assay.errors import StoreError
from assay.formats.interface import ExportContext, Format, ImportContext, ImportedTrajectory, Loss, ReadProblem
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Evidence,
    EvidenceAdded,
    ModelCall,
    ModelCalled,
    Noted,
    Observation,
    Step,
    StepAdded,
    ToolCall,
    Trajectory,
    Truncation,
    Usage,
    Verdict,
    VerdictAdded,
    digest_bytes,
)
from tests.sampling import WHOLE

__all__ = [
    "FEATURES",
    "ROUND_TRIPS",
    "Blobs",
    "assembled",
    "facts",
    "made_up",
    "plain",
    "read_all",
    "read_whole",
    "round_trip",
    "trajectories",
]

FEATURES = (
    "tools", "malformed", "unanswered", "late", "exit codes", "errors", "stderr", "truncated", "reasoning", "calls",
    "tokens", "shared tokens", "times", "states", "verdicts", "evidence", "notes", "artifacts", "extra", "unfinished",
    "others", "config", "odd ids", "integrity", "silent",
)  # fmt: skip
_TEXTS = (
    "fix the bug", "ls -la", "", " ", "line\nline\r\n", "tab\t\"quoted\" \\ back", "émoji 🙂 ünï", "\u2028\u2029",
    "<tool>", "{\"a\": 1}", "[1, 2]", "null", "```python\nprint(1)\n```", "a" * 300, "\x00\x1b[31m", "-", "0",
    "True", "NaN",
)  # fmt: skip
_NAMES = ("bash", "str_replace_editor", "submit", "get_user", "a.b/c", "search web", "Ünï")


class Blobs:
    """A blob store in memory."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def keep(self, data: bytes) -> str:
        digest = digest_bytes(data)
        self.held[digest] = data
        return digest

    def content(self, digest: str) -> bytes:
        if digest not in self.held:
            message = f"blob {digest} is missing"
            raise StoreError(message)
        return self.held[digest]


class _Maker:
    """Makes one trajectory up."""

    def __init__(self, seed: int, features: frozenset[str], texts: list[str], blobs: Blobs) -> None:
        self.random = random.Random(seed)
        self.features, self.blobs = features, blobs
        self.texts = [*texts, *_TEXTS]
        self.calls: list[ModelCall] = []
        self.ids = 0

    def has(self, feature: str, share: float = 0.7) -> bool:
        return feature in self.features and self.random.random() < share

    def text(self) -> str:
        return self.random.choice(self.texts)

    def number(self) -> float:
        return round(self.random.uniform(0, 2e9), 6)

    def value(self, depth: int = 0) -> Any:
        kind = self.random.randrange(8 if depth < 2 else 6)
        if kind < 3:
            return self.text()
        if kind == 3:
            return self.random.choice((0, -1, 2**40, True, False, None, 0.5, 1e-9))
        if kind < 6:
            return self.random.randrange(100)
        if kind == 6:
            return [self.value(depth + 1) for _ in range(self.random.randrange(3))]
        return {self.text(): self.value(depth + 1) for _ in range(self.random.randrange(3))}

    def table(self) -> dict[str, Any]:
        return {self.text(): self.value() for _ in range(self.random.randrange(3))}

    def tool_call(self) -> ToolCall:
        self.ids += 1
        id_ = self.text() or "x" if self.has("odd ids", 0.3) else f"call_{self.ids}"
        name = self.random.choice(_NAMES)
        if self.has("malformed", 0.3):
            raw = self.random.choice(('{"a": ', "[1]", "", "run it", '{"a": 1}}'))
            return ToolCall(id_, name, raw, None, "the arguments are no JSON")
        parsed = self.table()
        raw = msgspec.json.encode(parsed).decode()
        return ToolCall(id_, name, f" {raw}" if self.random.random() < 0.2 else raw, parsed)

    def observation(self, call_id: str | None) -> Observation:
        content, truncated = self.text(), None
        if self.has("truncated", 0.3):
            whole = (content + "0123456789" * 40).encode()
            truncated = Truncation(len(whole), self.blobs.keep(whole), self.random.random() < 0.8)
            content = whole[:20].decode("utf-8", "ignore")
        return Observation(
            content,
            call_id,
            self.random.choice((0, 1, 137)) if self.has("exit codes") else None,
            self.has("errors", 0.3),
            self.text() if self.has("stderr", 0.4) else "",
            truncated,
            timed_out=self.has("errors", 0.2),
            duration_s=self.random.random() if self.has("times") else None,
        )

    def step(self, index: int) -> Step:
        actor = "user" if index == 0 else self.random.choice(("agent", "agent", "agent", "user", "environment"))
        if self.has("others", 0.2):
            actor = "other_agent"
        calls = tuple(self.tool_call() for _ in range(self.random.randrange(3))) if self._acts(actor) else ()
        seen = [self.observation(c.id) for c in calls if not self.has("unanswered", 0.4)]
        if actor == "environment" or self.has("late", 0.1):
            seen.append(self.observation(None if self.random.random() < 0.5 else "nobody-asked"))
        started = self.number() if "times" in self.features else None
        return Step(
            index,
            actor,  # type: ignore[arg-type]
            None if self.has("silent", 0.4) else self.text(),
            self.text() if actor == "agent" and self.has("reasoning") else None,
            calls,
            tuple(seen),
            self.call() if actor == "agent" and self.has("calls") else None,
            digest_bytes(bytes([index])) if self.has("states") else None,
            started,
            started + 1.5 if started is not None else None,
            self.table() if self.has("extra", 0.4) else {},
        )

    def _acts(self, actor: str) -> bool:
        return "tools" in self.features and actor == "agent"

    def call(self) -> str:
        id_ = f"c{len(self.calls) + 1}"
        usage = Usage(*(self.random.randrange(1000) if self.random.random() < 0.8 else None for _ in range(3)))
        tokens: dict[str, Any] = {}
        if "tokens" in self.features:
            done = tuple(self.random.randrange(50000) for _ in range(3))
            tokens = {"prompt_token_ids": (1, 2, len(self.calls)), "completion_token_ids": done}
            tokens |= {"logprobs": tuple(-self.random.random() for _ in done)}
            if "shared tokens" in self.features and self.calls:
                tokens |= {"parent": self.calls[-1].id, "shared_tokens": self.random.randrange(1, 6)}
        request = {"messages": [{"role": "user", "content": self.text()}]}
        cost = self.random.random() if self.random.random() < 0.7 else None
        made = ModelCall(
            id_, "openai_chat", "test-model", request, None, usage, cost, sampling={"temperature": 0.5}, **tokens
        )
        self.calls.append(made)
        return id_

    def evidence(self) -> list[Evidence]:
        if "evidence" not in self.features:
            return []
        report = {"counts": {"passed": 2, "failed": 1}, "tests": {"a::b": "passed", "a::c": "failed"}}
        blobs = (self.blobs.keep(b"whole output"),) if self.random.random() < 0.3 else ()
        ids = self.random.choice(("e", "i"))  # an imported fact has such an id as importers give
        return [
            Evidence(f"{ids}0", "state", "reward", {"values": {"reward": self.random.choice((0.0, 0.5, 1.0))}}),
            Evidence(f"{ids}1", "state", "test_report", report),
            Evidence(f"{ids}2", "state", "test_output", {"text": self.text()}, blobs),
        ]

    def verdicts(self) -> list[Verdict]:
        found = []
        if "verdicts" in self.features:
            status, score = self.random.choice((("pass", 1.0), ("fail", 0.0), ("unknown", None), ("error", None)))
            found.append(Verdict("tests", "outcome", status, score, self.text(), rewards={"reward": score or 0.0}))
        if "integrity" in self.features:
            found.append(Verdict("integrity", "integrity", self.random.choice(("pass", "fail")), None, "looked"))  # type: ignore[arg-type]
        return found

    def finished(self) -> AttemptEnded | None:
        if "unfinished" in self.features:
            return None
        ends = (("said done", None, None), (None, "turns", None), (None, None, "environment"), (None, None, None))
        ended, stopped, broke = self.random.choice(ends)
        artifacts = {"out/a.txt": self.blobs.keep(b"a")} if "artifacts" in self.features else {}
        metrics = {"turns": 3.0} if self.random.random() < 0.5 else {}
        return AttemptEnded(ended, stopped, broke, "it broke" if broke else None, metrics, artifacts)

    def made(self, count: int) -> Trajectory:
        steps = [self.step(index) for index in range(count)]
        config = {"options": self.table()} if "config" in self.features else {}
        start = AttemptStarted(
            "r", "a1", "task/1", "", "agent-x", self.random.choice(("m-1", None)), 7, 1, config=config
        )
        notes = [Noted("redacted", {"names": ["KEY"]})] if "notes" in self.features else []
        if "unfinished" in self.features:
            notes.append(Noted("interrupted", {}))
        end = self.finished()
        bodies: list[Body] = [
            *map(ModelCalled, self.calls), *map(StepAdded, steps), *map(EvidenceAdded, self.evidence()),
            *map(VerdictAdded, self.verdicts()), *notes, *([end] if end else []),
        ]  # fmt: skip
        return assembled(ImportedTrajectory("", start, tuple(bodies)))


def assembled(imported: ImportedTrajectory) -> Trajectory:
    """The trajectory of what was imported, as a store would give it back."""
    start = imported.started
    groups: dict[type, list[Any]] = {}
    for body in imported.bodies:
        groups.setdefault(type(body), []).append(body)
    verdicts = tuple(b.verdict for b in groups.get(VerdictAdded, []))
    outcomes = [v.status for v in verdicts if v.kind == "outcome"]
    worst = next((s for s in ("error", "unknown", "fail", "pass") if s in outcomes), None)
    return Trajectory(
        start.run, start.attempt or "a1", "a1.0", start.task, start.task_digest, start.agent, start.model, start.seed,
        start.number, start.retry, start, next(iter(groups.get(AttemptEnded, [])), None), start.isolation,
        tuple(b.step for b in groups.get(StepAdded, [])), tuple(b.call for b in groups.get(ModelCalled, [])),
        tuple(b.evidence for b in groups.get(EvidenceAdded, [])), verdicts, tuple(groups.get(Noted, [])),
        "blake3:0", len(imported.bodies) + 1, worst,  # type: ignore[arg-type]
    )  # fmt: skip


_IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a folder removed from a disk takes milliseconds
BLOBS = Blobs()
"""What generated trajectories name by digest."""


ROUND_TRIPS = settings(
    max_examples=int(os.environ.get("ASSAY_ROUND_TRIPS", "150" if WHOLE else "60")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
"""How many generated trajectories each format writes and reads; `ASSAY_ROUND_TRIPS=1000` tries harder."""


@st.composite
def trajectories(draw: st.DrawFn, *, without: Iterable[str] = ()) -> Trajectory:
    """Trajectories of 0 to 6 turns with any mix of `FEATURES`, but for those in `without`."""
    seed = draw(st.integers(0, 2**32))
    offered = sorted(set(FEATURES) - set(without))
    bits = draw(st.integers(0, 2 ** len(offered) - 1))
    features = frozenset(name for at, name in enumerate(offered) if bits >> at & 1)
    texts = draw(st.lists(st.text(max_size=8), max_size=2))
    return _Maker(seed, features, texts, BLOBS).made(draw(st.integers(0, 6)))


def made_up(seed: int, features: Iterable[str], turns: int) -> Trajectory:
    """The trajectory that belongs to these choices."""
    return _Maker(seed, frozenset(features), [], BLOBS).made(turns)


def plain(trajectory: Trajectory) -> Any:
    """What two readings of the same must have in common: all but run, chain, heads, the source file and its digest."""
    words = dict(trajectory.started.config.get("imported", {}))
    words = {k: v for k, v in words.items() if k not in ("file", "source_digest")}
    start = msgspec.structs.replace(
        trajectory.started, run="", attempt="", config={**trajectory.started.config, "imported": words}
    )
    same = msgspec.structs.replace(trajectory, run="", attempt="", chain="", head="", length=0, started=start)
    return msgspec.to_builtins(same)


def read_all(format: Format, path: Path, blobs: Blobs) -> tuple[list[ImportedTrajectory], list[ReadProblem]]:
    """Everything that a format reads, and everything that it cannot."""
    unreadable: list[ReadProblem] = []
    return list(format.read(path, ImportContext(blobs.keep, unreadable.append))), unreadable


def read_whole(format: Format, path: Path) -> list[Trajectory]:
    """Everything in a file, of which nothing may be unreadable."""
    found, problems = read_all(format, path, Blobs())
    assert all(problem.is_remark for problem in problems), problems
    return [assembled(one) for one in found]


def round_trip(format: Format, given: Iterable[Trajectory], name: str, blobs: Blobs | None = None) -> list[Loss]:
    """Writes, reads, writes and reads again: the two readings are the same, and nothing was lost without a word.

    Args:
        format: Under test.
        given: Trajectories.
        name: What the target is called; its ending says what to write where a format has several ways.
        blobs: What the trajectories name by digest.

    Returns:
        What the first writing lost.
    """
    blobs, losses, given = blobs or BLOBS, list[Loss](), in_order(given)
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY) as scratch:
        first, second = Path(scratch) / f"1{name}", Path(scratch) / f"2{name}"
        format.write(given, first, ExportContext(blobs.content, losses.append))
        read, unreadable = _read_target(format, first, blobs)
        assert not unreadable, unreadable
        format.write(read, second, ExportContext(blobs.content, losses.append))
        again, unreadable = _read_target(format, second, blobs)
        assert not unreadable, unreadable
    for one, other in zip(map(plain, read), map(plain, again), strict=True):
        assert one == other, [f"{k}: {one[k]} became {other[k]}" for k in one if one[k] != other[k]]
    _nothing_lost_in_silence(given, read, losses)
    return losses


def _read_target(format: Format, target: Path, blobs: Blobs) -> tuple[list[Trajectory], list[ReadProblem]]:
    whole = target.is_file() or format.recognises(target)
    paths = [target] if whole else sorted(p for p in target.rglob("*") if p.is_file())
    found: list[Trajectory] = []
    unreadable: list[ReadProblem] = []
    for path in paths:
        assert format.recognises(path), path.read_bytes()[:500] if path.is_file() else path
        imported, bad = read_all(format, path, blobs)
        found += map(assembled, imported)
        unreadable += bad
    return in_order(found), unreadable


def in_order(found: Iterable[Trajectory]) -> list[Trajectory]:
    """Trajectories whose attempts' names sort as they stand, so that a folder gives them back in this order."""
    return [msgspec.structs.replace(one, attempt=f"a{number:05}") for number, one in enumerate(found)]


def facts(trajectory: Trajectory) -> dict[str, list[Any]]:
    """What a trajectory says, by field, for telling what a format changed."""
    steps, end = trajectory.steps, trajectory.finished
    calls = [call for step in steps for call in step.tool_calls]
    seen = [o for step in steps for o in step.observations]
    return {
        "steps.message": [step.message for step in steps if step.message],
        "steps.reasoning": [step.reasoning for step in steps if step.reasoning],
        "steps.tool_calls.id": [c.id for c in calls],
        "steps.tool_calls.name": [c.name for c in calls],
        "steps.tool_calls.parsed": [c.parsed for c in calls],
        "steps.tool_calls.arguments": [c.arguments for c in calls],
        "steps.observations": [o.content for o in seen],
        "steps.observations.exit_code": [o.exit_code for o in seen if o.exit_code is not None],
        "steps.observations.error": [True for o in seen if o.error],
        "steps.observations.stderr": [o.stderr for o in seen if o.stderr],
        "steps.state": [step.state for step in steps if step.state],
        "steps.extra": [step.extra for step in steps if step.extra],
        "verdicts": [(v.check, v.kind, v.status) for v in trajectory.verdicts],
        "evidence": [(e.id, e.kind) for e in trajectory.evidence],
        "finished": [] if end is None else [x for x in (end.ended, end.stopped, end.broke) if x],
        "calls.usage": [c.usage for c in trajectory.calls if c.usage != Usage()],
        "calls.completion_token_ids": [c.completion_token_ids for c in trajectory.calls if c.completion_token_ids],
        "agent": [trajectory.agent],
        "task": [trajectory.task],
    }


def _nothing_lost_in_silence(given: list[Trajectory], read: list[Trajectory], losses: list[Loss]) -> None:
    told = {loss.field for loss in losses}
    left_out = {loss.field for loss in losses if loss.field == "trajectory"}
    assert len(given) == len(read) or left_out, "a trajectory was left out without a word"
    for one, other in zip(given, read, strict=False) if not left_out else ():
        was, now = facts(one), facts(other)
        for field, values in was.items():
            assert not _gone(values, now[field]) or _told(field, told), f"{field}: {values} is {now[field]}; {told}"


def _gone(was: list[Any], now: list[Any]) -> bool:
    """Whether anything is missing, in whatever order: an answer that stood late is put with its call."""
    return bool(Counter(map(repr, was)) - Counter(map(repr, now)))


def _told(field: str, told: set[str]) -> bool:
    """Whether a loss names the field, or what it is a part of."""
    plain_names = {name.replace("[]", "").removeprefix("steps.") for name in told}
    parts = field.removeprefix("steps.").split(".")
    return any(".".join(parts[: n + 1]) in plain_names for n in range(len(parts)))
