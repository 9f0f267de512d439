"""Random walks over state machines, as the trees of their sites would show them: recordings without a browser."""

from __future__ import annotations

import json
import random

from assay.environments.browser.page_moves import Move, PageAct
from assay.environments.browser.page_text import PageView, read_view
from assay.environments.services.machines.machine import Machine, State, Transition, Value
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


def draw_walk(machine: Machine, seed: int, acts: int = 30) -> RecordedWalk:
    """Returns a random walk from the start, which gives codes that it has seen."""
    draw, state = random.Random(seed), machine.begin()
    view, moves = render(machine, state), list[Move]()
    seen = set(machine.codes_on[state.screen])
    for _ in range(acts):
        offered = machine.leaving[state.screen]
        if not offered:
            break
        transition = draw.choice(offered)
        given = {name: draw.choice(machine.by_variable[name].domain) for name in transition.asks}
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
    return RecordedWalk(f"drawn:{seed}", "", tuple(moves), {})


def _texts(
    machine: Machine, transition: Transition, given: dict[str, Value], *, is_known: bool
) -> list[tuple[str, str]]:
    code = code_of(machine, transition.code) if transition.code and is_known else "A-1"
    chosen = [(humanize(name), humanize(str(value))) for name, value in given.items()]
    return chosen + ([("Code", code)] if transition.code else [])
