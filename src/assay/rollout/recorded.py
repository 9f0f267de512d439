"""A workspace whose every command lands in the audit channel of the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from assay.environments.interface import (
    ExecResult,
    Snapshot,
    SpillTarget,
    Workspace,
    WorkspaceSpec,
)

from .passing import PassingWorkspace
from .recorder import Recorder

__all__ = ["RecordedWorkspace"]


class RecordedWorkspace(PassingWorkspace):
    """Passes everything on, and records each exec, write and upload as evidence of the audit channel.

    Args:
        inner: The workspace itself.
        recorder: Of the try.
        spill: Where long output is kept whole.
        fork: Of a fork its name, which stands in its evidence; it is no part of the state that is judged.
    """

    def __init__(self, inner: Workspace, recorder: Recorder, spill: SpillTarget, fork: str | None = None) -> None:
        super().__init__(inner)
        self._recorder = recorder
        self._spill = spill
        self._where: dict[str, object] = {} if fork is None else {"fork": fork}
        self._forks: list[RecordedWorkspace] = []

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
            **self._where,
        }
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
        blobs = tuple(d for d in (result.stdout_digest, result.stderr_digest) if d)
        self._recorder.evidence("audit", "execution", data, blobs)
        return result

    async def close(self) -> None:
        """See `Session.close`."""
        await self.close_forks()
        await super().close()

    async def close_forks(self) -> None:
        """Closes what was forked from it and is still open: nothing of an agent outlives its acting."""
        while self._forks:
            await self._forks.pop().close()

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """See `Files.write`."""
        await super().write(path, data, mode=mode)
        self._recorder.evidence("audit", "write", {"path": path, "size": len(data), "mode": mode, **self._where})

    async def upload(self, source: Path, target: str) -> None:
        """See `Files.upload`."""
        await super().upload(source, target)
        self._recorder.evidence("audit", "upload", {"name": source.name, "target": target, **self._where})

    async def snapshot(self) -> Snapshot:
        """See `State.snapshot`."""
        taken = await super().snapshot()
        self._recorder.evidence(
            "state", "snapshot", {"digest": taken.digest, "changes": len(taken.changes), **self._where}
        )
        return taken

    async def fork(self, spec: WorkspaceSpec | None = None) -> Workspace:
        """See `State.fork`. What happens in the fork is recorded in the same chain, under the fork's name."""
        name = ".".join([*([str(self._where["fork"])] if self._where else []), str(len(self._forks) + 1)])
        made = RecordedWorkspace(await self._inner.fork(spec), self._recorder, self._spill, name)
        self._forks.append(made)
        return made
