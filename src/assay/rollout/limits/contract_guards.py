"""Contracts while an attempt goes on: a call that would break one is refused, asked about, or written down.

Where: the agent's tool calls and shell commands, what it runs in or writes into its sandbox beside them, and, for
programs that ask through the gateway, the tool calls in the model's reply, before the program gets it
(`guarded_model`). Each decision is evidence of kind `guard` in the attempt's chain; a refusal is shown to the agent as
an error that says which rule it breaks and why.

Covered: every call that Assay itself makes for an agent, and every tool call of a reply that passes the gateway. Not
covered: what a program in the sandbox does without asking a model; there the sandbox holds, not a contract.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from assay.analysis.contracts import GUARD, Contract, Decision, Monitor, contract_of, read_contract
from assay.environments.interface import ExecResult, SpillTarget, Workspace, WorkspaceSpec
from assay.errors import UserError
from assay.records import AttemptStarted, Step, Task, ToolCall, canonical_bytes
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.workspace_wrapper import PassingWorkspace

__all__ = [
    "Ask",
    "Guard",
    "GuardedWorkspace",
    "Held",
    "Question",
    "contracts_of_task",
    "load_contracts",
    "refusal_of_exec",
    "unique_contracts",
]

REFUSED_EXIT: Final = 126
"""The exit code of a command that was refused: found, and not allowed to run."""
MOST_FILE: Final = 256 * 1024
SHOWN: Final = 2_000


class Question(NamedTuple):
    """What somebody is asked to allow."""

    task: str
    tool: str
    arguments: str
    """As the agent wrote them; hostile text."""
    rule: str
    reason: str


Ask = Callable[[Question], Awaitable[bool]]
"""Whether a call is allowed. Without anybody to ask it is not."""


def load_contracts(paths: Iterable[str]) -> tuple[Contract, ...]:
    """Reads contract files. Raises `UserError` that names the file and the key."""
    found = []
    for path in map(Path, paths):
        try:
            with path.open("rb") as file:
                text = file.read(MOST_FILE + 1).decode()
        except OSError as exc:
            raise UserError(
                f"cannot read the contract {path}: {exc.strerror}; check the path and its permissions"
            ) from exc
        except UnicodeDecodeError as exc:
            raise UserError(f"{path} is no UTF-8 text (byte {exc.start}): a contract is TOML") from exc
        found.append(read_contract(text, str(path)))
    return unique_contracts(found)


def contracts_of_task(task: Task) -> tuple[Contract, ...]:
    """The contracts in a task's `[[metadata.assay.contracts]]`. Raises `UserError` that names the task and the key."""
    assay = task.metadata.get("assay")
    given = assay.get("contracts", []) if isinstance(assay, dict) else []
    if not isinstance(given, list):
        raise UserError(f"task {task.id}: metadata.assay.contracts: expected tables, [[metadata.assay.contracts]]")
    places = [f"task {task.id}: metadata.assay.contracts[{n}]" for n in range(len(given))]
    return unique_contracts(contract_of(table, place) for table, place in zip(given, places, strict=True))


def unique_contracts(contracts: Iterable[Contract]) -> tuple[Contract, ...]:
    """The contracts, each once. Raises `UserError` where two that differ have one name."""
    found: dict[str, Contract] = {}
    for contract in contracts:
        if found.setdefault(contract.name, contract).digest != contract.digest:
            raise UserError(f"two contracts are called {contract.name!r} and differ: give each its own name")
    return tuple(found.values())


class Held(NamedTuple):
    """What holds for the attempts of a run, beside their tasks' own contracts."""

    contracts: tuple[Contract, ...] = ()
    ask: Ask | None = None

    def guard(self, task: Task, recorder: Recorder) -> Guard | None:
        """The guard of one attempt; None where nothing holds. Raises `UserError` as `contracts_of_task`."""
        contracts = unique_contracts((*self.contracts, *contracts_of_task(task)))
        return Guard(contracts, recorder, self.ask) if contracts else None


class Guard:
    """The contracts of one attempt.

    Args:
        contracts: What holds; at least one.
        recorder: Of the try.
        ask: Whom to ask; None refuses what would have to be asked.
    """

    def __init__(self, contracts: Sequence[Contract], recorder: Recorder, ask: Ask | None) -> None:
        self._contracts = tuple(contracts)
        self._recorder = recorder
        self._ask = ask
        self._task = ""
        self._monitor = Monitor(contracts)
        self._counts = {"checked": 0, "denied": 0, "allowed": 0, "logged": 0}
        self._refused: dict[int, str] = {}
        """Of the step under way, the calls that are not made."""

    def begin(self, started: AttemptStarted) -> None:
        """The attempt has begun; what holds for it is evidence."""
        self._task = started.task
        self._monitor = Monitor(self._contracts, started)
        for contract in self._contracts:
            table = msgspec.to_builtins(contract.table)
            data = {"name": contract.name, "digest": contract.digest, "contract": table}
            self._recorder.evidence("audit", "contract", data)

    async def judge(self, step: Step, made: int = 0) -> dict[int, str]:
        """What of a step must not be done.

        Args:
            step: What is about to be done, with what its first `made` calls brought.
            made: How many of its calls are over.

        Returns:
            Position of each further call that is refused, and what its agent is told.
        """
        decisions = self._monitor.ask(step, made, self._refused if made else ())
        self._counts["checked"] += len(step.tool_calls) - made
        decided: list[tuple[Decision, str]] = []
        refused: dict[int, str] = {}
        for decision in decisions:
            if decision.call not in refused:
                decided.append((decision, await self._decide(step, decision)))
                if decided[-1][1] == "denied":
                    refused[decision.call] = _told(decision)
        # Written at once, so that all of it stands under the number that the step will have.
        for decision, verdict in decided:
            self._note(step, decision, verdict)
        if not step.extra.get("beside"):
            self._refused.update(refused)
        return refused

    async def _decide(self, step: Step, decision: Decision) -> str:
        if decision.enforce == "log":
            return "logged"
        if decision.enforce == "deny" or self._ask is None:
            return "denied"
        call = _call(step, decision)
        question = Question(self._task, call.name, call.arguments[:SHOWN], decision.rule, decision.reason)
        return "allowed" if await self._ask(question) else "denied"

    def _note(self, step: Step, decision: Decision, verdict: str) -> None:
        self._counts[verdict] += 1
        call = _call(step, decision)
        beside = bool(step.extra.get("beside"))
        data: dict[str, object] = {
            "decision": verdict,
            "contract": decision.contract,
            "rule": decision.rule,
            "status": decision.status,
            "enforce": decision.enforce,
            "asked": decision.enforce == "ask" and self._ask is not None,
            "reason": decision.reason,
            "tool": call.name,
            "arguments": call.arguments[:SHOWN],
            **({"beside": True} if beside else {"step": self._recorder.steps, "call": decision.call}),
        }
        self._recorder.evidence("audit", GUARD, data)

    def left_out(self, step: Step) -> None:
        """The whole turn is not made; what of it was not refused by itself is evidence too."""
        for number, call in enumerate(step.tool_calls):
            if number not in self._refused:
                data = {"decision": "not made", "tool": call.name, "step": self._recorder.steps, "call": number}
                self._recorder.evidence("audit", GUARD, data)
                self._refused[number] = ""

    def took(self, step: Step) -> None:
        """The step whose calls were judged is recorded."""
        refused, self._refused = self._refused, {}
        self._monitor.took(step, refused)

    def saw(self, step: Step) -> None:
        """A step is recorded that was judged before, or never: a turn of a program."""
        self._monitor.took(step)

    def end(self) -> None:
        """Acting is over; how much was looked at is evidence."""
        data: dict[str, object] = {**self._counts, "contracts": [contract.name for contract in self._contracts]}
        self._recorder.evidence("audit", "guard_summary", data)


def _call(step: Step, decision: Decision) -> ToolCall:
    if 0 <= decision.call < len(step.tool_calls):
        return step.tool_calls[decision.call]
    return ToolCall("", "message", (step.message or "")[:SHOWN])


def _told(decision: Decision) -> str:
    return (
        f"Refused by the safety contract {decision.contract!r}, rule {decision.rule!r}: {decision.reason}. "
        "The call was not made. Do what the rule asks for first, or go on without it."
    )


def refusal_of_exec(reason: str) -> ExecResult:
    """What a refused command gives."""
    length = len(reason.encode())
    return ExecResult(exit_code=REFUSED_EXIT, stdout="", stderr=reason, duration_s=0.0, stderr_bytes=length)


class GuardedWorkspace(PassingWorkspace):
    """What an agent does in its sandbox beside its steps, under the same contracts: `exec` and `write` are calls of
    these names.

    Args:
        inner: The recorded workspace.
        guard: Of the attempt.
    """

    def __init__(self, inner: Workspace, guard: Guard) -> None:
        super().__init__(inner)
        self._guard = guard

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        show_bytes: int = 65_536,
        spill: SpillTarget | None = None,
    ) -> ExecResult:
        """See `Session.exec`. A refused command ends with 126."""
        words = command if isinstance(command, str) else list(command)
        reason = await self._refusal("exec", {"command": words, **({"cwd": cwd} if cwd else {})})
        if reason is not None:
            return refusal_of_exec(reason)
        return await self._inner.exec(
            command, cwd=cwd, env=env, stdin=stdin, timeout_s=timeout_s, show_bytes=show_bytes, spill=spill
        )

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """See `Files.write`. Raises `PermissionError` where it is refused."""
        reason = await self._refusal("write", {"path": path, "size": len(data)})
        if reason is not None:
            raise PermissionError(reason)
        await super().write(path, data, mode=mode)

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        """See `State.fork`. What is tried in a fork is under the same contracts."""
        return GuardedWorkspace(await self._inner.fork(spec), self._guard)

    async def _refusal(self, name: str, arguments: dict[str, Any]) -> str | None:
        call = ToolCall(name, name, canonical_bytes(arguments).decode(), arguments)
        step = Step(0, "agent", tool_calls=(call,), extra={"beside": True})
        return (await self._guard.judge(step)).get(0)
