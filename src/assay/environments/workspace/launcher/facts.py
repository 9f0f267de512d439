"""Facts that a sandbox's first process reads about itself, after its last change and before it runs any command.

They are evidence of how the sandbox was made: nothing but this code has run in it by then. Lists are bounded; their
totals are told beside them, so that a list that was cut is seen to be cut.
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
    """Names the open descriptors: those that a first process has, or the kind of any other."""
    known = {control: "control", oom: "oom_score"}
    kinds = []
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the descriptor by which the folder was listed
        kinds.append(known.get(int(name)) or ("null" if target == "/dev/null" else target.partition(":")[0]))
    return kinds


def collect(control: int, oom: int = -1) -> dict[str, Any]:
    """Returns what can be observed; what cannot is left out."""
    facts: dict[str, Any] = {"uid": os.getuid(), "gid": os.getgid()}
    try:
        facts["namespaces"] = {name: os.stat(f"/proc/self/ns/{name}").st_ino for name in NAMESPACES}
        facts["uid_map"], facts["gid_map"] = _id_map("uid_map"), _id_map("gid_map")
        facts["descriptors"] = _descriptors(control, oom)
        with open("/proc/self/mountinfo", "rb") as handle:  # as bytes: no codec can be imported here any more
            rows = handle.read().decode(errors="replace").splitlines()
        facts["mounts"], facts["mount_total"] = [_mount(row) for row in rows[:MOST_MOUNTS]], len(rows)
    except (OSError, ValueError):
        pass  # grade_of takes what is missing for not observed
    return facts
