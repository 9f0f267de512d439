"""The outline of an attempt: one line an event, its branches and agents, and indexes.

Built in one pass with one event in memory: a fraction of a second for 5,000 steps and 50 MB. Cached while the chain's
head is the same. Lines are columns, so that thousands of them are little JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from assay.analysis.judged_path import ADOPTED, BRANCH, SEARCH

from . import _headline as headline
from ._partial_events import LightCall, LightEvent, LightEvidence, LightStep, decode_light, has_value, one_line
from .chains import Chain
from .screens import MOST_SCREENS, SCREEN
from .timeline import Timeline, TimelineBuilder

MOST_LINES: Final = 100_000
"""Largest number of listed events."""
FLAGS: Final = {
    "error": 1,
    "cut": 2,
    "tokens": 4,
    "uncertified": 8,
    "late": 16,
    "thought": 32,
    "beside": 64,
    "clock": 128,
}
"""Marks of a line: it failed, is truncated in the record, has tokens, has tokens without a certificate, timed out,
holds reasoning, was executed beside the steps, has a time that is earlier than that of a line before it."""
JITTER_S: Final = 2.0
"""Lines that were written side by side may be out of order by this much; their shown times run forward."""
KINDS: Final = {
    "attempt_started": "a",
    "step": "s",
    "model_call": "c",
    "evidence": "e",
    "verdict": "v",
    "note": "n",
    "attempt_ended": "z",
}
ANNOTATION: Final = "annotation"
"""Name of a note that a person added (`notes`)."""
WORKFLOW: Final = "workflow"
"""Kind of evidence, and name of a note, about the nodes of a workflow (`course`)."""
_QUIET_NOTES = frozenset({"call begun"})
_MOST_LANES = 2_000
_K = TypeVar("_K", int, str)


class Lane(msgspec.Struct):
    """A branch of the conversation, or an agent, in the tree. Only `_OutlineBuilder` changes it."""

    name: str
    kind: str
    """`main`, `branch`, or `agent` (an actor without calls of its own)."""
    parent: int
    """-1 for the first."""
    cause: str | None = None
    agent: str | None = None
    first: int = -1
    """Its first line."""
    steps: int = 0
    calls: int = 0


class CallUsage(NamedTuple):
    """Cost of a model call; None where unknown."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None


class Outline(msgspec.Struct, frozen=True):
    """Columns over the lines of an attempt."""

    events: list[int]
    """The number of each line's event."""
    kinds: str
    """A letter a line, see `KINDS`."""
    heads: list[str]
    flags: list[int]
    lanes_of: list[int]
    states_of: list[int]
    """Position in `states`; -1 where unobserved."""
    at: list[float | None]
    """Seconds from the attempt's beginning to the moment when the line was complete."""
    calls_of: list[int]
    """The event of the model call that a step came from; -1 without one."""
    steps: dict[int, int]
    """`Step.index` to line."""
    evidence: dict[str, int]
    """Id of evidence to line."""
    calls: dict[str, int]
    """Id of a model call to its event."""
    call_lines: dict[str, int]
    """Id of a model call to the line that shows it: its step's, else its own."""
    usage: dict[int, CallUsage]
    """Line that shows a model call to what the call cost, where anything of it is known."""
    states: list[str]
    lanes: list[Lane]
    verdicts: list[int]
    """Lines of verdicts."""
    audited: int
    """Event of the newest note with findings; -1 without one."""
    left_out: int
    """Events beyond the most that are listed."""
    models: list[str]
    task_event: int
    """Event of the evidence that names the archived task; -1 without one."""
    timeline: Timeline
    annotations: list[int]
    """Events of people's notes."""
    workflows: list[int]
    """Events of evidence and notes about workflows."""
    screens: dict[int, list[int]]
    """Line of a step to the events of the pages that a browser showed in it, in order."""
    branched: bool
    """True if the agent tried several times, so that the steps are a tree."""


def outline_of(chain: Chain) -> Outline:
    """Returns the outline of an attempt, cached by its chain's head. Raises `StoreError` where it is unreadable."""
    return _cached_outline(_ChainKey(chain))


class _ChainKey:
    """A cache key for a chain, equal for the same events."""

    def __init__(self, chain: Chain) -> None:
        self.chain: Chain | None = chain
        layout = chain.store.layout
        self.mark = (layout.root, layout.run, chain.row.chain, chain.row.head, chain.length)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ChainKey) and self.mark == other.mark

    def __hash__(self) -> int:
        return hash(self.mark)


@lru_cache(maxsize=6)
def _cached_outline(key: _ChainKey) -> Outline:
    chain, key.chain = key.chain, None  # what is kept holds no open run
    assert chain is not None, "it is asked once"
    builder = _OutlineBuilder(chain)
    for link in chain.links(0, min(chain.length, MOST_LINES)):
        builder.add(link.index, decode_light(link))
    return builder.outline(max(chain.length - MOST_LINES, 0))


class _OutlineBuilder:
    """Folds events into columns."""

    def __init__(self, chain: Chain) -> None:
        self._started = chain.row.started
        self.events: list[int] = []
        self.kinds: list[str] = []
        self.heads: list[str] = []
        self.flags: list[int] = []
        self.lanes_of: list[int] = []
        self.states_of: list[int] = []
        self.at: list[float | None] = []
        self.calls_of: list[int] = []
        self.steps: dict[int, int] = {}
        self.evidence: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.call_lines: dict[str, int] = {}
        self.usage: dict[int, CallUsage] = {}
        self.states: dict[str, int] = {}
        self.lanes = [Lane("main", "main", -1)]
        self._branches: dict[str, int] = {}
        self._branched = False
        self._actors: dict[tuple[int, str], int] = {}
        self._waiting: dict[str, tuple[int, LightCall, int]] = {}
        """Calls that no step has claimed yet: event, call, lane."""
        self._call_lanes: dict[str, int] = {}
        self.verdicts: list[int] = []
        self.models: dict[str, None] = {}
        self.audited = self.task_event = -1
        self.annotations: list[int] = []
        self.workflows: list[int] = []
        self.screens: dict[int, list[int]] = {}
        self._new_screens: list[int] = []
        """Screens since the last step."""
        self._timeline = TimelineBuilder(chain.row.started)

    def add(self, number: int, event: LightEvent) -> None:
        self._timeline.add(number, event)
        if event.step is not None:
            self._step(number, event.step)
        elif event.call is not None:
            self._call(number, event.call)
        elif event.evidence is not None:
            self._fact(number, event.evidence)
        elif event.verdict is not None:
            given = event.verdict
            self.verdicts.append(len(self.events))
            text = headline.verdict_headline(given.check, given.status, given.reason)
            self._line(number, "v", text, FLAGS["error"] * (given.status in ("fail", "error")))
        elif event.type == "note":
            self._note(number, event)
        else:
            words = event.stopped or event.broke or event.ended or ""
            text = "attempt started" if event.type == "attempt_started" else f"attempt ended: {words}"
            failed = event.broke is not None or event.stopped is not None
            self._line(number, KINDS.get(event.type, "n"), one_line(text), failed * FLAGS["error"], at=event.at)

    def outline(self, left_out: int) -> Outline:
        """Returns the outline; calls without a step are lines of their own."""
        self._claim_rest()
        order = sorted(range(len(self.events)), key=self.events.__getitem__)
        position = {line: at for at, line in enumerate(order)}
        lanes = [_move_lane(lane, position) for lane in self.lanes]
        at, back = run_forward([self.at[n] for n in order])
        return Outline(
            events=[self.events[n] for n in order],
            kinds="".join(self.kinds[n] for n in order),
            heads=[self.heads[n] for n in order],
            flags=[self.flags[n] | FLAGS["clock"] * (line in back) for line, n in enumerate(order)],
            lanes_of=[self.lanes_of[n] for n in order],
            states_of=[self.states_of[n] for n in order],
            at=at,
            calls_of=[self.calls_of[n] for n in order],
            steps=_move_lines(self.steps, position),
            evidence=_move_lines(self.evidence, position),
            calls=self.calls,
            call_lines=_move_lines(self.call_lines, position),
            usage={position[line]: usage for line, usage in self.usage.items()},
            states=list(self.states),
            lanes=lanes,
            verdicts=sorted(position[n] for n in self.verdicts),
            audited=self.audited,
            left_out=left_out,
            models=list(self.models),
            task_event=self.task_event,
            timeline=self._timeline.build(),
            annotations=self.annotations,
            workflows=self.workflows,
            screens={position[line]: events for line, events in self.screens.items()},
            branched=self._branched,
        )

    def _line(self, number: int, kind: str, head: str, flags: int = 0, lane: int = 0, **more: Any) -> int:
        """Adds a line; returns its position. `more`: `state`, `at`, `call`."""
        line = len(self.events)
        at = more.get("at")
        self.events.append(number)
        self.kinds.append(kind)
        self.heads.append(head)
        self.flags.append(flags)
        self.lanes_of.append(lane)
        state = more.get("state")
        self.states_of.append(-1 if state is None else self.states.setdefault(state[:100], len(self.states)))
        self.at.append(None if at is None or self._started is None else round(at - self._started, 3))
        self.calls_of.append(more.get("call", -1))
        return line

    def _step(self, number: int, step: LightStep) -> None:
        call = self._waiting.pop(step.call, None) if step.call is not None else None
        lane = call[2] if call is not None else self._call_lanes.get(step.call or "", 0)
        lane = self._actor_lane(step, lane)
        flags = FLAGS["thought"] * bool(step.reasoning)
        for seen in step.observations:
            flags |= FLAGS["error"] * (seen.error or bool(seen.exit_code))
            flags |= FLAGS["late"] * seen.timed_out
            flags |= FLAGS["cut"] * (has_value(seen.truncated) or has_value(seen.stderr_truncated))
        flags |= FLAGS["error"] * any(builder.error is not None for builder in step.tool_calls)
        flags |= _call_flags(call[1]) if call is not None else 0
        event = call[0] if call is not None else -1
        at = step.ended if step.ended is not None else step.started
        line = self._line(number, "s", headline.step_headline(step), flags, lane, state=step.state, at=at, call=event)
        self.steps.setdefault(step.index, line)
        if self._new_screens:
            self.screens[line], self._new_screens = self._new_screens[-MOST_SCREENS:], []
        if step.call is not None and call is not None:
            self._show_call(call[1], line)
        self.lanes[lane].steps += 1
        if self.lanes[lane].first < 0:
            self.lanes[lane].first = line

    def _actor_lane(self, step: LightStep, lane: int) -> int:
        """Returns the lane of a named actor without calls of its own, else `lane`."""
        names = (step.actor_name, step.extra.name, step.extra.agent, step.extra.agent_name)
        name = next((each for each in names if isinstance(each, str) and each), None)
        if step.actor == "other_agent" and name is None:
            name = "another agent"
        if name is None or step.actor not in ("agent", "other_agent") or step.call in self._call_lanes:
            return lane
        known = self._actors.get((lane, name))
        if known is None:
            if len(self.lanes) >= _MOST_LANES:
                return lane
            known = self._actors[lane, name] = len(self.lanes)
            self.lanes.append(Lane(name[:100], "agent", lane, agent=name[:100]))
        return known

    def _call(self, number: int, call: LightCall) -> None:
        self.calls.setdefault(call.id, number)
        if call.model:
            self.models.setdefault(call.model[:100])
        lane = self._branch_lane(call)
        self._call_lanes.setdefault(call.id, lane)
        self.lanes[lane].calls += 1
        self._waiting[call.id] = (number, call, lane)

    def _branch_lane(self, call: LightCall) -> int:
        branch = call.branch
        if branch is None or branch in self._branches:
            return self._branches.get(branch or "", self._call_lanes.get(call.parent or "", 0))
        if not self._branches:  # the first one is the main line
            self._branches[branch] = 0
            self.lanes[0].agent = call.actor_name or _agent(call.lineage)
            return 0
        parent = self._call_lanes.get(call.parent or "", 0)
        if len(self.lanes) >= _MOST_LANES:
            return parent
        self._branches[branch] = len(self.lanes)
        agent = call.actor_name or _agent(call.lineage)
        self.lanes.append(Lane((agent or branch)[:100], "branch", parent, call.cause, agent))
        return self._branches[branch]

    def _fact(self, number: int, evidence: LightEvidence) -> None:
        if evidence.kind == "task" and self.task_event < 0:
            self.task_event = number
        self._branched = self._branched or evidence.kind in (BRANCH, ADOPTED, SEARCH)
        if evidence.kind == WORKFLOW:
            self.workflows.append(number)
        if evidence.kind == SCREEN:
            self._new_screens.append(number)
        flags = FLAGS["beside"] * bool(evidence.data.beside)
        flags |= FLAGS["error"] * bool(evidence.data.exit_code)
        line = self._line(number, "e", headline.evidence_headline(evidence), flags, at=evidence.at)
        self.evidence.setdefault(evidence.id, line)

    def _note(self, number: int, event: LightEvent) -> None:
        if event.name == "audited":
            self.audited = number
        if event.name == ANNOTATION:
            self.annotations.append(number)
        if event.name == WORKFLOW:
            self.workflows.append(number)
        if event.name not in _QUIET_NOTES:
            self._line(number, "n", one_line(event.name), at=event.at)

    def _show_call(self, call: LightCall, line: int) -> None:
        self.call_lines[call.id] = line
        usage = CallUsage(call.usage.prompt_tokens, call.usage.completion_tokens, call.cost_usd)
        if any(amount is not None for amount in usage):
            self.usage[line] = usage

    def _claim_rest(self) -> None:
        for number, call, lane in self._waiting.values():
            names = call.error or f"{call.model}: request"
            at = call.ended if call.ended is not None else call.started
            line = self._line(number, "c", one_line(names), _call_flags(call), lane, state=call.state, at=at)
            self._show_call(call, line)
            if self.lanes[lane].first < 0 or self.events[self.lanes[lane].first] > number:
                self.lanes[lane].first = line


def run_forward(times: Sequence[float | None]) -> tuple[list[float | None], set[int]]:
    """Returns times without steps back of less than `JITTER_S`, and the lines with a longer step back."""
    shown: list[float | None] = []
    back: set[int] = set()
    latest = float("-inf")
    for line, at in enumerate(times):
        if at is not None and latest - JITTER_S <= at < latest:
            shown.append(latest)
            continue
        if at is not None and at < latest:
            back.add(line)
        elif at is not None:
            latest = at
        shown.append(at)
    return shown, back


def _agent(lineage: Mapping[str, str]) -> str | None:
    name = lineage.get("agent")
    return name[:100] if name else None


def _call_flags(call: LightCall) -> int:
    flags = FLAGS["error"] * (call.error is not None)
    flags |= FLAGS["tokens"] * has_value(call.completion_token_ids)
    return flags | FLAGS["uncertified"] * (call.certificate is not None and not call.certificate.certified)


def _move_lane(lane: Lane, position: Mapping[int, int]) -> Lane:
    return msgspec.structs.replace(lane, first=position.get(lane.first, -1))


def _move_lines(lines: Mapping[_K, int], position: Mapping[int, int]) -> dict[_K, int]:
    return {key: position[line] for key, line in lines.items()}
