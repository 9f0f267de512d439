"""Builds `SandboxFacts` from the first message of a sandbox's first process and the facts that its host knows.

Only the first message is used: it was sent before any command ran. Values without the expected shape are left
out, which makes the grade `unknown`.
"""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from typing import Any, NamedTuple

import msgspec

from assay.records import IdMap, IsolationName, MountFact, SandboxFacts

_LAYERS = re.compile(r"(?:^|,)(lowerdir|upperdir)\+?=([^,]*)")


class FactsFromHost(NamedTuple):
    """Facts of a sandbox that its host requested."""

    tier: IsolationName
    image: str
    layers: tuple[str, ...]
    """Layers, highest first, if the root is not an overlay; empty: the layers that the kernel lists for the overlay."""
    state_layers: tuple[str, ...]
    writable: str
    handed_over: Counter[str]


class _Observed(msgspec.Struct, frozen=True):
    """The shape of `launcher.facts.collect`."""

    uid: int | None = None
    gid: int | None = None
    namespaces: dict[str, int] = {}
    uid_map: tuple[tuple[int, int, int], ...] = ()
    gid_map: tuple[tuple[int, int, int], ...] = ()
    descriptors: tuple[str, ...] | None = None
    mounts: tuple[tuple[str, str, str, str, bool, bool, str], ...] = ()
    mount_total: int | None = None


def descriptor_kind(fd: int) -> str:
    """Returns `pipe` for a pipe, and the kind of any other descriptor."""
    mode = os.fstat(fd).st_mode
    kinds = ((stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"), (stat.S_ISREG, "file"), (stat.S_ISDIR, "folder"))
    return next((name for holds, name in kinds if holds(mode)), "device")


def sandbox_facts(observed: Any, host: FactsFromHost) -> SandboxFacts:
    """Combines both sources; an overlay whose layers differ from the requested ones counts as not observed."""
    try:
        observed_facts = msgspec.convert(observed, _Observed)
    except msgspec.ValidationError:
        observed_facts = _Observed()
    layers, writable = _root_layers(observed_facts) if not host.layers else (host.layers, host.writable)
    return SandboxFacts(
        tier=host.tier,
        namespaces=observed_facts.namespaces,
        uid_map=tuple(IdMap(*row) for row in observed_facts.uid_map),
        gid_map=tuple(IdMap(*row) for row in observed_facts.gid_map),
        uid=observed_facts.uid,
        gid=observed_facts.gid,
        image=host.image,
        layers=layers,
        layer_total=len(layers),
        state_layers=host.state_layers,
        state_total=len(host.state_layers),
        writable=writable if writable == host.writable else None,
        mounts=tuple(MountFact(*row[:6]) for row in observed_facts.mounts),
        mount_total=observed_facts.mount_total,
        descriptors=observed_facts.descriptors or (),
        descriptor_total=None if observed_facts.descriptors is None else len(observed_facts.descriptors),
        handed_over=dict(host.handed_over),
        handed_total=host.handed_over.total(),
    )


def _root_layers(observed_facts: _Observed) -> tuple[tuple[str, ...], str | None]:
    """Returns the lower layers and the writable layer of the overlay at `/`, as the kernel lists them."""
    options = [row[6] for row in observed_facts.mounts if row[0] == "/" and row[1] == "overlay"]
    if len(options) != 1:
        return (), None
    parts = _LAYERS.findall(options[0])
    lower = tuple(path for name, value in parts if name == "lowerdir" for path in value.split(":"))
    upper = next((value.removesuffix("/u") for name, value in parts if name == "upperdir"), None)
    return tuple(path.removesuffix("/u") for path in lower), upper
