"""Enforces contracts while an attempt runs: a violating call is denied, confirmed or logged.

Applied to the agent's tool calls and shell commands, to its other commands and writes in the sandbox, and, for programs
behind the gateway, to the tool calls of a model's reply (`guarded_model`). Each decision is evidence of kind `guard`; a
refusal is returned to the agent as an error that names the rule and the reason.

Covered: every call that Assay makes for an agent, and every tool call of a reply through the gateway. Not covered: acts
of a program in the sandbox without a model call; only the sandbox limits those.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Unpack

import msgspec

from assay.analysis.contracts import GUARD, Contract, Decision, Monitor, contract_of, read_contract
from assay.environments.interface import ExecOptions, ExecResult, Workspace, WorkspaceSpec
from assay.errors import UserError
from assay.records import AttemptStarted, Step, Task, ToolCall, canonical_bytes
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.workspace_wrapper import WorkspaceWrapper

REFUSED_EXIT: Final = 126
"""Exit code of a refused command: found, but not executable."""
MOST_FILE: Final = 256 * 1024
SHOWN: Final = 2_000


class Question(NamedTuple):
    """A call to be confirmed."""

    task: str
    tool: str
    arguments: str
    """As the agent wrote them; untrusted text."""
    rule: str
    reason: str


Ask = Callable[[Question], Awaitable[bool]]
"""Returns whether a call is allowed. Without a callback it is refused."""


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
            raise UserError(f"{path} is not UTF-8 text (byte {exc.start}): a contract is TOML") from exc
        found.append(read_contract(text, str(path)))
    return unique_contracts(found)


def contracts_of_task(task: Task) -> tuple[Contract, ...]:
    """Returns the contracts in a task's `[[metadata.assay.contracts]]`. Raises `UserError` that names the task and the
    key."""
    assay = task.metadata.get("assay")
    given = assay.get("contracts", []) if isinstance(assay, dict) else []
    if not isinstance(given, list):
        raise UserError(f"task {task.id}: metadata.assay.contracts: expected tables, [[metadata.assay.contracts]]")
    places = [f"task {task.id}: metadata.assay.contracts[{n}]" for n in range(len(given))]
    return unique_contracts(contract_of(table, place) for table, place in zip(given, places, strict=True))


def unique_contracts(contracts: Iterable[Contract]) -> tuple[Contract, ...]:
    """Removes duplicates. Raises `UserError` if two different contracts have one name."""
    found: dict[str, Contract] = {}
    for contract in contracts:
        if found.setdefault(contract.name, contract).digest != contract.digest:
            raise UserError(f"two contracts are called {contract.name!r} and differ: give each its own name")
    return tuple(found.values())


class ActiveContracts(NamedTuple):
    """Contracts for all attempts of a run, in addition to those of the tasks."""

    contracts: tuple[Contract, ...] = ()
    ask: Ask | None = None

    def guard(self, task: Task, recorder: Recorder) -> ContractGuard | None:
        """Returns the guard of one attempt; None if there are no contracts. Raises `UserError` as
        `contracts_of_task`."""
        contracts = unique_contracts((*self.contracts, *contracts_of_task(task)))
        return ContractGuard(contracts, recorder, self.ask) if contracts else None


class ContractGuard:
    """Enforces the contracts of one attempt; without `ask`, calls that need confirmation are refused."""

    def __init__(self, contracts: Sequence[Contract], recorder: Recorder, ask: Ask | None) -> None:
        self._contracts = tuple(contracts)
        self._recorder = recorder
        self._ask = ask
        self._task = ""
        self._monitor = Monitor(contracts)
        self._counts = {"checked": 0, "denied": 0, "allowed": 0, "logged": 0}
        self._refused: dict[int, str] = {}
        """Refused calls of the step under way."""

    def begin(self, started: AttemptStarted) -> None:
        """Starts monitoring and records the contracts as evidence."""
        self._task = started.task
        self._monitor = Monitor(self._contracts, started)
        for contract in self._contracts:
            table = msgspec.to_builtins(contract.table)
            data = {"name": contract.name, "digest": contract.digest, "contract": table}
            self._recorder.evidence("audit", "contract", data)

    async def judge(self, step: Step, made: int = 0) -> dict[int, str]:
        """Returns the refusal text of each refused call by its position; the first `made` calls have their
        observations.
        """
        decisions = self._monitor.ask(step, made, self._refused if made else ())
        self._counts["checked"] += len(step.tool_calls) - made
        decided: list[tuple[Decision, str]] = []
        refused: dict[int, str] = {}
        for decision in decisions:
            if decision.call not in refused:
                decided.append((decision, await self._decide(step, decision)))
                if decided[-1][1] == "denied":
                    refused[decision.call] = _refusal_text(decision)
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

    def record_refusal(self, number: int) -> None:
        """Notes that a call of the step under way was refused by another authority, so that no rule counts it."""
        self._refused[number] = ""

    def record_unmade_calls(self, step: Step) -> None:
        """Records, for a turn that is discarded whole, the calls that were not refused themselves."""
        for number, call in enumerate(step.tool_calls):
            if number not in self._refused:
                data = {"decision": "not made", "tool": call.name, "step": self._recorder.steps, "call": number}
                self._recorder.evidence("audit", GUARD, data)
                self._refused[number] = ""

    def record_step(self, step: Step) -> None:
        """Advances the monitor by a recorded step whose calls were judged."""
        refused, self._refused = self._refused, {}
        self._monitor.record_step(step, refused)

    def observe_step(self, step: Step) -> None:
        """Advances the monitor by a recorded step of a program, judged before or never."""
        self._monitor.record_step(step)

    def end(self) -> None:
        """Ends acting and records the number of decisions."""
        data: dict[str, object] = {**self._counts, "contracts": [contract.name for contract in self._contracts]}
        self._recorder.evidence("audit", "guard_summary", data)


def _call(step: Step, decision: Decision) -> ToolCall:
    if 0 <= decision.call < len(step.tool_calls):
        return step.tool_calls[decision.call]
    return ToolCall("", "message", (step.message or "")[:SHOWN])


def _refusal_text(decision: Decision) -> str:
    return (
        f"Refused by the safety contract {decision.contract!r}, rule {decision.rule!r}: {decision.reason}. "
        "The call was not made. Do what the rule asks for first, or go on without it."
    )


def refusal_of_exec(reason: str) -> ExecResult:
    """Returns the result of a refused command."""
    length = len(reason.encode())
    return ExecResult(exit_code=REFUSED_EXIT, stdout="", stderr=reason, duration_s=0.0, stderr_bytes=length)


class GuardedWorkspace(WorkspaceWrapper):
    """Applies contracts to an agent's acts outside steps: `exec` and `write` count as calls of these names."""

    def __init__(self, inner: Workspace, guard: ContractGuard) -> None:
        super().__init__(inner)
        self._guard = guard

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        """Implements `Session.exec`. A refused command exits with 126."""
        words = command if isinstance(command, str) else list(command)
        folder = {"cwd": options["cwd"]} if options.get("cwd") else {}
        reason = await self._refusal("exec", {"command": words, **folder})
        if reason is not None:
            return refusal_of_exec(reason)
        return await self._inner.exec(command, **options)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Implements `Files.write`. Raises `PermissionError` if refused."""
        reason = await self._refusal("write", {"path": path, "size": len(data)})
        if reason is not None:
            raise PermissionError(reason)
        await super().write(path, data, mode=mode)

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        """Implements `State.fork`. The fork is under the same contracts."""
        return GuardedWorkspace(await self._inner.fork(spec), self._guard)

    async def _refusal(self, name: str, arguments: dict[str, Any]) -> str | None:
        call = ToolCall(name, name, canonical_bytes(arguments).decode(), arguments)
        step = Step(0, "agent", tool_calls=(call,), started=time.time(), extra={"beside": True})
        return (await self._guard.judge(step)).get(0)
