"""Draws a state machine of a domain: which screens lead to which, what is chosen where, and what has to be known.

Each seed gives another site: links, places of the forms, demands between variables, and the pages on which the codes
stand. In every one of them all sections can be reached, and the last screen once the demands on it are met.
"""

from __future__ import annotations

import random

from assay.environments.services.machines.machine import Condition, Machine, ScreenPlan, Transition, Variable, check

from .domains import Domain

_COUNT_MOST = 4
_HOME, _REVIEW, _END = "home", "review", "end"


def draw_machine(domain: Domain, seed: int) -> Machine:
    """Returns the machine of a seed."""
    draw = random.Random(f"{domain.name}/{seed}")
    names = [title.lower().replace(" ", "_") for title, _ in domain.sections]
    places = _draw_places(domain, names, draw)
    machine = Machine(
        name=domain.name,
        summary=domain.summary,
        screens=_screens(domain, names, places),
        transitions=(*_links(domain, names, draw), *_forms(domain, places, draw), *_ends(domain, draw)),
        variables=_variables(domain),
        codes=(domain.code, domain.number),
    )
    check(machine)
    return machine


def _variables(domain: Domain) -> tuple[Variable, ...]:
    chosen = (Variable(name, values) for name, values in domain.choices)
    return (*chosen, Variable(domain.counted, most=_COUNT_MOST), Variable(f"{domain.code}_used", ("no", "yes")))


def _draw_places(domain: Domain, names: list[str], draw: random.Random) -> dict[str, str]:
    """Returns the section of each variable, of each code, and of the form in which a code is given."""
    first, second, third, *rest = draw.sample(names, len(names))
    variables = [name for name, _ in domain.choices]
    draw.shuffle(variables)
    found = dict(zip(variables, (first, second, third), strict=True))
    found[domain.counted] = draw.choice((first, second, third))
    found[f"{domain.code}_used"] = draw.choice((first, second, third))
    found[domain.code], found[domain.number] = draw.sample(rest, 2)
    return found


def _screens(domain: Domain, names: list[str], places: dict[str, str]) -> tuple[ScreenPlan, ...]:
    sections = [
        ScreenPlan(name, title, text, tuple(what for what, place in places.items() if place == name))
        for name, (title, text) in zip(names, domain.sections, strict=True)
    ]
    every = tuple(variable.name for variable in _variables(domain))
    title = domain.name.capitalize()
    return (
        ScreenPlan(_HOME, f"Welcome to {title}", domain.summary),
        *sections,
        ScreenPlan(_REVIEW, "Review", "Everything as it will be sent. Nothing has been sent yet.", every),
        ScreenPlan(_END, domain.end, "It was sent.", every),
    )


def _links(domain: Domain, names: list[str], draw: random.Random) -> list[Transition]:
    """Returns links between the sections: a ring in a drawn order, a way in, a way back, and some more."""
    ring = draw.sample(names, len(names))
    into: dict[str, set[str]] = {name: {ring[at - 1]} for at, name in enumerate(ring)}
    for name in draw.sample(names, 2):
        into[name].add(_HOME)
    for name, other in zip(draw.sample(names, 3), draw.sample(names, 3), strict=True):
        if name != other:
            into[name].add(other)
    titles = {name: title for name, (title, _) in zip(names, domain.sections, strict=True)}
    links = [
        Transition(
            f"open_{name}", tuple(at for at in (_HOME, *names) if at in into[name]), name, f"Opens {titles[name]}."
        )
        for name in names
    ]
    back = tuple(name for name in names if draw.random() < 0.6) or (names[0],)
    links.append(Transition("back_to_home", (*back, _REVIEW), _HOME, "Goes back to the first page."))
    return links


def _forms(domain: Domain, places: dict[str, str], draw: random.Random) -> list[Transition]:
    """Returns the forms of the sections, each of which stays where it is."""
    forms = []
    (leading, values), *_ = draw.sample(domain.choices, 1)
    dependent = draw.choice([name for name, _ in domain.choices if name != leading])
    needed = draw.choice(values[1:])
    for name, _ in domain.choices:
        needs = (Condition(leading, equals=needed),) if name == dependent else ()
        about = f"Chooses the {_words(name)}."
        if needs:
            about += f" It can be chosen while {_words(leading)} is “{needed}”, and stays if that changes later."
        place = places[name]
        forms.append(Transition(f"choose_{name}", (place,), place, about, "choose", asks=(name,), needs=needs))
    counted, place = domain.counted, places[domain.counted]
    for verb, amount in (("add", 1), ("remove", -1)):
        about = f"{'One more' if amount > 0 else 'One less'} of the {_words(counted)}."
        name = f"{verb}_{counted}"
        forms.append(Transition(name, (place,), place, about, "count", adds={counted: amount}))
    used = f"{domain.code}_used"
    place, about = places[used], f"Redeems the {_words(domain.code)} that is written on another page."
    name = f"redeem_{domain.code}"
    forms.append(Transition(name, (place,), place, about, "look_up", sets={used: "yes"}, code=domain.code))
    return forms


def _ends(domain: Domain, draw: random.Random) -> list[Transition]:
    """Returns the way to the last screen, which cannot be taken back; some sites can be begun anew."""
    names = [title.lower().replace(" ", "_") for title, _ in domain.sections]
    into_review = tuple(draw.sample(names, 2))
    needs = [Condition(domain.counted, least=1)]
    if draw.random() < 0.5:
        needs.append(Condition(f"{domain.code}_used", equals="yes"))
    about = f"Sends it for good. The {_words(domain.number)} that is written on another page is needed."
    ends = [
        Transition("go_to_review", into_review, _REVIEW, "Shows everything before it is sent."),
        Transition("send", (_REVIEW,), _END, about, "finish", needs=tuple(needs), code=domain.number),
    ]
    if draw.random() < 0.5:
        first = {variable.name: variable.first for variable in _variables(domain)}
        ends.append(Transition("begin_anew", (_END,), _HOME, "Begins anew, with nothing chosen.", sets=first))
    return ends


def _words(name: str) -> str:
    return name.replace("_", " ")
