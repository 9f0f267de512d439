"""Assay's own keys of a task, `[metadata.assay]`, as typed records. Harbor ignores them.

Invariant: unknown keys are errors, so that a misspelt limit is never ignored.

`harbor_literal` selects Harbor's default in place of Assay's stricter one:

| name | Harbor's, when asked for | ours |
|---|---|---|
| `network` | a task that states no `network_mode` has the public network | it has none |
| `verifier` | the reward file alone decides | exit code 0 and tests that really ran are demanded too |

Verification always runs in a fresh fork of the final state with no agent process alive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

NOT_DECLARED = "not declared"
Count = Annotated[int, Meta(gt=0, examples=["50"])]


class LimitsTable(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`[metadata.assay.limits]`: limits of one attempt; wall time is `[agent].timeout_sec`."""

    turns: Count | None = None
    calls: Count | None = None
    """Calls of models, those that failed included."""
    tokens: Count | None = None
    cost_usd: Annotated[float, Meta(gt=0, examples=["0.5"])] | None = None
    working_s: Annotated[float, Meta(gt=0, examples=["300.0"])] | None = None
    """Seconds without waiting for model servers."""


class WorkspaceTable(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`[metadata.assay.environment]`: settings beyond Harbor's `[environment]`."""

    processes: Count | None = None
    file_mb: Count | None = None
    """The largest single file."""
    open_files: Count | None = None
    tmp_mb: Count | None = None
    masks: Annotated[tuple[str, ...], Meta(examples=['["/usr/lib/python3/dist-packages/yaml"]'])] = ()
    """Absolute paths inside that are replaced by something empty."""
    requirements: Annotated[tuple[str, ...], Meta(examples=['["pytest==8.3.4"]'])] = ()
    """Pinned Python packages of the tool layer."""
    masked_packages: Annotated[tuple[str, ...], Meta(examples=['["networkx"]'])] = ()
    """Packages that must not be in the tool layer though something requires them: the package under task."""
    backend: Annotated[str, Meta(min_length=1, examples=['"podman"'])] | None = None
    """The sandbox that the task needs, as `assay run --backend` names it. In another one it is refused; on several
    machines its attempts go to nodes that have it."""
    seed: Annotated[int, Meta(ge=0)] = 0


class CheckTable(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`[[metadata.assay.checks]]`: one check of the outcome; they replace `tests/test.sh`."""

    name: Annotated[str, Meta(min_length=1, examples=['"tests"'])]
    kind: Annotated[str, Meta(min_length=1, examples=['"pytest"'])]
    """A plugin of the group `assay.checks`."""
    parameters: dict[str, Any] = {}


class AssayTable(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`[metadata.assay]`."""

    split: Annotated[str, Meta(min_length=1, examples=['"train"'])] | None = None
    tags: tuple[str, ...] = ()
    """Added to `[task].keywords`."""
    source: str | None = None
    """Origin of the task, in words; overrides the root key `source`."""
    harbor_literal: tuple[Literal["network", "verifier"], ...] = ()
    limits: LimitsTable = LimitsTable()
    environment: WorkspaceTable = WorkspaceTable()
    checks: tuple[CheckTable, ...] = ()
    contracts: tuple[dict[str, Any], ...] = ()
    """`[[metadata.assay.contracts]]`: safety contracts that agents at this task are held to, each a table as in a
    contract's file; `assay contract check` reads them."""
    volatile: Annotated[tuple[str, ...], Meta(examples=['["took <number> rounds"]'])] = ()
    """Text in outputs that differs from run to run and means nothing, for `assay replay`: literal text with the places
    `<number>`, `<word>`, `<hex>` and, at the end, `<rest>`."""
    provenance: dict[str, Any] = {}
    """Free-form: origin of the task. Tasks that `assay synth` makes from a package name `licence`, the licence that the
    package declares."""


def declared_licence(metadata: Mapping[str, Any]) -> str:
    """Returns `[metadata.assay.provenance].licence` of a task's metadata; `not declared` where it is missing."""
    found: Any = metadata
    for key in ("assay", "provenance", "licence"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) and found.strip() else NOT_DECLARED
