"""A workspace whose every command lands in the audit channel of the record."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.environments.interface import (
    ExecResult,
    Snapshot,
    SpillTarget,
    Workspace,
    WorkspaceSpec,
)
from assay.rollout.recording.recorder import Recorder
from assay.rollout.recording.task_archive import Fact
from assay.rollout.recording.workspace_wrapper import PassingWorkspace
from assay.store import store_tree

__all__ = ["RecordedWorkspace"]

MOST_BROUGHT = 64 << 20
"""Bytes of one thing that an agent brings in beside its steps which are kept for a replay."""


class RecordedWorkspace(PassingWorkspace):
    """Passes everything on, and records each exec, write and upload as evidence of the audit channel.

    Args:
        inner: The workspace itself.
        recorder: Of the try.
        spill: Where long output is kept whole.
        fork: Of a fork its name, which stands in its evidence; it is no part of the state that is judged.
        beside: What is done through it is no part of a step, and must be done again by a replay: it is marked
            `beside`, and the bytes that it brings in are kept.
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
        self._where: dict[str, object] = {} if fork is None else {"fork": fork}
        self._forks: list[RecordedWorkspace] = []
        self._beside = beside
        if beside:
            self._where["beside"] = True

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
        """See `Session.exec`. Output that is cut is kept whole in the blob store."""
        begun: dict[str, object] = {
            "argv": command if isinstance(command, str) else list(command),
            "cwd": cwd or self.spec.workdir,
            **({"env": sorted(env)} if env else {}),
            **({"timeout_s": timeout_s} if timeout_s is not None else {}),
            **self._where,
        }
        brought = self._kept_bytes(stdin) if stdin else Fact({})
        if brought.data:
            begun["stdin"] = brought.data
        try:
            result = await self._inner.exec(
                command,
                cwd=cwd,
                env=env,
                stdin=stdin,
                timeout_s=timeout_s,
                show_bytes=show_bytes,
                spill=spill or self._spill,
            )
        except BaseException as exc:  # cut by a limit or a cancellation, or the sandbox broke under it
            self._recorder.evidence("audit", "execution_cut", {**begun, "cause": type(exc).__name__})
            raise
        data: dict[str, object] = {
            **begun,
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
        """Closes what was forked from it and is still open: nothing of an agent outlives its acting."""
        while self._forks:
            await self._forks.pop().close()

    async def kill_all(self) -> None:
        await super().kill_all()
        if self._beside:
            self._recorder.evidence("audit", "kill_all", {**self._where})

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        await super().write(path, data, mode=mode)
        kept = self._kept_bytes(data)
        told = {"path": path, "size": len(data), "mode": mode, **kept.data, **self._where}
        self._recorder.evidence("audit", "write", told, kept.blobs)

    async def upload(self, source: Path, target: str) -> None:
        await super().upload(source, target)
        kept = await asyncio.to_thread(self._kept_tree, source) if self._is_beside else Fact({})
        told = {"name": source.name, "target": target, **kept.data, **self._where}
        self._recorder.evidence("audit", "upload", told, kept.blobs)

    @property
    def _is_beside(self) -> bool:
        """Whether what is brought in must be kept: a fork's is no part of what is judged."""
        return self._beside and "fork" not in self._where

    def _kept_bytes(self, data: bytes) -> Fact:
        if not self._is_beside:
            return Fact({})
        names = self._recorder.redactor.clean(data).names
        if names or len(data) > MOST_BROUGHT:
            return Fact({"left_out": f"holds {', '.join(names)}" if names else "too large"})
        digest = self._recorder.store.blobs.put(data)
        return Fact({"digest": digest}, (digest,))

    def _kept_tree(self, source: Path) -> Fact:
        def look(data: bytes) -> None:
            names = self._recorder.redactor.clean(data, shapes=False).names
            if names:
                raise ValueError(f"holds {', '.join(names)}")

        try:
            kept = store_tree(self._recorder.store.blobs, source, most_bytes=MOST_BROUGHT, inspect=look)
        except (OSError, ValueError) as exc:
            return Fact({"left_out": str(exc)[:300]})
        return Fact({"listing": kept.listing, "files": kept.files}, (kept.listing,))

    async def snapshot(self) -> Snapshot:
        taken = await super().snapshot()
        self._recorder.evidence(
            "state", "snapshot", {"digest": taken.digest, "changes": len(taken.changes), **self._where}
        )
        return taken

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        """See `State.fork`. What happens in the fork is recorded in the same chain, under the fork's name."""
        name = ".".join([*([str(self._where["fork"])] if "fork" in self._where else []), str(len(self._forks) + 1)])
        made = RecordedWorkspace(await self._inner.fork(spec), self._recorder, self._spill, name, beside=self._beside)
        self._forks.append(made)
        if self._is_beside:  # it killed what ran here
            self._recorder.evidence("audit", "fork", {"name": name, **self._where})
        return made
