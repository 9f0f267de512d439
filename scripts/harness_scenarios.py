"""What each harness is put through: a scripted model that calls the harness's own tools, fails, goes silent or is cut
off, and what must have become of the sandbox and of the record. Used by `harness_matrix.py` and by tests/harnesses.

Every turn appends its own line to a file, so a turn that was made twice, or not at all, is seen in the file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from assay.agents.interface import Agent
from assay.environments.interface import Backend, ResourceLimits, WorkspaceSpec
from assay.errors import ProviderError
from assay.gateway.backends.scripted import Reply, ScriptedBackend, ScriptedCall
from assay.gateway.call_tree import content_text
from assay.gateway.dialects._deltas import split_reply
from assay.gateway.interface import Delta, Exchange, ModelReply, ModelRequest, OnDeltas
from assay.gateway.model import PlainModel
from assay.plugins import load
from assay.records import Usage

from .driving import ConnectionRelay, Drive, DriveResult, drive

__all__ = [
    "HANDS",
    "KNOWN",
    "ROUGH",
    "SCENARIOS",
    "Cell",
    "Hand",
    "Player",
    "Scenario",
    "agent_of",
    "rough_scenario",
    "run_cell",
]

DOCS = Path(__file__).parent.parent / "docs_src"
LOG = "/workspace/log.txt"
SUBTASK = "SUBTASK-7"
_ID = "a81f36c29e5d"
"""Ends the ids of calls, which are as long, and as little like other text, as a server's."""
Fault = Literal["500", "429", "cut", "silence", "full", "malformed", "sub_agent"]


class Hand(msgspec.Struct, frozen=True):
    """How a model acts through one harness."""

    shell: Callable[[str], tuple[str, dict[str, Any]]]
    """A shell command to the name and the arguments of a tool."""
    end: tuple[str, dict[str, Any]] | None = None
    """The call that ends the task; None: a text does."""
    sub_agent: tuple[str, dict[str, Any]] | None = None
    sub_end: tuple[str, dict[str, Any]] | None = None
    """The call by which a sub-agent ends; None: a text does."""
    agent: str | None = None
    """The agent's name, where it is another's (`command`)."""
    program: str | None = None
    """Of docs_src, for the agent `command`."""
    shorter: dict[str, Any] = {}
    """Options that make it lose patience after some seconds of silence; without, there is no such clock."""
    window: int = 24_000
    """Context tokens, where it compacts."""
    full: int = 0
    """Prompt tokens that make it compact; -1: an error for a prompt that is too long does; 0: it does not."""


def _named(name: str, key: str = "command", **more: Any) -> Callable[[str], tuple[str, dict[str, Any]]]:
    return lambda command: (name, {key: command, **more})


HANDS: dict[str, Hand] = {
    "claude-code": Hand(
        _named("Bash", description="run"),
        sub_agent=(
            "Agent",
            {"description": "sub", "prompt": SUBTASK, "subagent_type": "general-purpose", "run_in_background": False},
        ),
        shorter={"env": {"CLAUDE_STREAM_IDLE_TIMEOUT_MS": "6000", "CLAUDE_ENABLE_STREAM_WATCHDOG": "1"}},
        full=990_000,
    ),
    "codex": Hand(
        _named("exec_command", "cmd"),
        sub_agent=("multi_agent_v1__spawn_agent", {"message": SUBTASK}),
        shorter={"arguments": ["-c", "model_providers.assay.stream_idle_timeout_ms=6000"]},
        full=23_500,
    ),
    "qwen-code": Hand(
        _named("run_shell_command", is_background=False),
        sub_agent=("agent", {"description": "sub", "prompt": SUBTASK, "subagent_type": "general-purpose"}),
        shorter={"env": {"QWEN_STREAM_IDLE_TIMEOUT_MS": "6000"}},
        full=23_500,
    ),
    "opencode": Hand(
        _named("bash", description="run"),
        sub_agent=("task", {"description": "sub", "prompt": SUBTASK, "subagent_type": "general"}),
        full=23_500,
    ),
    "pi": Hand(_named("bash"), full=-1),
    "gemini-cli": Hand(
        _named("run_shell_command", description="run"),
        sub_agent=("invoke_agent", {"agent_name": "generalist", "prompt": SUBTASK}),
        sub_end=("complete_task", {"result": {"response": "It is done."}}),
    ),
    "mini-swe-agent": Hand(_named("bash"), end=("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})),
    "openhands-sdk": Hand(_named("terminal"), end=("finish", {"message": "done"})),
    "openai-agents": Hand(_named("shell"), agent="command", program="openai_agents_program.py"),
    "smolagents": Hand(
        _named("shell"),
        end=("final_answer", {"answer": "done"}),
        agent="command",
        program="smolagents_program.py",
    ),
}


class Scenario(NamedTuple):
    """A conversation with something in it that goes wrong, and in which turn."""

    faults: dict[int, Fault]
    turns: int = 2
    parallel: bool = False
    """Whether the second turn calls two tools at once."""
    silence_s: float = 20.0


SCENARIOS: dict[str, Scenario] = {
    "plain": Scenario({}, parallel=True),
    "malformed": Scenario({1: "malformed"}),
    "errors": Scenario({0: "500", 1: "429"}),
    "cut": Scenario({1: "cut"}),
    "silence": Scenario({1: "silence"}),
    "compaction": Scenario({1: "full"}, turns=3),
    "sub_agent": Scenario({1: "sub_agent"}),
}


ROUGH = "rough"
"""Everything in one conversation: see `rough_scenario`."""


def rough_scenario(hand: Hand) -> Scenario:
    """Returns one conversation with two calls at once, each error, broken arguments, a cut connection, and a sub-agent
    and a full context where the harness knows them: a turn for each, and a last one."""
    faults: dict[int, Fault] = {0: "500", 1: "429", 2: "malformed", 3: "cut"}
    if hand.sub_agent is not None:
        faults[len(faults)] = "sub_agent"
    if hand.full:
        faults[len(faults)] = "full"
    return Scenario(faults, turns=len(faults) + 1, parallel=True)


KNOWN = {
    ("gemini-cli", "gemini", "cut"): "it does not ask again after a stream that was cut: it ends with an error",
    ("openai-agents", "openai-responses", "cut"): "its client does not ask again in the middle of a streamed answer",
}
"""What a harness does not survive, by its own doing."""


class Player:
    """A model that goes through a scenario, turn by turn, whatever the client asks again.

    Titles, summaries and other calls without tools are answered with a text and are no turn.
    """

    def __init__(self, hand: Hand, scenario: Scenario, relays: Sequence[ConnectionRelay]) -> None:
        self.name = "scripted"
        self.turn = 0
        self._hand, self._scenario, self._relays = hand, scenario, relays
        self._done: set[int] = set()
        self._sub = 0

    async def complete(self, request: ModelRequest, on_deltas: OnDeltas | None = None) -> ModelReply:
        if not request.tools or _asks_for_a_summary(request):
            return await self._say(request, Reply(content="Summary: go on with the task."), on_deltas)
        if self._is_sub(request):
            return await self._say(request, self._sub_turn(), on_deltas)
        fault = self._scenario.faults.get(self.turn) if self.turn not in self._done else None
        self._done.add(self.turn)
        if fault == "500":
            raise ProviderError("the server fell over", status=500)
        if fault == "429":
            raise ProviderError("too many requests", status=429, retry_after_s=1.0)
        if fault == "full" and self._hand.full < 0:
            raise ProviderError(
                "context_length_exceeded: the prompt is too long, 25000 tokens > 24000 maximum",
                status=400,
                retryable=False,
            )
        if fault == "silence":
            await asyncio.sleep(self._scenario.silence_s)
        if fault in {"malformed", "sub_agent"}:
            return await self._say(request, self._odd(fault), on_deltas)
        if fault == "cut":
            return await self._cut(request, on_deltas)
        reply = self._reply()
        self.turn += 1
        full = self._hand.full if fault == "full" else None
        return await self._say(request, reply, on_deltas, full)

    def _is_sub(self, request: ModelRequest) -> bool:
        said = [content_text(m.get("content")) for m in request.messages if m.get("role") == "user"]
        return any(SUBTASK in text for text in said)

    def _sub_turn(self) -> Reply:
        self._sub += 1
        if self._sub > 1 and self._hand.sub_end is not None:
            return Reply(tool_calls=(self._call(self._hand.sub_end, "end"),))
        if self._sub > 1:
            return Reply(content="The subtask is done.")
        return Reply(tool_calls=(self._call(self._hand.shell("echo sub >> sub.txt"), "sub"),))

    def _call(self, what: tuple[str, dict[str, Any]], position: int | str = 0) -> ScriptedCall:
        return ScriptedCall(what[0], what[1], id=f"call_{self.turn:02d}{position}{_ID}")

    def _reply(self) -> Reply:
        if self.turn >= self._scenario.turns:
            if self._hand.end is None:
                return Reply(content="All is done.")
            return Reply(content="All is done.", tool_calls=(self._call(self._hand.end),))
        commands = [f"echo turn-{self.turn} >> log.txt"]
        if self._scenario.parallel and self.turn == 1:
            commands.append("echo beside >> beside.txt")
        calls = tuple(self._call(self._hand.shell(c), i) for i, c in enumerate(commands))
        return Reply(content=f"This is turn {self.turn}.", reasoning="I think, therefore I write.", tool_calls=calls)

    def _odd(self, fault: str) -> Reply:
        if fault == "sub_agent":
            call = self._call(self._hand.sub_agent or ("", {}), "s")
            return Reply(content="Somebody else does this.", tool_calls=(call,))
        name, arguments = self._hand.shell("echo broken >> log.txt")
        text = msgspec.json.encode(arguments).decode()[:-6]
        return Reply(tool_calls=(ScriptedCall(name, text, id="call_broken"),))

    async def _cut(self, request: ModelRequest, on_deltas: OnDeltas | None) -> ModelReply:
        """Half of an answer, and then the line is dead; the rest is generated for nobody."""
        reply = await ScriptedBackend(lambda _: self._reply()).complete(request)
        pieces = _pieces(reply)
        if on_deltas is not None:
            await on_deltas(pieces[: len(pieces) // 2])
            await asyncio.sleep(0.3)
        for relay in self._relays:
            relay.cut()
        if on_deltas is not None:
            await on_deltas(pieces[len(pieces) // 2 :])
        return reply

    async def _say(
        self, request: ModelRequest, said: Reply, on_deltas: OnDeltas | None, full: int | None = None
    ) -> ModelReply:
        reply = await ScriptedBackend(lambda _: said).complete(request)
        if on_deltas is not None:
            for piece in _pieces(reply):
                await on_deltas([piece])
        return reply if full is None else msgspec.structs.replace(reply, usage=Usage(full, 10))

    async def close(self) -> None:
        """Holds nothing."""


def _asks_for_a_summary(request: ModelRequest) -> bool:
    last = content_text(request.messages[-1].get("content")) if request.messages else ""
    return "Respond with TEXT ONLY" in last or "CONTEXT CHECKPOINT" in last


def _pieces(reply: ModelReply) -> list[Delta]:
    """An answer in pieces of a few characters, as a server streams it."""
    found: list[Delta] = []
    for whole in split_reply(reply):
        if whole.index is not None:
            found.append(msgspec.structs.replace(whole, arguments=""))
            found += [Delta(index=whole.index, arguments=part) for part in _parts(whole.arguments)]
        elif whole.reasoning:
            found += [Delta(reasoning=part) for part in _parts(whole.reasoning)]
        else:
            found += [Delta(text=part) for part in _parts(whole.text)]
    return found


def _parts(text: str, size: int = 7) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


class Cell(msgspec.Struct, frozen=True):
    """What came of one scenario with one harness."""

    harness: str
    dialect: str
    scenario: str
    status: Literal["pass", "fail", "not applicable", "not run"]
    note: str = ""
    seconds: float = 0.0
    calls: int = 0
    streamed: bool | None = None
    causes: tuple[str, ...] = ()
    """Why calls began new branches, in order."""
    state: tuple[str, ...] = ()
    """Paths that changed, but for those of the scenario."""


async def run_cell(
    backend: Backend, harness: str, dialect: str, name: str, *, timeout_s: float = 180.0, silence_s: float | None = None
) -> tuple[Cell, DriveResult | None]:
    """Puts a harness through a scenario. What it cannot do is not applicable; what goes wrong is a fail, with why.

    `silence_s` is how long the model is silent for a harness whose own clock cannot be shortened.
    """
    hand = HANDS[harness]
    scenario = rough_scenario(hand) if name == ROUGH else SCENARIOS[name]
    if silence_s is not None and not hand.shorter:
        scenario, timeout_s = scenario._replace(silence_s=silence_s), timeout_s + silence_s
    why_not = _not_applicable(hand, scenario)
    if why_not is not None:
        return Cell(harness, dialect, name, "not applicable", why_not), None
    relays: list[ConnectionRelay] = []
    player = Player(hand, scenario, relays)
    options = {"context_tokens": hand.window} if "full" in scenario.faults.values() and hand.program is None else {}
    options |= hand.shorter if name == "silence" else {}
    agent = agent_of(harness, dialect, options)
    what = Drive(
        "Write the lines that you are told to write.",
        spec=WorkspaceSpec(limits=ResourceLimits(memory_mib=256, processes=32, tmp_mib=64)),
        timeout_s=timeout_s,
        keep_alive_s=2.0 if scenario.silence_s < 60 else 10.0,
        read=(LOG, "/workspace/sub.txt", "/workspace/beside.txt"),
    )
    driven = await drive(agent, PlainModel(player), backend, what, relays)
    problem = _problem(scenario, driven)
    own = {"/workspace/log.txt", "/workspace/sub.txt", "/workspace/beside.txt"}
    cell = Cell(
        harness=harness,
        dialect=dialect,
        scenario=name,
        status="pass" if problem is None else "fail",
        note=KNOWN.get((harness, dialect, name), problem) if problem else _told(hand, scenario),
        seconds=round(driven.seconds, 1),
        calls=len(driven.exchanges),
        streamed=_streams(driven.exchanges),
        causes=tuple(e.cause for e in driven.exchanges if e.cause is not None),
        state=tuple(c.path for c in driven.changes if c.path not in own)[:20],
    )
    return cell, driven


def agent_of(harness: str, dialect: str, options: dict[str, Any]) -> Agent:
    """The agent, told to speak `dialect`."""
    hand = HANDS[harness]
    more = {"dialect": dialect} if hand.program is None else _command(harness, dialect, hand.program)
    agent: Agent = load("agents", hand.agent or harness)(**options, **more)
    return agent


def _command(harness: str, dialect: str, program: str) -> dict[str, Any]:
    """Options of the agent `command` for a program of docs_src. The one that can, streams in the second dialect."""
    words = [f"/opt/agents/{harness}/bin/python", "/opt/program.py"]
    words += ["responses", "stream"] if dialect == "openai-responses" else []
    return {
        "harnesses": [harness],
        "mounts": {str(DOCS / program): "/opt/program.py"},
        "command": words,
        "own": ["/home/agent/.cache"],
    }


def _told(hand: Hand, scenario: Scenario) -> str:
    """What a reader of a pass should know."""
    if "silence" not in scenario.faults.values():
        return ""
    clock = ", its own clock set to 6 s" if hand.shorter else ""
    return f"{scenario.silence_s:.0f} s of silence{clock}"


def _not_applicable(hand: Hand, scenario: Scenario) -> str | None:
    faults = set(scenario.faults.values())
    if "sub_agent" in faults and hand.sub_agent is None:
        return "it has no sub-agents as it is run here"
    if "full" in faults and not hand.full:
        return "nothing tells it of a context; if it compacts, then by a table of its own"
    return None


def _problem(scenario: Scenario, driven: DriveResult) -> str | None:
    """What is not as it must be; None where all is."""
    if driven.error is not None:
        return driven.error
    result = driven.results[-1]
    if result.timed_out:
        return f"did not end: {_tail(result.stderr or result.stdout)}"
    wanted = "".join(f"turn-{turn}\n" for turn in range(scenario.turns))
    seen = driven.files.get(LOG, b"").decode()
    if seen != wanted:
        return (
            f"log.txt is {seen!r} and not {wanted!r}; exit {result.exit_code}: {_tail(result.stderr or result.stdout)}"
        )
    if scenario.parallel and driven.files.get("/workspace/beside.txt") != b"beside\n":
        return "the second of two calls at once was not made, or made twice"
    faults = set(scenario.faults.values())
    if "sub_agent" in faults and driven.files.get("/workspace/sub.txt") != b"sub\n":
        return "the sub-agent did not act, or acted twice"
    return _record_problem(scenario, driven, faults)


def _record_problem(scenario: Scenario, driven: DriveResult, faults: set[str]) -> str | None:
    """The record: the way from the last call, or the last before the context was full, to its root has every turn
    once."""
    causes = [exchange.cause for exchange in driven.exchanges if exchange.cause is not None]
    if "sub_agent" in faults and "sub_agent" not in causes:
        return f"the record has no sub-agent's branch: {causes}"
    if "silence" in faults and len(driven.answered) != len(driven.exchanges):
        return "it asked again while the model was silent"
    last, turns = driven.answered[-1], scenario.turns
    if "full" in faults:
        turns = next(turn for turn, fault in scenario.faults.items() if fault == "full")
        last = next(exchange for exchange in driven.answered if turns - 1 in _turns_of(exchange))
        after = driven.exchanges[driven.exchanges.index(last) + 1 :]
        if all(exchange.cause is None for exchange in after):
            return "it did not compact"
    seen = _turns_on_the_way(driven, last)
    if len(set(seen)) != len(seen) or len(seen) < turns:
        return f"the branch of call {last.id} has the turns {sorted(seen)}"
    return None


def _turns_on_the_way(driven: DriveResult, last: Exchange) -> list[int]:
    by_id = {exchange.id: exchange for exchange in driven.exchanges}
    line = [last]
    while line[-1].parent is not None:
        line.append(by_id[line[-1].parent])
    return [turn for exchange in line for turn in _turns_of(exchange)]


def _turns_of(exchange: Exchange) -> list[int]:
    """The turns whose first call this exchange's reply makes."""
    calls = (exchange.reply.message.get("tool_calls") if exchange.reply else None) or ()
    return [int(call["id"][5:7]) for call in calls if call["id"][7:] == f"0{_ID}"]


def _streams(exchanges: Sequence[Exchange]) -> bool | None:
    if not exchanges:
        return None
    return any(b"data:" in exchange.raw_response[:4000] for exchange in exchanges)


def _tail(text: str) -> str:
    return " ".join(text.split())[-300:]
