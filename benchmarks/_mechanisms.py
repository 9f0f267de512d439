"""Ways to run a command in a box, each behind the same four calls: ours, and the bare tools to hold it against.

The bare ones are a shell over pipes, alone or inside bubblewrap: they capture no output, know no limits and keep no
state, so they are what any sandbox must cost. crun is driven through its command line, as engines do.

bubblewrap is never started with host uid 0: there it would leave `/proc/sys` writable to what it runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from assay.environments.interface import WorkspaceSpec
from assay.environments.workspace.namespaces import NamespacesBackend

__all__ = ["Bubblewrap", "Crun", "Mechanism", "Namespaces", "Shell", "mechanisms"]

NOBODY = 65534


class Mechanism(Protocol):
    """A way to run commands in boxes."""

    name: str

    async def start(self) -> str | None:
        """Gets ready once; a text says why it cannot be measured here."""
        ...

    async def open(self) -> Any:
        """A box that answers."""
        ...

    async def exec(self, box: Any) -> None:
        """Runs `/bin/true` in it and waits for the end."""
        ...

    async def close(self, box: Any) -> None:
        """Ends the box."""
        ...

    async def stop(self) -> None:
        """Lets go of what `start` made."""
        ...


class Namespaces:
    """Our backend."""

    def __init__(self, run_as: int | None) -> None:
        who = "as root, cgroups" if run_as is None and os.geteuid() == 0 else "ordinary user"
        self.name = f"assay namespaces, {who}"
        self._run_as = run_as
        self.backend = NamespacesBackend(run_as=run_as)

    async def start(self) -> str | None:
        self.backend = NamespacesBackend(run_as=self._run_as)
        await self.backend.launcher()
        return None

    async def open(self) -> Any:
        return await self.backend.open(WorkspaceSpec())

    async def exec(self, box: Any) -> None:
        result = await box.exec(["/bin/true"])
        if result.exit_code != 0:
            raise RuntimeError(f"/bin/true gave {result.exit_code}: {result.stderr}")

    async def close(self, box: Any) -> None:
        await box.close()

    async def stop(self) -> None:
        await self.backend.close()


class Shell:
    """A shell over pipes: no box at all."""

    name = "bare shell, no sandbox"
    argv: tuple[str, ...] = ("/bin/sh",)
    user: int | None = None

    async def start(self) -> str | None:
        return None if shutil.which(self.argv[0]) else f"{self.argv[0]} is not installed"

    async def open(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        more = {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}
        box = await asyncio.create_subprocess_exec(*self.argv, stdin=pipe, stdout=pipe, **more)
        await self._say(box, b"echo\n")
        return box

    async def exec(self, box: asyncio.subprocess.Process) -> None:
        await self._say(box, b"/bin/true; echo\n")

    @staticmethod
    async def _say(box: asyncio.subprocess.Process, line: bytes) -> None:
        if box.stdin is None or box.stdout is None:
            raise BrokenPipeError
        box.stdin.write(line)
        if await box.stdout.readline() != b"\n":
            raise RuntimeError("the shell did not answer")

    async def close(self, box: asyncio.subprocess.Process) -> None:
        if box.stdin is not None:
            box.stdin.close()
        await box.wait()

    async def stop(self) -> None:
        return None


class Bubblewrap(Shell):
    """bubblewrap around the same shell: all namespaces, read-only system folders, two scratch folders."""

    name = "bare bubblewrap, ordinary user"
    argv = (
        *("bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--uid", "0"),
        *("--gid", "0", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin", "--ro-bind", "/usr", "/usr"),
        *("--ro-bind-try", "/bin", "/bin", "--ro-bind-try", "/lib", "/lib", "--ro-bind-try", "/lib64", "/lib64"),
        *("--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/workspace", "--chdir", "/workspace"),
        *("/bin/sh",),
    )
    user = NOBODY if os.geteuid() == 0 else None


class Crun:
    """crun, one container a box, `crun exec` a command."""

    name = "crun, as root"

    def __init__(self) -> None:
        self._folder = Path()
        self._command: tuple[str, ...] = ("crun",)
        self._count = 0

    async def start(self) -> str | None:
        if shutil.which("crun") is None:
            return "crun is not installed"
        if os.geteuid() != 0:
            return "needs root here"
        self._folder = Path(tempfile.mkdtemp(prefix="crun-"))
        await self._write_bundle()
        # On a machine with both versions of control groups crun refuses to start, unless the second is out of sight.
        hidden = ("unshare", "-m", "/bin/sh", "-c", 'umount /sys/fs/cgroup/unified; exec crun "$@"', "crun")
        for command in (("crun",), hidden):
            self._command = command
            try:
                await self.close(await self.open())
            except RuntimeError as exc:
                why = str(exc)
            else:
                return None
        return why

    async def _write_bundle(self) -> None:
        await self._run("crun", "spec", cwd=self._folder)
        path = self._folder / "config.json"
        spec = json.loads(path.read_text())
        spec["process"].update(terminal=False, args=["/bin/sleep", "1000000"])
        spec["mounts"] = [m for m in spec["mounts"] if m["type"] != "cgroup"]
        for name in ("usr", "bin", "lib", "lib64"):
            if Path("/", name).exists():
                bound = {"destination": f"/{name}", "source": f"/{name}", "type": "bind", "options": ["rbind", "ro"]}
                spec["mounts"].append(bound)
        path.write_text(json.dumps(spec))
        for name in ("usr", "bin", "lib", "lib64", "dev", "proc", "sys", "tmp"):
            (self._folder / "rootfs" / name).mkdir(parents=True, exist_ok=True)

    async def open(self) -> str:
        self._count += 1
        box = f"assay-bench-{os.getpid()}-{self._count}"
        await self._crun("run", "--detach", "--bundle", str(self._folder), box)
        return box

    async def exec(self, box: str) -> None:
        await self._crun("exec", box, "/bin/true")

    async def close(self, box: str) -> None:
        await self._crun("delete", "--force", box)

    async def _crun(self, *arguments: str) -> None:
        await self._run(*self._command, "--cgroup-manager=disabled", *arguments, cwd=self._folder)

    @staticmethod
    async def _run(*argv: str, cwd: Path) -> None:
        null = asyncio.subprocess.DEVNULL
        # A file and no pipe: a detached container holds it open, and the end of a pipe would never come.
        with tempfile.TemporaryFile() as said:
            ran = await asyncio.create_subprocess_exec(*argv, stdin=null, stdout=null, stderr=said, cwd=cwd)
            code = await asyncio.wait_for(ran.wait(), 60)
            said.seek(0)
            text = said.read(2000).decode(errors="replace").strip()
        if code != 0:
            raise RuntimeError(f"{' '.join(argv[:2])} ... gave {code}: {text}")

    async def stop(self) -> None:
        if self._folder != Path():
            shutil.rmtree(self._folder, ignore_errors=True)


def mechanisms() -> list[Mechanism]:
    """All that this user can try, ours first."""
    root = os.geteuid() == 0
    ours: list[Callable[[], Mechanism]] = [lambda: Namespaces(NOBODY if root else None)]
    if root:
        ours.append(lambda: Namespaces(None))
    return [*(make() for make in ours), Shell(), Bubblewrap(), Crun()]
