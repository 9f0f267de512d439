"""Backends `podman` and `docker`: a container around a workspace's folder, through the engine's command line.

The container runs the same exec server as the other backends, connected over a socket in a folder of its own, so an
exec does not start the engine's client. The engine sees only an empty image; system
folders of the host, or an imported root file system, are mounted into it.

Covered: the engine's namespaces, cgroup limits and default filter; on top, no capabilities, no new privileges, our
filter, a read-only root, an ordinary user id, no network.
Not covered: the engine itself, which often runs as root; the disk is only watched; agent and verifier are one
user. Engines on another machine (Docker Desktop) are not supported.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import secrets
import shutil
import socket
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from blake3 import blake3

from assay.environments.interface import Image, WorkspaceSpec
from assay.environments.workspace._folder_backend import (
    FolderBackend,
    find_python_layer,
    require_no_system_layers,
    system_folders,
)
from assay.environments.workspace._folder_limits import folder_limits, folder_rlimits
from assay.environments.workspace._folders import Template, etc_folder
from assay.environments.workspace._guest import LAUNCHER, START_S, Guest, layer_python, server_arguments
from assay.environments.workspace.launcher.base import SYSTEM
from assay.environments.workspace.session import ExecDefaults, InitSession
from assay.environments.workspace.toolchain import ToolLayer
from assay.errors import EnvironmentFailure
from assay.records import Isolation, IsolationName, LimitHold

_OWN = "/.assay"
_ENGINE_S = 120.0
_ENGINE_FILES = ("hostname", "hosts", "resolv.conf")
"""Files in /etc over which the engine mounts its own."""
_FRESH_FOLDERS = ("dev", "proc", "sys", "tmp")


class _EngineBackend(FolderBackend):
    """Base of both engines; without a toolchain, the exec server needs a mount at `/opt/assay`.

    The engine must be able to see `scratch`, the parent of the workspaces' folders.
    """

    isolated_by: IsolationName = "docker"

    def __init__(self, *, toolchain: ToolLayer | None = None, scratch: Path | None = None) -> None:
        super().__init__(scratch=scratch)
        self._toolchain = toolchain
        self._is_available = False
        self._images: set[str] = set()
        self._importing = asyncio.Lock()

    def engine_options(self) -> list[str]:
        """Returns additional options of this engine."""
        return []

    async def check(self) -> None:
        """Implements `FolderBackend.check`: the client must be installed, and its engine must answer."""
        if self._is_available:
            return
        if shutil.which(self.name) is None:
            raise EnvironmentFailure(f"{self.name} is not installed")
        await self._engine("image", "ls", "-q")
        self._is_available = True

    async def start(self, folder: Path, spec: WorkspaceSpec, template: Template) -> Guest:
        image = await self._layout_image(folder)
        socket_folder = self.new_path("k")
        socket_folder.mkdir()
        socket_folder.chmod(0o711)
        name = f"assay-{secrets.token_hex(8)}"
        with _listening(socket_folder / "s") as listener:
            arguments = self._run_arguments(name, spec, folder, template)
            server = server_arguments(_OWN, self._rlimits(spec), filtered=True, connect=f"{_OWN}/socket/s")
            own = ["-v", f"{socket_folder}:{_OWN}/socket", image, *layer_python(f"{_OWN}/python"), *server]
            try:
                await self._engine("run", "-d", *arguments, *own)
                session, facts = await self._accept_server(listener)
            except EnvironmentFailure as exc:
                output = await self._read_logs(name)
                await self._remove(name)
                raise EnvironmentFailure(f"the container did not start: {output or exc}") from exc
            except BaseException:  # cancelled: the container would outlive us
                await asyncio.shield(self._remove(name))
                raise
        (socket_folder / "s").unlink()

        async def stop() -> None:
            session.close()
            await self._remove(name)

        return Guest(session, stop, facts)

    async def _accept_server(self, listener: socket.socket) -> tuple[InitSession, object]:
        """Accepts the first connection, which is the exec server's: no other process has started. Later ones are
        refused."""
        try:
            ours, _ = await asyncio.wait_for(asyncio.get_running_loop().sock_accept(listener), START_S)
        except TimeoutError as exc:
            raise EnvironmentFailure(f"it did not connect within {START_S:.0f} s") from exc
        session = InitSession(ours, ExecDefaults({}, "/"))
        try:
            ready = await session.channel.receive_greeting(START_S)
        except BaseException:
            session.close()
            raise
        return session, ready.body.get("facts")

    def _rlimits(self, spec: WorkspaceSpec) -> dict[str, int]:
        # Counted over all containers of one user id: the engine's own limit applies to the number of processes.
        limits = folder_rlimits(spec.limits)
        return {name: value for name, value in limits.items() if name not in ("NPROC", "DATA")}

    def _run_arguments(self, name: str, spec: WorkspaceSpec, folder: Path, template: Template) -> list[str]:
        limits = spec.limits
        arguments = ["--name", name, "--network", spec.network, "--hostname", spec.hostname, "--workdir", "/"]
        if spec.network == "host":
            arguments = ["--name", name, "--network", "host", "--workdir", "/"]
        arguments += ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", *self._user()]
        if limits.memory_mib is not None:
            arguments += ["--memory", f"{limits.memory_mib}m", "--memory-swap", f"{limits.memory_mib}m"]
        if limits.processes is not None:
            arguments += ["--pids-limit", str(limits.processes + 1)]
        if limits.cpus is not None:
            arguments += ["--cpus", str(limits.cpus)]
        size = f",size={limits.tmp_mib}m" if limits.tmp_mib is not None else ""
        arguments += ["--shm-size", f"{limits.tmp_mib or 64}m"]
        for path in ("/tmp", *spec.tmpfs):
            if path != "/tmp":
                # runc gives a tmpfs the mode of the folder that it covers and ignores the option.
                Path(f"{folder}{path}").chmod(0o1777)
            arguments += ["--tmpfs", f"{path}:rw,nosuid,nodev,mode=1777{size}"]
        return [*arguments, *self.engine_options(), *self._mounts(spec, folder, template)]

    def _user(self) -> list[str]:
        user = self.owner if self.owner is not None else os.geteuid()
        return ["--user", f"{user}:{user if self.owner is not None else os.getegid()}"]

    def _mounts(self, spec: WorkspaceSpec, folder: Path, template: Template) -> list[str]:
        pairs: list[tuple[str, str, str]] = []
        covered = {*spec.tmpfs, *(mount.target for mount in spec.mounts)}
        for entry in sorted(folder.iterdir()):
            is_visible = spec.image.root or entry.name not in SYSTEM
            is_visible = is_visible and f"/{entry.name}" not in covered and entry.name not in _FRESH_FOLDERS
            if entry.is_dir() and not entry.is_symlink() and is_visible:
                pairs.append((str(entry), f"/{entry.name}", "rw"))
        if not spec.image.root:
            pairs.append((str(etc_folder(template.folder)), "/etc", "ro"))
            pairs += [(str(path), str(path), "ro") for path in system_folders()]
        layer = find_python_layer(self._toolchain, spec)
        if layer is None:
            raise EnvironmentFailure(
                "the exec server needs a Python in the container: create the tool layer with `assay setup`"
            )
        pairs += [(str(LAUNCHER), f"{_OWN}/launcher", "ro"), (layer, f"{_OWN}/python", "ro")]
        pairs += [(str(Path(m.source).resolve(strict=True)), m.target, "ro") for m in spec.mounts]
        arguments = [word for source, target, mode in pairs for word in ("-v", f"{source}:{target}:{mode}")]
        for path, is_folder in self.find_masks(folder, spec):
            arguments += ["-v", f"{self._empty_folder() if is_folder else '/dev/null'}:{path}:ro"]
        return arguments

    def _empty_folder(self) -> Path:
        """Creates an empty folder to cover others."""
        folder = self.new_path("z")
        folder.mkdir(mode=0o755)
        return folder

    async def _layout_image(self, folder: Path) -> str:
        """Returns an image that contains only the top of the tree: mount points and links."""
        entries = sorted((e.name, str(e.readlink()) if e.is_symlink() else None) for e in folder.iterdir())
        tag = f"assay-layout:{blake3(msgspec.json.encode([2, entries])).hexdigest()[:24]}"
        async with self._importing:
            if tag not in self._images:
                if await self._engine("image", "inspect", tag, check=False) is None:
                    await self._engine("import", "-", tag, stdin=_layout_archive(entries))
                self._images.add(tag)
        return tag

    async def _read_logs(self, name: str) -> str:
        return (await self._engine("logs", name, check=False) or "")[-500:]

    async def _remove(self, name: str) -> None:
        with contextlib.suppress(EnvironmentFailure):
            await self._engine("rm", "-f", name, check=False)

    async def _engine(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> str | None:
        """Runs the engine's client; returns its output, or None if it failed and `check` is False."""
        # The monitor of a container may hold what it inherits open: output goes to a file, which needs no end.
        with tempfile.TemporaryFile() as output:
            process = await asyncio.create_subprocess_exec(
                self.name,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                cwd=self._scratch
                or tempfile.gettempdir(),  # its monitor leaves a file in the working folder when it runs out of memory
            )
            try:
                await asyncio.wait_for(process.communicate(stdin), _ENGINE_S)
            except TimeoutError as exc:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
                raise EnvironmentFailure(f"`{self.name} {arguments[0]}` did not end within {_ENGINE_S:.0f} s") from exc
            output.seek(0)
            text = output.read().decode(errors="replace").strip()
        if process.returncode:
            if not check:
                return None
            verb = next((word for word in arguments if not word.startswith("-") and word != "runc"), "")
            raise EnvironmentFailure(f"`{self.name} {verb}` failed: {text[-500:]}")
        return text

    def excluded_paths(self, spec: WorkspaceSpec) -> frozenset[str]:
        system: Sequence[str] = () if spec.image.root else [f"/{name}" for name in SYSTEM]
        own = {"/tmp", "/dev", "/proc", "/sys", _OWN, "/run/.containerenv", "/run/secrets"}
        return super().excluded_paths(spec) | own | {f"/etc/{name}" for name in _ENGINE_FILES} | {*system}

    def check_template(self, folder: Path, image: Image) -> None:
        for name in _ENGINE_FILES:
            path = folder / "etc" / name
            if not path.is_symlink() and not path.exists():
                path.parent.mkdir(exist_ok=True)
                path.touch()
        require_no_system_layers(image, self.name)

    def isolation(self, spec: WorkspaceSpec) -> Isolation:
        group = {"memory": "the engine's cgroup", "processes": "the engine's cgroup", "cpu": "the engine's cgroup"}
        rows = [
            LimitHold(row.name, "hard", row.value, row.unit, group[row.name]) if row.name in group else row
            for row in folder_limits(spec.limits)
        ]
        network = "none" if spec.network == "none" else "host"
        return Isolation(self.isolated_by, tuple(rows), network=network, users="same", notes=spec.notes)


class PodmanBackend(_EngineBackend):
    """Opens workspaces in Podman."""

    name = "podman"
    isolated_by: IsolationName = "podman"

    def engine_options(self) -> list[str]:
        # Explicit limits, because the default raises them, for which a root without CAP_SYS_RESOURCE lacks permission.
        arguments = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
        if self.owner is None:
            arguments += ["--userns", "keep-id"]
        return arguments

    async def _engine(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> str | None:
        # crun refuses a cgroup tree that is half version 1 and half version 2; runc does not.
        if Path("/sys/fs/cgroup/unified").is_dir() and shutil.which("runc"):
            arguments = ("--runtime", "runc", *arguments)
        return await super()._engine(*arguments, stdin=stdin, check=check)


class DockerBackend(_EngineBackend):
    """Opens workspaces in Docker."""

    name = "docker"


@contextlib.contextmanager
def _listening(path: Path):  # type: ignore[no-untyped-def]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen(1)
        listener.setblocking(False)
        yield listener


def _layout_archive(entries: list[tuple[str, str | None]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        own = [(f"{_OWN[1:]}{inner}", None) for inner in ("", "/launcher", "/python", "/socket")]
        for name, target in [*entries, *own, *((name, None) for name in _FRESH_FOLDERS)]:
            info = tarfile.TarInfo(name)
            info.type, info.mode = (tarfile.SYMTYPE, 0o777) if target is not None else (tarfile.DIRTYPE, 0o755)
            info.linkname = target or ""
            if name == "tmp":
                info.mode = 0o1777
            if name not in archive.getnames():
                archive.addfile(info)
    return out.getvalue()
