"""Infers the data of a site from recorded steps: what is chosen, counted, read on one page for another, and demanded.

Each rule needs steps that show it. A number changes by an amount if it did so in every recorded step; a demand is a
condition that every accepted step met and refused ones did not. A value that was never shown to change is not changed.
"""

from __future__ import annotations

import itertools
import keyword
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from assay.environments.browser.page_moves import PageAct
from assay.environments.browser.page_text import PageView
from assay.environments.services.machines.machine import Condition, Transition, Value, Variable
from assay.environments.services.pages.catalog import humanize

from .observed import ObservedStep, ObservedWalk, offers_of

_CODE: Final = re.compile(r"[A-Z][A-Z0-9-]*-\d{3,}")
_PLACEHOLDERS: Final = frozenset({"Choose", "Any"})
_MOST_CHOICES, _MOST_VARIABLES, _MOST_CODES, _MOST_NUMBER, _MOST_ASKED = 40, 20, 5, 100, 4
_LONGEST, _MOST_NEEDS = 500, 10
_RESERVED: Final = frozenset({"id", "screen", "tx", "code"})
_Form = tuple[str, str]
"""Kind and label of an act."""


class Names:
    """Gives names that a machine may use, each once."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used = set(used)

    def take(self, label: str) -> str:
        """Returns the name of a label."""
        bare = re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")[:26].strip("_") or "page"
        bare = bare if bare[0].isalpha() else f"n_{bare}"
        bare = f"{bare}_value" if _is_reserved(bare) else bare
        name, number = bare, 1
        while name in self._used:
            number += 1
            name = f"{bare}_{number}"
        self._used.add(name)
        return name


def _is_reserved(name: str) -> bool:
    """Returns whether Python, SQL or machines keep a name for themselves."""
    if keyword.iskeyword(name) or name in _RESERVED:
        return True
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"CREATE TABLE t ({name} TEXT)")  # letters, digits and underscores alone
    except sqlite3.Error:
        return True
    finally:
        connection.close()
    return False


class Effects(msgspec.Struct, frozen=True):
    """Effects of a form beside leading to a screen; the fields are those of `Transition`."""

    asks: tuple[str, ...] = ()
    sets: dict[str, Value] = {}
    adds: dict[str, int] = {}
    needs: tuple[Condition, ...] = ()
    code: str = ""


class RecoveredData(NamedTuple):
    """The data of a site."""

    variables: tuple[Variable, ...] = ()
    codes: tuple[str, ...] = ()
    terms: Mapping[str, str] = {}
    """Names of variables and codes, by the term of which they are the value."""
    effects: Mapping[_Form, Effects] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all variables and codes."""
        return tuple(self.terms.values())

    def name(self, term: str) -> str:
        """Returns the name of a term's value; empty if it is not recovered."""
        return self.terms.get(term, "")

    def skill(self, kind: str, label: str) -> str:
        """Returns the kind of ability that an act takes."""
        found = self.effects.get((kind, label), Effects())
        return "look_up" if found.code else "choose" if found.asks else "count" if found.adds else "follow"

    def arguments(self, transition: Transition, act: PageAct) -> dict[str, Value] | None:
        """Returns the values that an act gives to what a transition asks; None if one of them was never recorded."""
        given: dict[str, Value] = {}
        variables = {one.name: one for one in self.variables}
        for label, text in act.texts:
            name = self.name(label)
            if name in transition.asks:
                value = next((one for one in variables[name].domain if text in (str(one), _label(one))), None)
                if value is None:
                    return None
                given[name] = value
        return given

    def is_wrong_code(self, transition: Transition, step: ObservedStep) -> bool:
        """Returns whether a recorded step gave another text than the code that was shown."""
        known = {text for term, text in step.known.items() if self.name(term) == transition.code}
        return not any(text.strip() in known for _, text in step.act.texts)

    def shows(self, term: str, values: Mapping[str, Value], text: str) -> bool:
        """Returns whether a state shows a text as the value of a term; the text of a code differs between worlds."""
        name = self.name(term)
        return name in self.codes or (name in values and str(values[name]) == text)


def _label(value: Value) -> str:
    return humanize(value) if isinstance(value, str) else str(value)


def recover_data(
    walks: Sequence[ObservedWalk], views: Sequence[PageView], taken: Mapping[_Form, Sequence[ObservedStep]]
) -> RecoveredData:
    """Returns the data.

    Args:
        walks: All walks.
        views: A page of each screen.
        taken: Recorded steps of each form or link.
    """
    shown = _shown_values(walks, views)
    names = Names()
    terms = {term: names.take(term) for term, values in shown.items() if values and _is_usable(values)}
    codes = [term for term in terms if all(_CODE.fullmatch(text) for text in shown[term])][:_MOST_CODES]
    counted = [term for term in terms if all(map(_is_count, shown[term]))]
    chosen = [term for term in terms if term not in counted and not all(map(_CODE.fullmatch, shown[term]))]
    options = _options(views, terms)
    domains = {term: _domain(list(shown[term]), options.get(term, ())) for term in chosen}
    kept = [term for term in terms if term in (*counted, *chosen) and len(domains.get(term, ())) <= _MOST_CHOICES]
    kept = kept[:_MOST_VARIABLES]
    terms = {term: name for term, name in terms.items() if term in kept or term in codes}
    begins = {term: next(iter(shown[term])) for term in terms}
    rules = _Rules(terms, [term for term in counted if term in kept], [terms[term] for term in codes], options, begins)
    effects = {form: rules.effects(steps, shown) for form, steps in taken.items()}
    variables = [
        _number(terms[term], shown[term], rules.bounded) if term in counted else
        Variable(terms[term], domains[term], begins=begins[term])
        for term in kept
    ]  # fmt: skip
    return RecoveredData(tuple(variables), tuple(terms[term] for term in codes), terms, effects)


def _shown_values(walks: Sequence[ObservedWalk], views: Sequence[PageView]) -> dict[str, dict[str, None]]:
    """Returns the values that were shown of each term, the one that most walks showed first at the beginning."""
    begins: dict[str, Counter[str]] = {}
    values: dict[str, dict[str, None]] = {}
    for walk in walks:
        first: dict[str, str] = dict(walk.first.terms) if walk.first is not None else {}
        for step in walk.steps:
            for term, text in step.shown.items():
                first.setdefault(term, text)
                values.setdefault(term, {})[text] = None
        for term, text in first.items():
            begins.setdefault(term, Counter())[text] += 1
    for view in views:
        for term, text in view.terms:
            values.setdefault(term, {})[text] = None
    return {
        term: dict.fromkeys([*(text for text, _ in begins.get(term, Counter()).most_common(1)), *texts])
        for term, texts in values.items()
    }


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) < 4 and str(int(text)) == text and int(text) <= _MOST_NUMBER


def _is_usable(texts: Iterable[str]) -> bool:
    return all(text and text.isprintable() and text == text.strip() and len(text) <= _LONGEST for text in texts)


def _options(views: Sequence[PageView], terms: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Returns the labels of the options of the fields that are called like a term."""
    found: dict[str, dict[str, None]] = {}
    for view in views:
        for offer in offers_of(view, by_pages=False):
            for entry in offer.entries:
                if entry.label in terms and entry.options:
                    labels = (one for one in entry.options if one not in _PLACEHOLDERS)
                    found.setdefault(entry.label, {}).update(dict.fromkeys(labels))
    return {term: tuple(labels) for term, labels in found.items()}


def _domain(shown: Sequence[str], labels: Sequence[str]) -> tuple[str, ...]:
    """Returns the values of a choice: those that were shown, and those that a form offers, whose labels begin with a
    capital where no value does."""
    known = {humanize(text) for text in shown}
    further = [label for label in labels if label not in known and label not in shown]
    if not any(text[:1].isupper() for text in shown):
        further = [label[:1].lower() + label[1:] for label in further]
    return (*shown, *dict.fromkeys(further))


def _number(name: str, shown: Iterable[str], bounded: Mapping[str, int]) -> Variable:
    texts = list(shown)
    most = min(max(1, bounded.get(name, 0), *map(int, texts)), _MOST_NUMBER)
    begins = min(int(texts[0]), most)
    return Variable(name, most=most, begins=begins, beyond="refused" if name in bounded else "unrecorded")


class _Rules:
    """Infers what forms do."""

    def __init__(
        self,
        terms: Mapping[str, str],
        counted: Sequence[str],
        codes: Sequence[str],
        options: Mapping[str, Sequence[str]],
        begins: Mapping[str, str],
    ) -> None:
        self._terms, self._counted, self._codes, self._options = terms, set(counted), set(codes), options
        self._begins = begins
        self.bounded: dict[str, int] = {}
        """Largest value at which a number was seen, by name of those that were refused to go on."""

    def effects(self, steps: Sequence[ObservedStep], shown: Mapping[str, Iterable[str]]) -> Effects:
        """Returns what a form does by its recorded steps."""
        done = [step for step in steps if step.to is not None]
        labels = dict.fromkeys(label for step in steps for label, _ in step.act.texts)
        asks = [label for label in labels if label in self._options][:_MOST_ASKED]
        adds = {term: amount for term in self._counted if (amount := _amount(done, term))}
        sets = {
            term: value
            for term, name in self._terms.items()
            if term not in asks and term not in adds and name not in self._codes and (value := _constant(done, term))
        }
        code = self._code(done)
        refused = [step for step in steps if step.to is None and not self._is_explained(step, asks, adds, code, shown)]
        return Effects(
            tuple(self._terms[term] for term in asks),
            {self._terms[term]: int(value) if term in self._counted else value for term, value in sets.items()},
            {self._terms[term]: amount for term, amount in adds.items()},
            tuple(itertools.islice(self._needs(done, refused), _MOST_NEEDS)),
            code,
        )

    def _code(self, done: Sequence[ObservedStep]) -> str:
        """Returns the code that accepted steps gave, which a page had shown before."""
        for term, name in self._terms.items():
            shown = [step for step in done if step.known.get(term) in dict(step.act.texts).values()]
            if name in self._codes and shown and len(shown) == len(done):
                return name
        return ""

    def _is_explained(
        self,
        step: ObservedStep,
        asks: Sequence[str],
        adds: Mapping[str, int],
        code: str,
        shown: Mapping[str, Iterable[str]],
    ) -> bool:
        """Returns whether a refusal is that of a missing choice, of a wrong code, or of a number at its end."""
        given = dict(step.act.texts)
        if any(term not in given for term in asks):
            return True
        terms = [term for term, name in self._terms.items() if name == code]
        if terms and not any(step.known.get(term) in given.values() for term in terms):
            return True
        for term, amount in adds.items():
            most = max(map(int, shown[term]))
            value = int(self._value_before(step, term))
            if value + amount > most:
                self.bounded[self._terms[term]] = max(most, value)
                return True
        return False

    def _value_before(self, step: ObservedStep, term: str) -> str:
        """Returns the value before a step as it was shown last; before it was shown, the one at the start."""
        return step.known.get(term, self._begins[term])

    def _needs(self, done: Sequence[ObservedStep], refused: Sequence[ObservedStep]) -> Iterator[Condition]:
        """Yields conditions that all accepted steps met, each of which tells why some refused ones were refused; of
        several, the one that does so for the most."""
        left = list(refused) if done else []
        while left:
            found = [one for term in self._terms for one in self._condition(done, term)]
            met = [[step for step in left if self._meets(step, one)] for one in found]
            best = min(range(len(found)), key=lambda at: len(met[at]), default=None)
            if best is None or len(met[best]) == len(left):
                return
            yield found[best]
            left = met[best]

    def _condition(self, done: Sequence[ObservedStep], term: str) -> Iterator[Condition]:
        """Yields the strictest condition on a value that all accepted steps met."""
        values = {self._value_before(step, term) for step in done}
        name = self._terms[term]
        if term in self._counted:
            least = min(map(int, values))
            if 0 < least <= _MOST_NUMBER:
                yield Condition(name, least=least)
        elif name not in self._codes and len(values) == 1:
            yield Condition(name, equals=values.pop())

    def _meets(self, step: ObservedStep, condition: Condition) -> bool:
        term = next(term for term, name in self._terms.items() if name == condition.variable)
        text = self._value_before(step, term)
        return condition.holds(int(text) if term in self._counted else text)


def _amount(done: Sequence[ObservedStep], term: str) -> int:
    """Returns by how much a number changed in every step that shows it; 0 if it did not."""
    both = [step for step in done if term in step.known and term in step.shown]
    amounts = {int(step.shown[term]) - int(step.known[term]) for step in both}
    return amounts.pop() if len(amounts) == 1 else 0


def _constant(done: Sequence[ObservedStep], term: str) -> str:
    """Returns the value that a term had after every step that shows it, if one of them changed it; empty otherwise."""
    both = [step for step in done if term in step.known and term in step.shown]
    values = {step.shown[term] for step in both}
    return values.pop() if len(values) == 1 and any(step.known[term] != step.shown[term] for step in both) else ""
