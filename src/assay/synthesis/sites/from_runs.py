"""Makes a mock site from recorded attempts in a browser, with a report of how faithful it is to attempts left out.

Only attempts that began in one state of one site are put together: the most frequent one among the runs. A file holds
the machine, what it was recovered from, and the report; the family `sites` makes tasks of it (`machine=FILE`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from assay.environments.services.machines.machine import Machine, read_machine
from assay.errors import UserError
from assay.limited_file import parse_file

from .fidelity import Fidelity, measure_fidelity
from .from_runs_config import Reading, SiteFromRunsConfig
from .recorded_walks import RecordedWalk
from .recovery import RecoveredSite, recover

_MOST_BYTES: Final = 16 << 20


class SiteFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A recovered site on disk."""

    machine: Machine
    reading: Reading
    recovered_from: tuple[str, ...]
    """Attempts, as RUN:ATTEMPT."""
    held_out: tuple[str, ...]
    other_starts: int
    """Attempts that began in another state and were not used."""
    figures: dict[str, int]
    fidelity: Fidelity | None = None
    """On the attempts held out; None where none were, or without a browser."""


async def make_site(walks: Sequence[RecordedWalk], config: SiteFromRunsConfig) -> SiteFile:
    """Returns the site of some walks with its fidelity.

    Raises:
        UserError: There are not enough walks, or no browser to replay them in.
    """
    usable = [walk for walk in walks if walk.moves]
    if not usable:
        raise UserError("the runs hold no act in a browser that led from one page to another: record with observe=tree")
    start = Counter(walk.start for walk in usable).most_common(1)[0][0]
    same = [walk for walk in usable if walk.start == start]
    random.Random(f"{config.seed}/held out").shuffle(same)
    count = round(config.held_out * len(same))
    if config.held_out and not 0 < count < len(same):
        raise UserError(
            f"{len(same)} attempts of one start are too few to hold out a share of {config.held_out:g}: give more "
            "runs, or --held-out 0"
        )
    site = recover(same[count:], config.name, by_pages=None if config.reading == "auto" else config.reading == "pages")
    fidelity = None
    if count and not config.without_browser:
        fidelity = await measure_fidelity(site, same[:count], config.seed)
    return SiteFile(
        site.machine,
        _reading_of(site),
        tuple(walk.name for walk in same[count:]),
        tuple(walk.name for walk in same[:count]),
        len(usable) - len(same),
        dict(site.figures._asdict()),
        fidelity,
    )


def _reading_of(site: RecoveredSite) -> Reading:
    return "pages" if site.by_pages else "values"


def read_site_file(path: Path) -> SiteFile:
    """Reads a site that `assay synth site` wrote. Raises `UserError` for anything else."""
    hint = "`assay synth site` writes one"
    return parse_file(path, _parse_site, holding="a recovered site", limit=_MOST_BYTES, hint=hint)


def _parse_site(data: bytes) -> SiteFile:
    found = msgspec.json.decode(data, type=SiteFile)
    return msgspec.structs.replace(found, machine=read_machine(found.machine))
