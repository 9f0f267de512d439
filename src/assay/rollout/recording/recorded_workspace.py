"""A workspace that records every command in the audit channel."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from assay.environments.interface import ExecOptions, ExecResult, Snapshot, SpillTarget, Workspace, WorkspaceSpec
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.task_archive import EvidenceData
from assay.rollout.recording.workspace_wrapper import WorkspaceWrapper
from assay.store import store_tree

MOST_BROUGHT = 64 << 20
"""Largest size, in bytes, of a file or tree brought in outside steps that is stored for replay."""


class RecordedWorkspace(WorkspaceWrapper):
    """Delegates to a workspace and records each exec, write and upload as audit evidence.

    `fork` names a fork, which is not part of the judged state. `beside` marks acts outside steps, which a replay must
    repeat; the bytes brought in are stored.
    """

    def __init__(
        self,
        inner: Workspace,
        recorder: Recorder,
        spill: SpillTarget,
        fork: str | None = None,
        *,
        beside: bool = False,
    ) -> None:
        super().__init__(inner)
        self._recorder = recorder
        self._spill = spill
        self._labels: dict[str, object] = {} if fork is None else {"fork": fork}
        self._forks: list[RecordedWorkspace] = []
        self._beside = beside
        if beside:
            self._labels["beside"] = True

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        """Implements `Session.exec`. Truncated output is stored whole as a blob."""
        env, timeout_s, stdin = options.get("env"), options.get("timeout_s"), options.get("stdin", b"")
        started_call: dict[str, object] = {
            "argv": command if isinstance(command, str) else list(command),
            "cwd": options.get("cwd") or self.spec.workdir,
            **({"env": sorted(env)} if env else {}),
            **({"timeout_s": timeout_s} if timeout_s is not None else {}),
            **self._labels,
        }
        brought = self._store_bytes(stdin) if stdin else EvidenceData({})
        if brought.data:
            started_call["stdin"] = brought.data
        options["spill"] = options.get("spill") or self._spill
        try:
            result = await self._inner.exec(command, **options)
        except BaseException as exc:  # cut by a limit or a cancellation, or the sandbox broke under it
            self._recorder.evidence("audit", "execution_cut", {**started_call, "cause": type(exc).__name__})
            raise
        data: dict[str, object] = {
            **started_call,
            "exit_code": result.exit_code,
            "stdout": result.stdout,
            "stderr": result.stderr,
            "stdout_bytes": result.stdout_bytes,
            "stderr_bytes": result.stderr_bytes,
            "duration_s": round(result.duration_s, 6),
            "timed_out": result.timed_out,
            "killed_by": result.killed_by,
        }
        blobs = (*brought.blobs, *(d for d in (result.stdout_digest, result.stderr_digest) if d))
        self._recorder.evidence("audit", "execution", data, blobs)
        return result

    async def close(self) -> None:
        await self.close_forks()
        await super().close()

    async def close_forks(self) -> None:
        """Closes all open forks, so that none outlives the agent's acting."""
        while self._forks:
            await self._forks.pop().close()

    async def kill_all(self) -> None:
        await super().kill_all()
        if self._beside:
            self._recorder.evidence("audit", "kill_all", {**self._labels})

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await super().write(path, data, mode=mode)
        kept = self._store_bytes(data)
        facts = {"path": path, "size": len(data), "mode": mode, **kept.data, **self._labels}
        self._recorder.evidence("audit", "write", facts, kept.blobs)

    async def upload(self, source: Path, target: str) -> None:
        await super().upload(source, target)
        kept = await asyncio.to_thread(self._store_tree, source) if self._is_beside else EvidenceData({})
        facts = {"name": source.name, "target": target, **kept.data, **self._labels}
        self._recorder.evidence("audit", "upload", facts, kept.blobs)

    @property
    def _is_beside(self) -> bool:
        """Returns whether bytes brought in must be stored: not in forks, which are not judged."""
        return self._beside and "fork" not in self._labels

    def _store_bytes(self, data: bytes) -> EvidenceData:
        if not self._is_beside:
            return EvidenceData({})
        names = self._recorder.redactor.clean(data).names
        if names or len(data) > MOST_BROUGHT:
            return EvidenceData({"left_out": f"holds {', '.join(names)}" if names else "too large"})
        digest = self._recorder.store.blobs.put(data)
        return EvidenceData({"digest": digest}, (digest,))

    def _store_tree(self, source: Path) -> EvidenceData:
        def look(data: bytes) -> None:
            names = self._recorder.redactor.clean(data, shapes=False).names
            if names:
                raise ValueError(f"holds {', '.join(names)}")

        try:
            kept = store_tree(self._recorder.store.blobs, source, most_bytes=MOST_BROUGHT, inspect=look)
        except (OSError, ValueError) as exc:
            return EvidenceData({"left_out": str(exc)[:300]})
        return EvidenceData({"listing": kept.listing, "files": kept.files}, (kept.listing,))

    async def snapshot(self) -> Snapshot:
        taken = await super().snapshot()
        self._recorder.evidence(
            "state", "snapshot", {"digest": taken.digest, "changes": len(taken.changes), **self._labels}
        )
        return taken

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        """Implements `State.fork`. The fork's acts are recorded in the same chain, under its name."""
        name = ".".join([*([str(self._labels["fork"])] if "fork" in self._labels else []), str(len(self._forks) + 1)])
        made = RecordedWorkspace(await self._inner.fork(spec), self._recorder, self._spill, name, beside=self._beside)
        self._forks.append(made)
        if self._is_beside:  # it killed what ran here
            self._recorder.evidence("audit", "fork", {"name": name, **self._labels})
        return made
