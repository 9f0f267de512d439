"""Facts that a sandbox's first process reads about itself, after its last change and before it runs any command.

They are evidence of how the sandbox was created: only this code has run in it so far. Lists are bounded; their
totals are included, so that a cut list is recognisable.
"""

from __future__ import annotations

import os
import re
from typing import Any

NAMESPACES = ("user", "pid", "mnt", "ipc", "net")
MOST_MOUNTS = 256
_ESCAPED = re.compile(r"\\([0-7]{3})")


def _text(field: str) -> str:
    """Decodes the octal escapes of mountinfo."""
    return _ESCAPED.sub(lambda kinds: chr(int(kinds[1], 8)), field)


def _mount(line: str) -> list[Any]:
    """Reads one line of mountinfo: target, type, device, root, read-only, noexec, options of the file system."""
    front, _, back = line.partition(" - ")
    _, _, device, root, target, options, *_ = front.split(" ")
    kind, _, more = back.split(" ", 2)
    flags = {*options.split(","), *(("ro",) if "ro" in more.split(",") else ())}
    return [
        _text(target),
        kind,
        device,
        _text(root),
        "ro" in flags,
        "noexec" in flags,
        more if kind == "overlay" else "",
    ]


def _id_map(name: str) -> list[list[int]]:
    with open(f"/proc/self/{name}", "rb") as handle:
        return [[int(field) for field in line.split()] for line in handle]


def _descriptors(control: int, oom: int) -> list[str]:
    """Returns names of the open descriptors: those of a first process, or the kind of any other."""
    known = {control: "control", oom: "oom_score"}
    kinds = []
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the descriptor used to list the folder
        kinds.append(known.get(int(name)) or ("null" if target == "/dev/null" else target.partition(":")[0]))
    return kinds


def collect(control: int, oom: int = -1) -> dict[str, Any]:
    """Returns the observable facts; others are left out."""
    facts: dict[str, Any] = {"uid": os.getuid(), "gid": os.getgid()}
    try:
        facts["namespaces"] = {name: os.stat(f"/proc/self/ns/{name}").st_ino for name in NAMESPACES}
        facts["uid_map"], facts["gid_map"] = _id_map("uid_map"), _id_map("gid_map")
        facts["descriptors"] = _descriptors(control, oom)
        with open("/proc/self/mountinfo", "rb") as handle:  # as bytes: codecs can no longer be imported here
            rows = handle.read().decode(errors="replace").splitlines()
        facts["mounts"], facts["mount_total"] = [_mount(row) for row in rows[:MOST_MOUNTS]], len(rows)
    except (OSError, ValueError):
        pass  # grade_of treats missing facts as not observed
    return facts
