"""Map of a site's pages, from remembered moves and from those of the attempt under way: a model to plan on. Pure.

A move from a page by an act leads to a page and changes values, as it did before. An act whose form was offered in some
states and missing or refused in others is taken to need the values that tell those apart. Each move keeps the records
that say so, so that the moves of a record that turns out to be wrong can be forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from .page_memory import MASK, PageKey, PageMove, RememberedAct, RememberedPage
from .text_index import TextIndex

OWN: Final = ""
"""Name of the attempt under way among records."""
UNSEEN: Final = "?"
"""Value of a name that was never seen."""
Values = Mapping[str, str]


class Effect(NamedTuple):
    """Result of an act on a page."""

    to: PageKey
    sets: tuple[tuple[str, str | int], ...] = ()
    """Values that it changes: the new text, or what is added to a number."""
    shows: frozenset[str] = frozenset()
    """Names whose identifiers are seen after it."""


class Sighting(NamedTuple):
    """A page as it was seen once."""

    values: Values
    offers: frozenset[tuple[str, str]]
    record: str


class PageMap:
    """Known pages of a site, and the ways between them."""

    def __init__(self) -> None:
        self._moves: dict[tuple[PageKey, RememberedAct], dict[str, Effect]] = {}
        """Results of acts, by the record that they are from; the latest of each."""
        self._sightings: dict[PageKey, list[Sighting]] = {}
        self._refusals: dict[tuple[PageKey, RememberedAct], list[Values]] = {}
        self._texts: dict[PageKey, str] = {}
        self._known: dict[str, dict[str, str]] = {}
        self._initial: dict[str, dict[str, str]] = {}
        """Values as each attempt saw them first."""
        self.wrong: set[str] = set()
        """Records whose moves were contradicted; they are not used any more."""

    def learn(self, move: PageMove, record: str = OWN) -> None:
        """Adds a move of a record; moves of one record come in order."""
        known = self._known.setdefault(record, {})
        self._see(move.before, known, record)
        before = dict(known)
        place = move.before.key, move.act
        if move.after.is_refusal:
            self._refusals.setdefault(place, []).append(before)
            return
        self._see(move.after, known, record)
        sets = tuple(
            (name, _change(before[name], value))
            for name, value in move.after.values
            if name in before and before[name] != value and value != MASK
        )
        shows = frozenset(name for name, value in move.after.values if value == MASK)
        self._moves.setdefault(place, {})[record] = Effect(move.after.key, sets, shows)

    def _see(self, page: RememberedPage, known: dict[str, str], record: str) -> None:
        for name, value in page.values:
            if name not in known:
                self._initial.setdefault(record, {})[name] = value
            known[name] = value
        if page.is_refusal:
            return
        self._sightings.setdefault(page.key, []).append(Sighting(dict(known), _offers_of(page), record))
        fields = " ".join(f"{label} {' '.join(entries)}" for _, label, entries in page.offers)
        self._texts[page.key] = f"{page.heading} {' '.join(name for name, _ in page.values)} {fields}"

    @property
    def initial(self) -> dict[str, str]:
        """Values as attempts saw them first; those of the attempt under way, else of the latest record."""
        found: dict[str, str] = {}
        for record, values in self._initial.items():
            if record not in self.wrong:
                found |= values
        return found | self._initial.get(OWN, {})

    def compare(self, page: RememberedPage, known: Values) -> int:
        """Gives up the records that saw a page with the same known values and other offers: they are of another site
        at the same address, or the site was changed. Returns how many."""
        offers = _offers_of(page)
        wrong = {
            one.record
            for one in self._sightings.get(page.key, ())
            if one.record not in (OWN, *self.wrong) and one.values == known and one.offers != offers
        }
        self.wrong |= wrong
        return len(wrong)

    def forget(self, page: PageKey, act: RememberedAct, led_to: PageKey) -> int:
        """Gives up the records that said that an act leads elsewhere; returns how many."""
        said = self._moves.get((page, act), {})
        wrong = {record for record, effect in said.items() if record != OWN and effect.to != led_to}
        self.wrong |= wrong
        return len(wrong)

    def give_up(self, page: PageKey, act: RememberedAct, values: Values) -> None:
        """Notes that a page does not offer an act while these values hold."""
        self._refusals.setdefault((page, act), []).append(dict(values))

    def effect(self, page: PageKey, act: RememberedAct) -> Effect | None:
        """Returns what an act leads to: as this attempt saw it, else as the latest record says; None if unknown."""
        said = self._moves.get((page, act), {})
        if OWN in said:
            return said[OWN]
        return next((effect for record, effect in reversed(said.items()) if record not in self.wrong), None)

    def acts(self, page: PageKey, among: frozenset[PageKey] | None = None) -> list[tuple[RememberedAct, Effect]]:
        """Returns the known acts of a page with their effects, to certain pages alone if these are given."""
        found = []
        for at, act in self._moves:
            effect = self.effect(at, act) if at == page else None
            if effect is not None and (among is None or effect.to in among):
                found.append((act, effect))
        return found

    def may_be_done(self, page: PageKey, act: RememberedAct, values: Values) -> bool:
        """Returns whether an act is offered and not refused, as far as earlier sightings tell."""
        offer = act.kind, act.label
        seen = [one for one in self._sightings.get(page, ()) if one.record not in self.wrong]
        done = [one.values for one in seen if offer in one.offers]
        missing = [one.values for one in seen if offer not in one.offers]
        refused = self._refusals.get((page, act), [])
        return not _blocks(values, done, missing) and not (refused and values in refused)

    def retrieve(self, query: str, here: PageKey, most: int) -> frozenset[PageKey]:
        """Returns the pages to plan on, coarse to fine: those that fit a query best (BM25), those that show what their
        acts need, and those on shortest ways between all of these."""
        keys = list(self._texts)
        index = TextIndex(self._texts[key] for key in keys)
        wanted = {keys[number] for number, _ in index.search(query, most)} | {here}
        names = {name for at, act in self._moves if at in wanted for name in act.needs}
        wanted |= {
            key for key in keys if any(name in dict(one.values) for one in self._sightings[key] for name in names)
        }
        ways = {key: self._ways(key) for key in wanted}
        return frozenset(step for ends in ways.values() for key in wanted for step in ends.get(key, ()))

    def _ways(self, start: PageKey) -> dict[PageKey, tuple[PageKey, ...]]:
        """Returns the pages on a shortest way to each page."""
        found: dict[PageKey, tuple[PageKey, ...]] = {start: (start,)}
        queue = deque([start])
        while queue:
            at = queue.popleft()
            for _, effect in self.acts(at):
                if effect.to not in found:
                    found[effect.to] = (*found[at], effect.to)
                    queue.append(effect.to)
        return found

    def first_act(self, start: PageKey, is_wanted: Iterable[PageKey]) -> RememberedAct | None:
        """Returns the first act of a shortest way, by acts that change nothing, to another page that is wanted."""
        wanted, seen = set(is_wanted), {start}
        queue = deque[tuple[PageKey, RememberedAct | None]]([(start, None)])
        while queue:
            at, first = queue.popleft()
            if first is not None and at in wanted:
                return first
            for act, effect in self.acts(at):
                if not effect.sets and effect.to not in seen:
                    seen.add(effect.to)
                    queue.append((effect.to, first or act))
        return None

    @property
    def pages(self) -> Sequence[PageKey]:
        """Pages that were seen."""
        return list(self._sightings)


def _offers_of(page: RememberedPage) -> frozenset[tuple[str, str]]:
    return frozenset((kind, label) for kind, label, _ in page.offers)


def apply(effect: Effect, values: Values) -> dict[str, str]:
    """Returns the values after an act."""
    after = dict(values)
    for name, change in effect.sets:
        if isinstance(change, str):
            after[name] = change
        else:
            now = after.get(name, UNSEEN)
            after[name] = str(int(now) + change) if _is_number(now) else UNSEEN
    return after


def _change(before: str, after: str) -> str | int:
    return int(after) - int(before) if _is_number(before) and _is_number(after) else after


def _is_number(value: str) -> bool:
    return value.isdecimal() and len(value) < 10


def _blocks(values: Values, done: Sequence[Values], missing: Sequence[Values]) -> bool:
    """Returns whether a value is one that an act was missing with, and never offered with, where that tells all
    sightings apart."""
    if not done or not missing:
        return bool(missing) and values in missing
    for name in {name for one in missing for name in one}:
        offered = {one[name] for one in done if name in one}
        withheld = {one[name] for one in missing if name in one}
        if offered and withheld and offered.isdisjoint(withheld) and values.get(name) in withheld:
            return True
    return False
