"""The `bubblewrap` backend: for hosts on which only that program may create namespaces (AppArmor on some
distributions).

It needs bubblewrap 0.8 or newer. The exec server, its system call filter and its limits are those of `namespaces`; the
file system is an ordinary folder, copied for each workspace, because bubblewrap 0.8 has no overlay.

Covered: as `namespaces` (own user, mount, PID, network, IPC and UTS namespaces, no capabilities, filter, /tmp and
/dev/shm of a fixed size, read-only system folders). Never run as the host's uid 0, under which /proc/sys would stay
writable: as root everything runs under an otherwise unused user id.
Not covered: what `namespaces` does not cover; the sums of memory and disk are only watched (soft);
agent and verifier are the same user of the host; an image's layers cannot add to the read-only system folders.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

from assay.environments.interface import Image, WorkspaceSpec
from assay.environments.workspace._folder_backend import (
    SANDBOX_UID,
    FolderBackend,
    find_python_layer,
    require_no_system_layers,
    system_folders,
)
from assay.environments.workspace._folder_limits import MIB, folder_limits, folder_rlimits
from assay.environments.workspace._folders import Template, etc_folder
from assay.environments.workspace._guest import LAUNCHER, Guest, layer_python, server_arguments, start_guest
from assay.environments.workspace.launcher.base import SYSTEM
from assay.environments.workspace.toolchain import ToolLayer
from assay.errors import EnvironmentFailure
from assay.records import Isolation

_OLDEST = (0, 8)
_PLACE = "/dev/assay"
"""Mount path of the exec server and its Python in the sandbox's own /dev."""
# As root: bind what the user id cannot reach into a private mount tree, change to that id, and exec bubblewrap.
_DROP = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from launcher import syscalls
owner, place, sources = json.loads(sys.argv[2])
syscalls.unshare(syscalls.NEWNS)
syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
syscalls.mount("tmpfs", place, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755,size=64k")
for number, source in enumerate(sources):
    point = f"{place}/{number}"
    os.mkdir(point) if os.path.isdir(source) else os.close(os.open(point, os.O_CREAT, 0o644))
    syscalls.mount(source, point, None, syscalls.MS_BIND | syscalls.MS_REC)
os.setgroups([])
os.setresgid(owner, owner, owner)
os.setresuid(owner, owner, owner)
os.execv(sys.argv[3], sys.argv[3:])
"""


class BubblewrapBackend(FolderBackend):
    """Opens workspaces in bubblewrap; the exec server runs on the toolchain's Python, else the host's
    `/usr/bin/python3`."""

    name = "bubblewrap"

    def __init__(self, *, toolchain: ToolLayer | None = None, scratch: Path | None = None) -> None:
        super().__init__(scratch=scratch)
        self._toolchain = toolchain
        self._program: str | None = None

    async def check(self) -> None:
        """Implements `FolderBackend.check`: requires bubblewrap 0.8 or newer."""
        if self._program is None:
            found = shutil.which("bwrap")
            if found is None:
                raise EnvironmentFailure("bubblewrap is not installed: install the package `bubblewrap`")
            process = await asyncio.create_subprocess_exec(
                found, "--version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
            )
            text = (await process.communicate())[0].decode(errors="replace")
            version = tuple(int(part) for part in text.split()[-1].split(".")[:2] if part.isdigit()) if text else ()
            if version < _OLDEST:
                raise EnvironmentFailure(f"bubblewrap {text.strip() or '?'} is too old: 0.8 or newer is needed")
            self._program = found

    async def start(self, folder: Path, spec: WorkspaceSpec, template: Template) -> Guest:
        program = self._program or "bwrap"
        rlimits = folder_rlimits(spec.limits)
        python, sources = self._python(spec)
        sources += [(str(LAUNCHER), f"{_PLACE}/launcher")]
        sources += [(str(Path(mount.source).resolve(strict=True)), mount.target) for mount in spec.mounts]
        if not spec.image.root:
            sources = [(str(etc_folder(template.folder)), "/etc"), *sources]
        sources.insert(0, (str(folder), "/"))

        final_arguments = [*self._masks(folder, spec), "--chdir", "/", "--"]

        def command(fd: int) -> list[str]:
            server = [*python, *server_arguments(_PLACE, rlimits, filtered=True, fd=fd)]
            if self.owner is None:
                return [program, *self._bubblewrap_arguments(spec, sources), *final_arguments, *server]
            mounts = self.new_path("m")
            mounts.mkdir()
            moved_sources = [(f"{mounts}/{number}", target) for number, (_, target) in enumerate(sources)]
            options = json.dumps([self.owner, str(mounts), [source for source, _ in sources]])
            arguments = [program, *self._bubblewrap_arguments(spec, moved_sources), *final_arguments, *server]
            return [sys.executable, "-I", "-S", "-c", _DROP, str(LAUNCHER.parent), options, *arguments]

        return await start_guest(command, {"PATH": "/usr/bin:/bin"})

    def _python(self, spec: WorkspaceSpec) -> tuple[list[str], list[tuple[str, str]]]:
        layer = find_python_layer(self._toolchain, spec)
        if layer is not None:
            return layer_python(f"{_PLACE}/python"), [(layer, f"{_PLACE}/python")]
        if spec.image.root or not Path("/usr/bin/python3").exists():
            raise EnvironmentFailure(
                "the exec server needs a Python in the sandbox: create the tool layer with `assay setup`"
            )
        return ["/usr/bin/python3"], []

    def _bubblewrap_arguments(self, spec: WorkspaceSpec, sources: list[tuple[str, str]]) -> list[str]:
        """Returns the arguments for bubblewrap; mounts in this order, each over those before."""
        namespaces = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        user = "1000" if spec.user == "agent" else "0"
        arguments = [
            *namespaces,
            *(["--unshare-net"] if spec.network == "none" else []),
            "--die-with-parent",
            "--new-session",
        ]
        arguments += ["--as-pid-1", "--cap-drop", "ALL", "--hostname", spec.hostname, "--uid", user, "--gid", user]
        arguments += ["--bind", sources[0][0], "/"]
        if not spec.image.root:
            arguments += [word for path in system_folders() for word in ("--ro-bind", str(path), str(path))]
        arguments += ["--dev", "/dev", "--proc", "/proc"]
        size = ["--size", str(spec.limits.tmp_mib * MIB)] if spec.limits.tmp_mib is not None else []
        for folder, mode in (("/tmp", "1777"), ("/dev/shm", "1777"), *((path, "0755") for path in spec.tmpfs)):
            arguments += ["--perms", mode, *size, "--tmpfs", folder]
        for source, target in sources[1:]:
            arguments += ["--ro-bind", source, target]
        arguments += ["--remount-ro", "/dev"]
        if spec.user == "verifier":  # prevents processes of one user from writing each other's memory
            arguments += ["--remount-ro", "/proc"]
        return arguments

    def _masks(self, folder: Path, spec: WorkspaceSpec) -> list[str]:
        """Returns arguments for masks of existing paths; bubblewrap would try to create the others."""
        arguments = []
        for path, is_folder in self.find_masks(folder, spec):
            if is_folder:
                arguments += ["--size", "4096", "--tmpfs", path, "--remount-ro", path]
            else:
                arguments += ["--ro-bind", "/dev/null", path]
        return arguments

    def excluded_paths(self, spec: WorkspaceSpec) -> frozenset[str]:
        system = () if spec.image.root else (f"/{name}" for name in SYSTEM)
        return super().excluded_paths(spec) | {"/dev", "/proc", "/tmp", *system}

    def check_template(self, folder: Path, image: Image) -> None:
        require_no_system_layers(image, self.name)

    def isolation(self, spec: WorkspaceSpec) -> Isolation:
        network = "none" if spec.network == "none" else "host"
        note = f"commands ran as user {SANDBOX_UID if self.owner else os.geteuid()} of the host, without rights"
        return Isolation(
            "bubblewrap", folder_limits(spec.limits), network=network, users="same", notes=(note, *spec.notes)
        )
