"""Random walks over state machines, as the trees of their sites would show them: recordings without a browser."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping

from assay.environments.browser.page_moves import Move, PageAct
from assay.environments.browser.page_text import PageView, read_view
from assay.environments.services.machines.machine import Machine, Start, State, Transition, Value
from assay.environments.services.machines.search import Node, explore
from assay.environments.services.pages.catalog import humanize
from assay.synthesis.sites.recorded_walks import RecordedWalk


def code_of(machine: Machine, name: str) -> str:
    return f"{name.upper().replace('_', '-')}-{100_000_000 + machine.codes.index(name)}"


def render(machine: Machine, state: State, alert: str = "") -> PageView:
    """Returns the page of a state; with an alert, that of a form which was refused."""
    screen = machine.by_screen[state.screen]
    values = dict(zip(machine.by_variable, state.values, strict=True))
    path = f"/{machine.name}/form" if alert else f"/{machine.name}"
    lines = ['Page: "x"', f'Address: "http://{machine.name}.test{path}"', '[1] link "Skip to content"', "main"]
    lines.append(f"  heading {json.dumps('Form' if alert else screen.title)} level 1")
    if alert:
        return read_view("\n".join([*lines, "  alert", f"    {json.dumps(alert)}"]))
    lines.append(f"  {json.dumps(screen.text)}")
    for name in screen.shows:
        shown = str(values[name]) if name in values else code_of(machine, name)
        lines += [f"  term {json.dumps(humanize(name))}", f"  definition {json.dumps(shown)}"]
    for number, one in enumerate(machine.leaving[state.screen]):
        lines.append(f"  form {json.dumps(humanize(one.name))}")
        for name in one.asks:
            options = " | ".join(["Choose", *(humanize(str(value)) for value in machine.by_variable[name].domain)])
            lines.append(f"    [{10 + number}] combobox {json.dumps(humanize(name))} options={json.dumps(options)}")
        if one.code:
            lines.append(f'    [{10 + number}] textbox "Code" value=""')
        lines.append(f"    [{50 + number}] button {json.dumps(humanize(one.name))}")
    return read_view("\n".join(lines))


Chosen = tuple[Transition, dict[str, Value]]
Policy = Callable[[Node], Chosen | None]
"""Returns the next act at a node; None to stop."""


def _draw_any(machine: Machine, node: Node, draw: random.Random) -> Chosen:
    transition = draw.choice(machine.leaving[node.state.screen])
    return transition, {name: draw.choice(machine.by_variable[name].domain) for name in transition.asks}


def act_at_random(machine: Machine, draw: random.Random) -> Policy:
    """Any act that the screen offers."""
    return lambda node: _draw_any(machine, node, draw)


def act_on_the_least_tried(machine: Machine, draw: random.Random) -> Policy:
    """Of some acts that are drawn, the one that was done least on this screen."""
    done: Counter[tuple[str, str, str]] = Counter()

    def policy(node: Node) -> Chosen:
        drawn = [_draw_any(machine, node, draw) for _ in range(6)]
        keys = [(node.state.screen, one.name, str(given)) for one, given in drawn]
        at = min(range(len(drawn)), key=lambda at: (done[keys[at]], at))
        done[keys[at]] += 1
        return drawn[at]

    return policy


def act_towards_a_goal(machine: Machine, draw: random.Random, noise: float = 0.0) -> Policy:
    """The next step of a shortest way to a goal that is drawn; with noise, a share of the acts is random."""
    reach = explore(machine, Start())
    far = [state for state, distance in reach.states.items() if 5 <= distance <= 14]
    ways = reach.ways_back(draw.choice(far))

    def policy(node: Node) -> Chosen | None:
        if draw.random() < noise:
            return _draw_any(machine, node, draw)
        step = ways.get(node, (0, None))[1]
        return None if step is None else (step.transition, dict(step.given))

    return policy


POLICIES: Mapping[str, Callable[[Machine, random.Random], Policy]] = {
    "random": act_at_random,
    "least tried": act_on_the_least_tried,
    "oracle": act_towards_a_goal,
    "noisy oracle": lambda machine, draw: act_towards_a_goal(machine, draw, 0.3),
}


def draw_walk(machine: Machine, seed: int, acts: int = 30, agent: str = "random") -> RecordedWalk:
    """Returns a walk of an agent from the start, which gives codes that it has seen."""
    draw, state = random.Random(seed), machine.begin()
    policy = POLICIES[agent](machine, draw)
    view, moves = render(machine, state), list[Move]()
    seen = set(machine.codes_on[state.screen])
    for _ in range(acts):
        chosen = policy(Node(state, frozenset(seen))) if machine.leaving[state.screen] else None
        if chosen is None:
            break
        transition, given = chosen
        found = machine.step(state, transition, given)
        is_known = not transition.code or transition.code in seen
        act = PageAct(
            "form", humanize(transition.name), tuple(sorted(_texts(machine, transition, given, is_known=is_known)))
        )
        if isinstance(found, str) or not is_known:
            refusal = render(machine, state, found if isinstance(found, str) else "This is not the right code.")
            back = render(machine, state)
            moves += [Move(view, act, refusal, True), Move(refusal, PageAct("link", "Start"), back, True)]
            view = back
            continue
        state, before, view = found, view, render(machine, found)
        seen |= set(machine.codes_on[state.screen])
        moves.append(Move(before, act, view, True))
    return RecordedWalk(f"{agent}:{seed}", "", tuple(moves), {})


def _texts(
    machine: Machine, transition: Transition, given: dict[str, Value], *, is_known: bool
) -> list[tuple[str, str]]:
    code = code_of(machine, transition.code) if transition.code and is_known else "A-1"
    chosen = [(humanize(name), humanize(str(value))) for name, value in given.items()]
    return chosen + ([("Code", code)] if transition.code else [])
