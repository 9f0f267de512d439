"""Agents that repeat a recorded attempt: same calls, same order, in a fresh environment.

They ask no model and judge nothing: `assay.analysis.replayed` compares the records. Actions between the steps (an
upload, a written file, a command) are repeated where they stand in the record; missing content is noted. After each
step the agent notes the state's changes.

Not replayed: steps in forks, which left no trace, steps of other actors, and calls of a team's own tools.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.environments.interface import Change, Workspace
from assay.errors import StoreError, UserError
from assay.records import Evidence, Observation, Step, ToolCall, world_calls

from .fork import DelegatingAgent
from .interface import FORK_SHELL, Agent, Attempt, Prior

MOST_CHANGES = 2_000
"""Maximum number of noted changed paths per step."""


class ReplayAgent:
    """Repeats `attempt.prior`."""

    name = "replay"
    needs_model = False
    attempts_task = False

    async def run(self, attempt: Attempt) -> None:
        """Repeats the recorded attempt. Raises `UserError` if there is nothing to replay."""
        if attempt.prior is None:
            raise UserError(
                f"nothing to replay for task {attempt.task.id!r}: `assay replay ATTEMPT` replays a recorded attempt"
            )
        replayer = ActionReplayer(attempt, attempt.prior)
        await replayer.run()
        attempt.finish(f"did {replayer.steps} recorded steps again")


class ContinueAgent(DelegatingAgent, ReplayAgent):
    """Repeats `attempt.prior`, then lets another agent continue."""

    def __init__(self, then: Agent) -> None:
        super().__init__("replay", then)

    async def run(self, attempt: Attempt) -> None:
        if attempt.prior is not None and attempt.prior.until != 0:
            await ActionReplayer(attempt, attempt.prior).run()
        await self._then.run(attempt)


class SuffixAgent(ReplayAgent):
    """Repeats another recorded attempt from one of its steps on."""

    def __init__(self, prior: Prior, since: int) -> None:
        self.name = "suffix"
        self._prior = prior
        self._since = since

    async def run(self, attempt: Attempt) -> None:
        replayer = ActionReplayer(attempt, self._prior, self._since)
        await replayer.run()
        attempt.finish(f"did {replayer.steps - self._since} steps of another attempt")


class ActionReplayer:
    """Repeats one attempt's acts, without the first `since` steps and the actions beside them."""

    def __init__(self, attempt: Attempt, prior: Prior, since: int = 0) -> None:
        self.steps = 0
        """Number of steps done."""
        self._next = 0
        self._since = since
        self._attempt = attempt
        self._prior = prior
        self._missing: list[str] = []
        self._env: dict[str, str] = {}
        self._timeout_s: float | None = None
        """Timeout and variables of the next step's command."""
        self._known: dict[str, Change] = {}

    async def run(self) -> None:
        """Repeats everything, or as many steps as `prior` requests, and notes what failed."""
        await self.run_until(self._prior.until)
        self.note()

    async def run_until(self, until: int | None) -> None:
        """Repeats until before the step at position `until`; None for the end."""
        acts = self._prior.acts
        while self._next < len(acts) and (until is None or self.steps < until):
            act = acts[self._next]
            self._next += 1
            if isinstance(act, Evidence):
                if self.steps >= self._since:
                    await self._repeat_beside(act)
            elif act.actor == "agent":
                if self.steps < self._since:
                    self.steps += 1
                else:
                    await self._step(act)

    def note(self) -> None:
        data = {"steps": self.steps, "missing": self._missing[:100]}
        self._attempt.note(Evidence("replayed", "audit", "replayed", data))

    async def _step(self, step: Step) -> None:
        step = msgspec.structs.replace(step, tool_calls=world_calls(step))
        if not step.tool_calls or all(call.name == FORK_SHELL for call in step.tool_calls):
            self._attempt.say(step.message or "", reasoning=step.reasoning)
        else:
            await self._act(step)
        self.steps += 1
        self._env, self._timeout_s = {}, None
        await self._note_state()

    async def _act(self, step: Step) -> tuple[Observation, ...] | None:
        command = own_command(step)
        if command is None:
            return await self._attempt.act(step.tool_calls, message=step.message, reasoning=step.reasoning)
        env, timeout_s = self._env or None, self._timeout_s
        await self._attempt.shell(command, message=step.message, timeout_s=timeout_s, env=env)
        return None

    async def _note_state(self) -> None:
        """Notes the changes since the previous step, so that two replays can be compared by path."""
        workspace = self._attempt.workspace
        if workspace is None:
            return
        now = {change.path: change for change in await workspace.diff()}
        changed = [change for path, change in now.items() if self._known.get(path) != change]
        reverted = [path for path in self._known if path not in now]
        self._known = now
        if changed or reverted:
            data = {
                "step": self.steps - 1,
                "changes": msgspec.to_builtins(changed[:MOST_CHANGES]),
                "as_before": reverted[:MOST_CHANGES],
            }
            self._attempt.note(Evidence("step_state", "state", "step_state", data))

    async def _repeat_beside(self, act: Evidence) -> None:
        """Repeats actions between steps. An execution of a step gives only its variables and timeout."""
        workspace, data = self._attempt.workspace, act.data
        if workspace is None or "fork" in data:
            return
        if act.kind in ("execution", "execution_cut") and not data.get("beside"):
            self._env, self._timeout_s = self._variables(data.get("env") or ()), data.get("timeout_s")
            return
        if not data.get("beside"):
            return
        try:
            await self._do(workspace, act)
        except (KeyError, ValueError, OSError, StoreError) as exc:
            self._missing.append(f"{act.kind} {data.get('target') or data.get('path') or ''}: {exc}"[:300])

    async def _do(self, workspace: Workspace, act: Evidence) -> None:
        data, prior = act.data, self._prior
        match act.kind:
            case "write":
                await workspace.write(
                    str(data["path"]), prior.blob(_require_text(data, "digest")), mode=int(data["mode"])
                )
            case "upload":
                with tempfile.TemporaryDirectory(prefix="assay-replay-") as folder:
                    source = Path(folder) / "source"
                    await asyncio.to_thread(prior.tree, _require_text(data, "listing"), source)
                    await workspace.upload(source, str(data["target"]))
            case "execution":
                stdin = data.get("stdin")
                await workspace.exec(
                    _command(data["argv"]),
                    cwd=str(data["cwd"]),
                    env=self._variables(data.get("env") or ()) or None,
                    stdin=prior.blob(_require_text(stdin, "digest")) if isinstance(stdin, dict) else b"",
                    timeout_s=data.get("timeout_s"),
                )
            case "kill_all" | "fork" | "snapshot":
                await workspace.kill_all()

    def _variables(self, names: Sequence[str]) -> dict[str, str]:
        """Returns variables by name: values are not recorded, but the task's own solution's are known."""
        oracle = self._attempt.task.oracle
        known = oracle.env if oracle is not None else {}
        self._missing += [f"the value of the variable {name}" for name in names if name not in known]
        return {name: known[name] for name in names if name in known}


def _require_text(data: dict[str, Any], key: str) -> str:
    found = data.get(key)
    if not isinstance(found, str):
        raise ValueError(  # noqa: TRY004  (a record that does not hold what it should)
            f"its bytes are not in the record ({data.get('left_out') or 'an older version did not keep them'})"
        )
    return found


def _command(argv: object) -> str | list[str]:
    if isinstance(argv, str):
        return argv
    if isinstance(argv, list) and argv and all(isinstance(word, str) for word in argv):
        return argv
    raise ValueError("the recorded execution is not a command")


def own_command(step: Step) -> str | list[str] | None:
    """Returns the command of a step taken through `attempt.shell`, which has more options than a model's tool."""
    call: ToolCall = step.tool_calls[0]
    if step.call is not None or len(step.tool_calls) != 1 or call.name != "shell" or call.error is not None:
        return None
    if call.parsed is None or set(call.parsed) != {"command"}:
        return None
    try:
        return _command(call.parsed["command"])
    except ValueError:
        return None
