"""Recovers a state machine from recorded walks: its screens, what led where, and the data behind it.

Where recorded acts of one name led to one screen from several others, they are taken to lead there from every screen
that offers them. What was offered and never done leads to the machine's screen `unrecorded`: the mock site says that
nothing is recorded, and an attempt that ends there is `unknown`, never a pass or a fail.

With values (`observed`), four kinds of data are inferred: values that forms set, numbers that they change by a fixed
amount, codes that one screen shows and a form elsewhere takes, and demands of forms that were refused. Not
inferred: state that no page shows, and what depends on more than that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from assay.environments.browser.page_moves import PageAct
from assay.environments.browser.page_text import PageView
from assay.environments.services.clock import clock
from assay.environments.services.machines.machine import Machine, ScreenPlan, State, Transition, read_machine
from assay.environments.services.pages.catalog import humanize
from assay.errors import UserError

from .observed import ObservedStep, ObservedWalk, ScreenKey, observe, offers_of
from .recorded_walks import RecordedWalk
from .recovered_data import Names, RecoveredData, recover_data

NOT_RECORDED: Final = "not_recorded"
_TITLE: Final = "Not recorded"
_TEXT: Final = (
    "This site was made from records, and no record shows what comes here.\n"
    "It cannot be gone on from here. An attempt that ends here is neither a pass nor a fail."
)
_MOST_SCREENS: Final = 99
_MOST_TRANSITIONS: Final = 500
_MOST_TEXT: Final = 20_000
_ELSE: Final = "anything else"


class ActKey(NamedTuple):
    """Source of a recovered transition: acts of one name, by pages also of one filling."""

    kind: str
    label: str
    texts: tuple[tuple[str, str], ...] = ()


class Figures(NamedTuple):
    """Counts of a recovery."""

    walks: int
    steps: int
    screens: int
    transitions: int
    assumed: int
    """Screens on which a transition leads where it led from others."""
    unrecorded: int
    """Offers, by screen, of which no record shows the result."""
    contradicted: int
    """Steps that led elsewhere than most of the same act on the same screen."""
    left_out: int
    """Screens and transitions beyond what a machine may have."""


class Prediction(NamedTuple):
    """The result of a step by a recovered machine."""

    state: State | None
    """State after it; None for an act that it does not have there."""
    is_refused: bool = False


class RecoveredSite(NamedTuple):
    """A machine and what its parts were recovered from."""

    machine: Machine
    by_pages: bool
    application: str
    """First part of the paths of its pages, reading with values; others are around it."""
    screens: Mapping[ScreenKey, str]
    """Names of screens."""
    acts: Mapping[ActKey, str]
    """Names of transitions."""
    data: RecoveredData
    figures: Figures

    def key(self, act: PageAct) -> ActKey:
        """Returns what the transition of an act is recovered from."""
        return ActKey(act.kind, act.label, act.texts if self.by_pages else ())

    def transition(self, act: PageAct) -> Transition | None:
        """Returns the transition of an act; None without one."""
        name = self.acts.get(self.key(act))
        return None if name is None else self.machine.by_transition[name]

    def predict(self, state: State, step: ObservedStep) -> Prediction:
        """Returns where a recorded act leads from a state."""
        transition = self.transition(step.act)
        if transition is None:
            return Prediction(None)
        if state.screen not in transition.at:
            return Prediction(state, is_refused=True)
        given = self.data.arguments(transition, step.act)
        if given is None:
            return Prediction(None)
        if len(given) < len(transition.asks):
            return Prediction(state, is_refused=True)
        if transition.code and self.data.is_wrong_code(transition, step):
            return Prediction(state, is_refused=True)
        found = self.machine.step(state, transition, given)
        return Prediction(state, is_refused=True) if isinstance(found, str) else Prediction(found)

    def observed_state(self, state: State, step: ObservedStep) -> State | None:
        """Returns the state that a record shows after a step; values that the page does not show stay. None for a
        screen that the machine does not have."""
        if step.to is None:
            return state
        screen = self.screens.get(step.to)
        if screen is None:
            return None
        values = dict(zip(self.machine.by_variable, state.values, strict=True))
        for term, text in step.shown.items():
            name = self.data.name(term)
            found = [one for one in self.machine.by_variable[name].domain if str(one) == text] if name in values else []
            if found:
                values[name] = found[0]
        return State(screen, tuple(values.values()))

    def agrees(self, step: ObservedStep, found: Prediction) -> bool:
        """Returns whether a prediction is what was recorded: the refusal, or the screen with its values."""
        if found.state is None or found.is_refused or step.to is None:
            return found.state is not None and found.is_refused and step.to is None
        if self.screens.get(step.to) != found.state.screen:
            return False
        values = dict(zip(self.machine.by_variable, found.state.values, strict=True))
        return all(self.data.shows(name, values, text) for name, text in step.shown.items())


class TransitionCounts(NamedTuple):
    """Recorded steps by what the machine says of each one, put before it where the record was."""

    right: int
    wrong: int
    """The machine says something else."""
    unknown: int
    """The machine has no such act there, says that its result is not recorded, or does not know where the record is."""


def recover(walks: Sequence[RecordedWalk], name: str = "", *, by_pages: bool | None = None) -> RecoveredSite:
    """Returns the site of some walks, which must be of one site in one initial state.

    Args:
        walks: The walks.
        name: Name of the site; default: the first part of the path of its screens.
        by_pages: Reading of the pages; default: the one that predicts more steps of walks that were left out.

    Raises:
        UserError: The walks hold no step.
    """
    if by_pages is None:
        by_pages = _choose_reading(walks)
    application = "" if by_pages else _application_of(walks)
    observed = [observe(walk, application, by_pages=by_pages) for walk in walks]
    if not any(walk.steps for walk in observed):
        raise UserError("the runs hold no act in a browser that led from one page to another: record with observe=tree")
    return _Recovery(observed, application, by_pages=by_pages).site(name)


def share_predicted(site: RecoveredSite, walks: Iterable[RecordedWalk]) -> tuple[int, int]:
    """Returns how many recorded steps the machine predicts, each walk up to its first difference, and how many there
    are."""
    right = total = 0
    for walk in walks:
        observed = observe(walk, site.application, by_pages=site.by_pages)
        total += len(observed.steps)
        state, is_on = site.machine.begin(), True
        for step in observed.steps:
            found = site.predict(state, step) if is_on and step.follows else Prediction(None)
            is_on = site.agrees(step, found)
            right += is_on
            state = found.state or state
    return right, total


def count_transitions(site: RecoveredSite, walks: Iterable[RecordedWalk]) -> TransitionCounts:
    """Returns how the machine predicts each recorded step by itself: after a difference it goes on where the record
    is, with the values that no page showed since as it believes them to be."""
    right = wrong = unknown = 0
    for walk in walks:
        state: State | None = site.machine.begin()
        for step in observe(walk, site.application, by_pages=site.by_pages).steps:
            if not step.follows and step.at in site.screens:
                state = State(site.screens[step.at], (state or site.machine.begin()).values)
            found = Prediction(None) if state is None else site.predict(state, step)
            if found.state is None or found.state.screen == site.machine.unrecorded:
                unknown += 1
            elif site.agrees(step, found):
                right += 1
            else:
                wrong += 1
            believed = found.state if found.state and found.state.screen != site.machine.unrecorded else state
            state = site.observed_state(believed or site.machine.begin(), step)
    return TransitionCounts(right, wrong, unknown)


def _choose_reading(walks: Sequence[RecordedWalk]) -> bool:
    """Returns whether reading by pages predicts more of walks that were left out, each fifth of them in turn."""
    scores = []
    for by_pages in (False, True):
        right, application = 0, "" if by_pages else _application_of(walks)
        for fold in range(min(5, len(walks))):
            rest = [walk for at, walk in enumerate(walks) if at % 5 != fold]
            held = [walk for at, walk in enumerate(walks) if at % 5 == fold]
            observed = [observe(walk, application, by_pages=by_pages) for walk in rest]
            if any(walk.steps for walk in observed):
                site = _Recovery(observed, application, by_pages=by_pages).site("")
                right += share_predicted(site, held)[0]
        scores.append(right)
    return scores[1] > scores[0]


def _application_of(walks: Iterable[RecordedWalk]) -> str:
    """Returns the application of which most different pages were seen: the first part of their paths."""
    pages = {
        (move.after.path.strip("/").partition("/")[0], move.after.heading) for walk in walks for move in walk.moves
    }
    found = Counter(application for application, _ in sorted(pages) if application)
    return found.most_common(1)[0][0] if found else ""


class _Recovery:
    """One recovery under way."""

    def __init__(self, walks: Sequence[ObservedWalk], application: str, *, by_pages: bool) -> None:
        self._walks, self._application, self._by_pages = walks, application, by_pages
        self._steps = [step for walk in walks for step in walk.steps]
        self._views: dict[ScreenKey, PageView] = {}
        counts: Counter[ScreenKey] = Counter()
        for walk in walks:
            if walk.first is not None and walk.steps:
                self._views.setdefault(walk.steps[0].at, walk.first)
                counts[walk.steps[0].at] += 1
        self._first = counts.most_common(1)[0][0]
        for step in self._steps:
            counts[step.at] += 1
            if step.to is not None:
                counts[step.to] += 1
                self._views.setdefault(step.to, step.view)
        order = [self._first, *(key for key, _ in counts.most_common() if key != self._first and key in self._views)]
        names = Names({NOT_RECORDED})
        self._screens = {key: names.take(key.heading) for key in order[:_MOST_SCREENS]}
        self._left_out = len(counts) - len(self._screens)
        self._assumed = self._unrecorded = self._contradicted = 0

    def site(self, name: str) -> RecoveredSite:
        """Returns the site."""
        offered = self._offers()
        taken: dict[ActKey, list[ObservedStep]] = {}
        for step in self._steps:
            if step.at in self._screens:
                taken.setdefault(self._key(step.act), []).append(step)
        data = self._data(taken)
        label = name or self._name()
        names = Names({f"look_at_{label}", *clock.actions, *data.names})
        drafts: list[tuple[int, ActKey, Transition]] = []
        for key in dict.fromkeys([*taken, *offered]):
            steps = taken.get(key, [])
            at = list(dict.fromkeys([*(step.at for step in steps), *offered.get(key, ())]))
            drafts.append((len(steps), key, self._transition(names.take(key.label), key, steps, at, data)))
        drafts.sort(key=lambda one: -one[0])
        kept = drafts[:_MOST_TRANSITIONS]
        self._left_out += len(drafts) - len(kept)
        machine = self._machine(label, [one for _, _, one in kept], data)
        figures = Figures(
            len(self._walks),
            len(self._steps),
            len(self._screens),
            sum(bool(count) for count, _, _ in kept),
            self._assumed,
            self._unrecorded,
            self._contradicted,
            self._left_out,
        )
        acts = {key: one.name for _, key, one in kept}
        return RecoveredSite(machine, self._by_pages, self._application, self._screens, acts, data, figures)

    def _data(self, taken: Mapping[ActKey, list[ObservedStep]]) -> RecoveredData:
        if self._by_pages:
            return RecoveredData()
        views = [view for key, view in self._views.items() if key in self._screens]
        return recover_data(self._walks, views, {(key.kind, key.label): steps for key, steps in taken.items()})

    def _machine(self, name: str, transitions: Sequence[Transition], data: RecoveredData) -> Machine:
        screens = [self._screen(key, named, data) for key, named in self._screens.items()]
        return read_machine(
            Machine(
                name=name,
                summary=f"Recovered from {len(self._walks)} recorded attempts.",
                screens=(*screens, ScreenPlan(NOT_RECORDED, _TITLE, _TEXT)),
                transitions=tuple(transitions),
                variables=data.variables,
                codes=data.codes,
                unrecorded=NOT_RECORDED,
            )
        )

    def _screen(self, key: ScreenKey, name: str, data: RecoveredData) -> ScreenPlan:
        text = "\n".join(line.strip() for line in key.content if line.strip())[:_MOST_TEXT].strip() or "-"
        shown = () if self._by_pages else tuple(data.name(term) for term, _ in self._views[key].terms)
        return ScreenPlan(name, key.heading[:500] or "-", text, tuple(one for one in dict.fromkeys(shown) if one))

    def _name(self) -> str:
        path = next((view.path for view in self._views.values() if view.path.strip("/")), "")
        bare = re.sub(r"[^a-z]", "", path.strip("/").partition("/")[0].lower())[:30]
        return bare if len(bare) > 1 else "site"

    def _key(self, act: PageAct) -> ActKey:
        return ActKey(act.kind, act.label, act.texts if self._by_pages else ())

    def _offers(self) -> dict[ActKey, list[ScreenKey]]:
        """Returns the screens on which each act is offered. By pages, a form with fields is one act for each filling
        that was recorded anywhere, and one for all others."""
        fillings: dict[tuple[str, str], list[ActKey]] = {}
        for step in self._steps:
            key = self._key(step.act)
            fillings.setdefault((key.kind, key.label), []).append(key)
        offered: dict[ActKey, list[ScreenKey]] = {}
        for screen in self._screens:
            for offer in offers_of(self._views[screen], by_pages=self._by_pages):
                keys = list(dict.fromkeys(fillings.get((offer.kind, offer.label), ())))
                if self._by_pages and offer.entries:
                    keys.append(ActKey(offer.kind, offer.label, ((_ELSE, ""),)))
                for key in keys or [ActKey(offer.kind, offer.label)]:
                    offered.setdefault(key, []).append(screen)
        return offered

    def _transition(
        self, name: str, key: ActKey, steps: Sequence[ObservedStep], at: Sequence[ScreenKey], data: RecoveredData
    ) -> Transition:
        done = [step for step in steps if step.to is not None]
        led = self._targets(done)
        ends = set(led.values())
        stays = bool(led) and all(source == target for source, target in led.items())
        is_general = len(ends) == 1 and (len(led) > 1 or stays) and NOT_RECORDED not in ends
        to = Counter(led.values()).most_common(1)[0][0] if led else NOT_RECORDED
        leads: dict[str, str] = {}
        for screen in (self._screens[one] for one in at):
            if screen in led:
                leads[screen] = led[screen]
            elif is_general and not stays:
                self._assumed += 1
                leads[screen] = to
            else:
                self._unrecorded += 1
                leads[screen] = NOT_RECORDED
        words = " ".join(f"{label}: {text}" for label, text in key.texts).strip().removesuffix(":")
        title = f"{key.label} ({words})" if words else key.label
        bare = Transition(
            name=name,
            at=tuple(leads),
            to=to,
            about=f"{title[:400]}.",
            skill=data.skill(key.kind, key.label),
            title=title[:200] if humanize(name) != title else "",
            leads={source: target for source, target in leads.items() if target != to},
        )
        effects = data.effects.get((key.kind, key.label)) if done else None
        return bare if effects is None else msgspec.structs.replace(bare, **msgspec.structs.asdict(effects))

    def _targets(self, steps: Sequence[ObservedStep]) -> dict[str, str]:
        """Returns where most of the steps led, by screen."""
        led: dict[str, Counter[str]] = {}
        for step in steps:
            target = self._screens.get(step.to, NOT_RECORDED) if step.to is not None else NOT_RECORDED
            led.setdefault(self._screens[step.at], Counter())[target] += 1
        self._contradicted += sum(found.total() - found.most_common(1)[0][1] for found in led.values())
        return {source: found.most_common(1)[0][0] for source, found in led.items()}
