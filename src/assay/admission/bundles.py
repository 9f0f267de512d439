"""Bundles: probes that share an attempt, to save single attempts.

Three kinds: compatible cheats; cheats that change the same files as a first one, which changed nothing; all
circumstances of the reference solution. Invariant: members that their shared attempt does not clear get attempts of
their own, so that a finding names its cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from assay.agents.cheats import CHEATS
from assay.agents.cheats.interface import BUNDLES, Bundle, CheatAgent, Knowledge
from assay.rollout.plan import Verification

from .probe import Clearing, Probe

_CLEARED_BY: dict[str, Clearing] = {"leftovers": "no change"}
"""Condition that clears the members of a bundle, if a plain `fail` does not: of several leftover answers, the last one
written may be the wrong one."""
_LIKE: dict[str, tuple[str, ...]] = {"edited-tests": ("deleted-tests", "skipped-tests", "xfail-tests")}
"""Cheat to other cheats that change the same files."""


def bundle_cheats(probes: Sequence[Probe], knowledge: Knowledge, verification: Verification) -> Iterator[Probe]:
    """Yields the probes of cheats; those that can share an attempt are members of one probe, in the first's place."""
    by_name = {probe.name.removeprefix("cheat."): probe for probe in probes}
    bundle_of = {cheat.name: cheat.bundle for cheat in CHEATS if cheat.bundle and cheat.name in by_name}
    following = {n for first, rest in _LIKE.items() if _can_follow(first, by_name, verification) for n in rest}
    done: set[str] = set()
    for name, probe in by_name.items():
        bundle = bundle_of.get(name)
        mates = [n for n, other in bundle_of.items() if bundle is not None and other == bundle]
        if len(mates) > 1 and bundle is not None:
            if bundle not in done:
                yield _together(bundle, [by_name[n] for n in mates], knowledge)
            done.add(bundle)
        elif name in _LIKE and name not in following and _can_follow(name, by_name, verification):
            members = tuple(by_name[n] for n in _LIKE[name] if n in by_name)
            yield probe._replace(members=members, cleared_by="no change")
        elif name not in following:
            yield probe


def _can_follow(first: str, by_name: dict[str, Probe], verification: Verification) -> bool:
    """Returns whether the first cheat's attempt may stand for others: as asked, a process may act outside the state."""
    return first in by_name and verification == "default"


def _together(bundle: str, members: Sequence[Probe], knowledge: Knowledge) -> Probe:
    names = {probe.name.removeprefix("cheat.") for probe in members}
    cheats = tuple(cheat for cheat in CHEATS if cheat.name in names)
    name = f"{bundle}-together"
    return members[0]._replace(
        name=f"cheat.{name}",
        agent=CheatAgent(Bundle(name, cheats), knowledge),
        about=BUNDLES[bundle],
        members=tuple(members),
        cleared_by=_CLEARED_BY.get(bundle, "verdict"),
    )


def uncleared(probes: Iterable[Probe], covered: dict[str, tuple[str, ...]]) -> Iterator[Probe]:
    """Yields the members that need attempts of their own; `covered` names, by probe, those that its attempt cleared."""
    for probe in probes:
        if probe.id in covered and not covered[probe.id]:
            yield from probe.members
