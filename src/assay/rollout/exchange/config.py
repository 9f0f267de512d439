"""Configurations of imports, exports and recordings. Imports no format and no server: `--help` shows the options."""

from __future__ import annotations

import msgspec

from assay.records import Limits, Separation


class ImportConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration of an import."""

    paths: tuple[str, ...]
    """Files, folders and archives; folders are walked, and formats found by content."""
    run: str | None = None
    """Run to import into; an earlier import's run may be extended. Default: derived from the paths."""
    format: str | None = None
    """Read everything as this format (`assay formats` lists them) instead of detecting it by content."""
    map: str | None = None
    """Read everything by this mapping, a TOML file that says where turns, roles and texts are in an unknown format."""


class ExportConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration of an export."""

    to: str
    """Format to write (`assay formats` lists them)."""
    out: str
    """File or folder to create; losses are listed in OUT.losses.json."""
    attempts: tuple[str, ...] = ()
    """Only these attempts, by id or id prefix; default: all."""
    require: Separation = "unknown"
    """Weakest grade of separation at which a pass is exported; passes below it are left out and listed."""
    failed_integrity: bool = False
    """Also export attempts whose integrity failed; by default they are left out, whatever their outcome."""
    with_secrets: bool = False
    """Also export attempts that hold a known credential or key-shaped text; by default they are left out and listed."""


class ServeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of a gateway for agents that something else starts."""

    model: str
    """Model: `openai:NAME`, `anthropic:NAME`, `http://host/v1#NAME`, `scripted:PATH`, `replay:ATTEMPT`, ..."""
    port: int = 0
    """The port on 127.0.0.1; 0 lets the system pick one."""
    sessions: int = 1
    """Number of sessions, each with its own address and key, and each a trajectory of its own."""
    limits: Limits = Limits()
    """Limits of each session."""
    run: str | None = None
    """Name of the recorded run; default: from date and time."""


class RecordConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration for recording a command in its own folder."""

    command: tuple[str, ...]
    """The command and its arguments, after `--`."""
    model: str | None = None
    """Model for the command's calls, in any supported API; without it no gateway runs, and only the folder's state and
    the exit code are recorded."""
    limits: Limits = Limits()
    """Limits of the command's model calls and of its time; reaching one ends the command."""
    run: str | None = None
    """Name of the recorded run; default: from date and time."""
