"""The `process` backend: no isolation. Commands are ordinary processes of the user, in a private folder.

For machines without any sandbox, and for trusted tasks: `choose_backend` opens it only if it is allowed by name, and
every record states `none`.

Attempts in it are recorded but not judged: their checks of files and tests end in `error`, marked `not_isolated`.

Covered: a private folder for each workspace, separate streams, exit codes, timeouts that kill every descendant (also
those that changed session), limits on file size and open files.
Not covered: everything else. Commands can read and write whatever the user can, reach the network and the machine's
services, and see its processes. A process that detaches by two forks is still found; one started by another
service (`at`, `systemd-run`) is not.

Paths: calls such as `read("/workspace/x")` are mapped into the folder, and commands start in the mapped working
directory; but a command that names `/workspace/x` names the machine's. `$ASSAY_ROOT` is the folder, `$HOME` and
`$TMPDIR` are in it. Mounts are not made: calls that name them read their source, and their `bin` is on the PATH (for
the tool layer, the programs that start in place).
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Sequence
from pathlib import Path

from assay.environments.interface import Image, WorkspaceSpec
from assay.environments.workspace._folder_backend import FolderBackend
from assay.environments.workspace._folders import Template, remove_folder
from assay.environments.workspace._guest import LAUNCHER, Guest, server_arguments, start_guest
from assay.environments.workspace._watch import DISK_EVERY, WATCH_S
from assay.records import Isolation, LimitHold

_MIB = 1024 * 1024


class ProcessBackend(FolderBackend):
    """Opens workspaces that are plain folders, without isolation."""

    name = "process"
    needs_system = False

    async def start(self, folder: Path, spec: WorkspaceSpec, template: Template) -> Guest:
        del template
        limits = {"CORE": 0}
        if spec.limits.file_mib is not None:
            limits["FSIZE"] = spec.limits.file_mib * _MIB
        if spec.limits.open_files is not None:
            limits["NOFILE"] = spec.limits.open_files
        for target in spec.tmpfs:
            fresh = Path(self.map_path(folder, spec, target))
            remove_folder(fresh)
            fresh.mkdir(parents=True)
        python = getattr(sys, "_base_executable", None) or sys.executable

        def command(fd: int) -> list[str]:
            return [python, *server_arguments(str(LAUNCHER.parent), limits, filtered=False, fd=fd)]

        return await start_guest(command, {"PATH": "/usr/bin:/bin"})

    def isolation(self, spec: WorkspaceSpec) -> Isolation:
        limits, watch = spec.limits, f"watchdog {WATCH_S * 1000:.0f} ms"
        rows = [
            LimitHold("memory", "soft", limits.memory_mib, "MiB", watch),
            LimitHold("processes", "none", limits.processes),
            LimitHold("cpu", "none", limits.cpus, "cores"),
            LimitHold("disk", "soft", limits.disk_mib, "MiB", f"watchdog {DISK_EVERY * WATCH_S * 1000:.0f} ms"),
            LimitHold("file_size", "hard", limits.file_mib, "MiB", "RLIMIT_FSIZE"),
            LimitHold("open_files", "hard", limits.open_files, "", "RLIMIT_NOFILE"),
        ]
        limit_rows = [row for row in rows if row.value is not None]
        limit_rows += [
            LimitHold("wall_time", "soft", None, "s", "all descendants are killed"),
            LimitHold("output", "hard", limits.output_mib, "MiB", "the reader stops the command"),
        ]
        note = "no isolation: commands could do whatever the user could"
        return Isolation("none", tuple(limit_rows), network="host", users="same", notes=(note, *spec.notes))

    def map_path(self, folder: Path, spec: WorkspaceSpec, path: str, *, write: bool = False) -> str:
        clean = posixpath.normpath(posixpath.join(spec.workdir, path))
        for mount in spec.mounts:
            if clean == mount.target or clean.startswith(mount.target.rstrip("/") + "/"):
                if write:
                    raise OSError(30, "read-only", path)
                return mount.source + clean[len(mount.target.rstrip("/")) :]
        return str(folder) + clean

    def environment(self, folder: Path, spec: WorkspaceSpec) -> dict[str, str]:
        env = super().environment(folder, spec)
        search_path = [self._programs_folder(folder, spec, path) for path in env["PATH"].split(":")]
        own = {"ASSAY_ROOT": str(folder), "HOME": f"{folder}/home/agent", "TMPDIR": f"{folder}/tmp"}
        return {**env, **own, "PATH": ":".join(search_path)}

    def _programs_folder(self, folder: Path, spec: WorkspaceSpec, path: str) -> str:
        for mount in spec.mounts:
            if path.startswith(mount.target.rstrip("/") + "/"):
                host_programs = Path(mount.source) / "host"
                return str(host_programs) if host_programs.is_dir() else self.map_path(folder, spec, path)
        return path

    def map_command(self, folder: Path, spec: WorkspaceSpec, command: str | Sequence[str]) -> str | Sequence[str]:
        """Maps a program named by its path in a mount to the mount's source."""
        if isinstance(command, str) or not command or not command[0].startswith("/"):
            return command
        head, name = posixpath.split(command[0])
        programs = self._programs_folder(folder, spec, head)
        return command if programs == head else [f"{programs}/{name}", *command[1:]]

    def check_template(self, folder: Path, image: Image) -> None:
        if image.root:
            raise ValueError("a root file system needs a sandbox; this backend has only the machine's own tools")
