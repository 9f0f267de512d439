"""Builds the trajectory of a foreign record, turn by turn.

Invariant: nothing is invented. Unknown data stays None, a verdict of the source is marked as imported, and a tool
result is attached to its call: by id, else by order, else it becomes a turn of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from assay.formats.interface import ImportContext, ImportedTrajectory, ReadProblem
from assay.formats.shared.json_stream import loads, truncate_text
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Body,
    Channel,
    Evidence,
    EvidenceAdded,
    ModelCall,
    ModelCalled,
    Observation,
    Step,
    StepAdded,
    ToolCall,
    Truncation,
    Verdict,
    VerdictAdded,
    VerdictStatus,
    canonical_bytes,
    digest_bytes,
)
from assay.verdicts import IMPORTED

MOST_RESULTS = 4096
"""Largest number of results in one turn, which bounds the time that a file takes; further ones become turns."""


class Origin(NamedTuple):
    """The source of a record, shared by every trajectory of one file."""

    format: str
    file: str
    digest: str
    """BLAKE3 of the file's bytes; of a folder, of the file that names the attempt."""
    version: str = ""
    """The format's own version; empty where the source states none."""


def tool_call(id_: str, name: str, arguments: Any) -> ToolCall:
    """Returns a call from arguments as JSON text, or as the parsed value."""
    if not isinstance(arguments, str):
        if arguments is None or isinstance(arguments, dict):
            return ToolCall(id_, name, canonical_bytes(arguments or {}).decode(), arguments or {})
        return ToolCall(id_, name, canonical_bytes(arguments).decode(), None, "the arguments are no object")
    try:
        parsed = loads(arguments)
    except ValueError as exc:
        return ToolCall(id_, name, arguments, None, f"the arguments are no JSON: {exc}")
    if isinstance(parsed, dict):
        return ToolCall(id_, name, arguments, parsed)
    return ToolCall(id_, name, arguments, None, "the arguments are no object")


def split_text_parts(content: Any) -> tuple[str, list[Any]]:
    """Returns the text of a message's content, and its other parts unchanged."""
    if content is None:
        return "", []
    if isinstance(content, str):
        return content, []
    if not isinstance(content, list):
        return "", [content]
    texts, rest = [], []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str) and set(part) <= {"type", "text"}:
            texts.append(part["text"])
        else:
            rest.append(part)
    return "\n".join(texts), rest


def derive_task_id(steps: list[Step]) -> str:
    """Derives a task's id from its instruction, where the source has none."""
    asked = next((s.message for s in steps if s.actor == "user" and s.message), "")
    return "instruction-" + digest_bytes(asked.encode("utf-8", "replace")).partition(":")[2][:12]


class TrajectoryBuilder:
    """Builds one trajectory."""

    def __init__(self, origin: Origin, reading: ImportContext) -> None:
        self._origin = origin
        self._reading = reading
        self.steps: list[Step] = []
        self.calls: list[ModelCall] = []
        self.place = ""
        """Place of the trajectory in its file, for reports."""
        self.fields: dict[str, Any] = {}
        """Source data that no record has a field for."""
        self.later: list[Body] = []
        """Events after the end."""
        self._judged: list[Body] = []
        self._beside: dict[int, list[Body]] = {}
        """Evidence by the index of the turn that it stands before."""
        self._evidence = 0
        self._ids: set[str] = set()
        """Ids of the evidence."""
        self._callers: dict[str, list[int]] = {}
        """Turns that made each tool call, by the call's id."""
        self._answered: dict[str, int] = {}
        """Number of those turns that are answered, by the call's id."""
        self._open: dict[int, tuple[Step, dict[str, None]]] = {}
        """Each turn when last checked, and the ids of its calls without a result."""
        self._last_caller: int | None = None

    def add_step(self, actor: str, message: str | None = None, **named: Any) -> Step:
        """Adds a turn; `named` are the other fields of `Step`."""
        extra = {k: v for k, v in (named.pop("extra", None) or {}).items() if v is not None}
        made = Step(len(self.steps), actor, message, extra=extra, **named)  # type: ignore[arg-type]
        self.steps.append(made)
        for call in made.tool_calls:
            self._callers.setdefault(call.id, []).append(made.index)
            self._last_caller = made.index
        return made

    def change_step(self, step: Step, **named: Any) -> Step:
        """Replaces fields of a turn that was added."""
        made = self.steps[step.index] = msgspec.structs.replace(step, **named)
        return made

    def add_calls(self, step: Step, *made: ToolCall) -> Step:
        """Adds tool calls to a turn that was added."""
        for call in made:
            self._callers.setdefault(call.id, []).append(step.index)
            self._last_caller = step.index
        return self.change_step(step, tool_calls=(*step.tool_calls, *made))

    def make_observation(self, content: str, call_id: str | None = None, **named: Any) -> Observation:
        """Returns an observation; stores a long text and keeps its beginning. `named`: fields of `Observation`."""
        text, truncated = truncate_text(content, self._reading)
        if named.get("stderr"):
            named["stderr"], named["stderr_truncated"] = truncate_text(named["stderr"], self._reading)
        known: Truncation | None = named.pop("truncated", None) or truncated
        return Observation(text, call_id, truncated=known, **named)

    def keep_bytes(self, data: bytes) -> str:
        """Stores bytes as a blob; returns their digest."""
        return self._reading.store_blob(data)

    def keep_text(self, text: str) -> str:
        """Stores a text as a blob; returns its digest."""
        return self._reading.store_blob(text.encode("utf-8", "replace"))

    def restore_truncation(self, observation: Observation, words: dict[str, Any]) -> Observation:
        """Restores the truncation of an observation: stores its `whole` text, or records its length alone."""
        named: dict[str, Any] = {}
        for field, whole, text in (
            ("truncated", "whole", observation.content), ("stderr_truncated", "whole_stderr", observation.stderr)
        ):  # fmt: skip
            length, held = words.get(field), words.get(whole)
            if isinstance(held, str):
                raw = held.encode("utf-8", "replace")
                named[field] = Truncation(len(raw), self._reading.store_blob(raw), words.get("complete") is not False)
            elif isinstance(length, int) and not isinstance(length, bool):
                named[field] = Truncation(
                    length, self._reading.store_blob(text.encode("utf-8", "replace")), complete=False
                )
        return msgspec.structs.replace(observation, **named) if named else observation

    def add_result(self, observation: Observation, **named: Any) -> Step:
        """Adds a tool's result to the turn of its call, else as a turn of the environment with `named`."""
        step = self._find_caller(observation.call_id)
        if step is None:
            return self.add_step("environment", observations=(observation,), **named)
        waiting = self._unanswered(step)
        if observation.call_id is None and waiting:
            observation = msgspec.structs.replace(observation, call_id=next(iter(waiting)))
        waiting.pop(observation.call_id or "", None)
        changed = self.change_step(step, observations=(*step.observations, observation))
        self._open[step.index] = changed, waiting
        return changed

    def _find_caller(self, call_id: str | None) -> Step | None:
        if call_id is None:
            last = None if self._last_caller is None else self.steps[self._last_caller]
            return last if last is not None and self._unanswered(last) else None
        asked = self._callers.get(call_id, [])
        for at in range(self._answered.get(call_id, 0), len(asked)):
            step = self.steps[asked[at]]
            if call_id in self._unanswered(step):
                return step
            self._answered[call_id] = at + 1
        named = self.steps[asked[-1]] if asked else None
        return named if named is not None and len(named.observations) < MOST_RESULTS else None

    def _unanswered(self, step: Step) -> dict[str, None]:
        """Returns the ids of a turn's calls without a result, in order; cached and updated by `add_result`."""
        seen, waiting = self._open.get(step.index, (None, {}))
        if seen is not step:
            full = len(step.observations) >= MOST_RESULTS
            answered = {o.call_id for o in step.observations}
            waiting = {} if full else {c.id: None for c in step.tool_calls if c.id not in answered}
            self._open[step.index] = step, waiting
        elif len(step.observations) >= MOST_RESULTS:
            waiting.clear()
        return waiting

    def add_call(self, call: ModelCall) -> str:
        """Adds a model call; returns its id, for `Step.call`."""
        self.calls.append(call)
        return call.id

    def add_evidence(
        self,
        kind: str,
        data: dict[str, Any],
        *,
        channel: Channel = "state",
        blobs: tuple[str, ...] = (),
        beside: int | None = None,
    ) -> str:
        """Adds evidence and returns its id. It stands after the turns, or before that with the index `beside`."""
        while f"i{self._evidence}" in self._ids:
            self._evidence += 1
        found = Evidence(f"i{self._evidence}", channel, kind, data, blobs)
        self._ids.add(found.id)
        target = self._judged if beside is None else self._beside.setdefault(beside, [])
        target.append(EvidenceAdded(found))
        return found.id

    def add_text_evidence(self, kind: str, text: str, **data: Any) -> str:
        """Adds a text as evidence; of a long one the beginning, with the whole as its blob."""
        start, cut = truncate_text(text, self._reading)
        more = {"truncated": {"length": cut.length, "digest": cut.digest}} if cut else {}
        return self.add_evidence(kind, {"text": start, **more, **data}, blobs=(cut.digest,) if cut else ())

    def add_label(self, source: str, data: dict[str, Any]) -> str:
        """Adds a label as evidence. `data` is the source's; its `steps`, if any, are positions in our steps."""
        return self.add_evidence("label", {"source": source, **data}, channel="audit")

    def add_verdict(
        self,
        status: VerdictStatus,
        score: float | None,
        reason: str,
        evidence: tuple[str, ...] = (),
        rewards: dict[str, float] | None = None,
    ) -> None:
        """Adds the source's verdict, marked as imported.

        A score outside [0, 1] is on no known scale: the verdict is `unknown` without a score, with a remark.
        """
        inside = score if score is not None and 0 <= score <= 1 else None
        if score is not None and inside is None:
            self.remark(self.place, f"the reward {score:g} is outside [0, 1]: the outcome is unknown")
            status = "unknown"
        self._judged.append(
            VerdictAdded(
                Verdict(IMPORTED, "outcome", status, inside, reason, evidence, rewards=rewards or {}, marks=(IMPORTED,))
            )
        )

    def read_reward(self, value: Any) -> float | None:
        """Returns a reward; reports one that is not a finite number, and returns None for it."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and abs(value) < 1e300:
            return float(value)
        if value is not None:
            problem = f"expected a finite number as reward, found {value!r}"[:200]
            self._reading.report_problem(ReadProblem(self._origin.file, self.place, problem))
        return None

    def remark(self, where: str, text: str) -> None:
        """Reports how an unusual part was read."""
        self._reading.report_problem(ReadProblem(self._origin.file, where, text, is_remark=True))

    def add(self, body: Body) -> None:
        """Adds an event after the turns."""
        if isinstance(body, EvidenceAdded):
            self._ids.add(body.evidence.id)
        self._judged.append(body)

    def finish(self, key: str, *, ended: AttemptEnded | None = None, **started: Any) -> ImportedTrajectory:
        """Returns the trajectory with its name within its file. By default it ended without a reason, its task is
        derived from the instruction, and its agent is `unknown`.
        """
        origin = self._origin
        words: dict[str, Any] = {"format": origin.format, "file": origin.file, "source_digest": origin.digest}
        words |= {"version": origin.version} if origin.version else {}
        words |= {"fields": self.fields} if self.fields else {}
        given: dict[str, Any] = {"run": "", "attempt": "", "task": "", "task_digest": "", "agent": "unknown"}
        given |= {"model": None, "seed": 0, "number": 0, **started}
        given["task"] = given["task"] or derive_task_id(self.steps)
        given["config"] = {**given.get("config", {}), IMPORTED: words}
        last = ended if ended is not None else AttemptEnded()
        return ImportedTrajectory(
            key, AttemptStarted(**given), (*self._step_events(), *self._judged, last, *self.later)
        )

    def _step_events(self) -> list[Body]:
        """Returns the events of turns, each after its model call; calls without a turn come first."""
        by_id = {call.id: call for call in self.calls}
        linked = {step.call for step in self.steps}
        made: list[Body] = [ModelCalled(call) for call in self.calls if call.id not in linked]
        for step in self.steps:
            call = by_id.pop(step.call, None) if step.call else None
            made += self._beside.get(step.index, ())
            made += [StepAdded(step)] if call is None else [ModelCalled(call), StepAdded(step)]
        return made
