"""Configuration of a node. Imports no server: `assay node --help` shows the options."""

from __future__ import annotations

from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0)]


class NodeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of one node of one or several runs."""

    runs: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """Names of the runs, as `assay run --run` was given. Several take turns on the slots."""
    place: str
    """URL of the object storage that the runs were given."""
    token_file: str | None = None
    """File with the token that the run's command and its nodes share; default: $ASSAY_NODE_TOKEN."""
    listen: str = "127.0.0.1:0"
    """HOST:PORT to listen on; port 0 lets the system pick one. Beyond loopback `tls_cert` and `tls_key` are needed."""
    advertise: str | None = None
    """HOST under which the run's command reaches this node; default: the host of `listen`, or this machine's name
    where that is 0.0.0.0 or ::."""
    tls_cert: str | None = None
    """File with the certificate (PEM), which may be self-signed: the run's command accepts this one only."""
    tls_key: str | None = None
    """File with the private key of the certificate (PEM)."""
    slots: Count | None = None
    """Concurrent attempts; default: the concurrency of the first run that has started."""
    name: str | None = None
    """Name of the node in messages; default: that of the machine."""
    drain_s: Seconds = 20.0
    """Seconds in which SIGTERM and Ctrl-C upload what is under way; a second signal, after a
    second or more, ends the node at once."""
    wait_s: Seconds = 600.0
    """Seconds to wait for each run to be started, and for a folder of objects that its command makes."""
    backend: str | None = None
    """The sandbox of this node's attempts in place of the run's: `namespaces`, `bubblewrap`, `podman`, `docker` or
    `process`, which the run must allow."""
    cache_gib: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """GiB of layers of sandboxes in this machine's cache. Above it those that are not in use are removed, the least
    recently used first; default: $ASSAY_CACHE_GIB, else all stay."""
    own_layers: bool = False
    """Make all layers of tasks' sandboxes on this machine, and share none with other machines through the place."""
