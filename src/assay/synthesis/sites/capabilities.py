"""Capabilities that a task on pages needs, read from its reference plan, the forms that it fills in, and the theme.

Nothing is read from words: neither the instruction nor names of tools count. Tasks need no field for it, so that
records of earlier runs can be asked, and digests stay as they are. Another way to the same goal may need other
capabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.browser.picture_options import SITE
from assay.environments.browser.site_world import SiteOptions
from assay.environments.services.conversation import conversation
from assay.environments.services.machines.machine import Machine
from assay.environments.services.pages.catalog import PageTool
from assay.environments.services.pages.fields import ABSENT, Field
from assay.environments.services.pages.site import Site
from assay.environments.services.plans import PlannedCall
from assay.environments.services.served_tools import ServedTools
from assay.environments.services.world import ServiceWorld
from assay.environments.worlds.opening import SANDBOX
from assay.environments.wrapping import WRAP
from assay.errors import PluginLoadError
from assay.records import Task
from assay.synthesis.services.days import WAIT
from assay.synthesis.services.planned import PLAN, UnsuitableError
from assay.synthesis.services.required_reads import HELPERS

SITES: Final = "sites"
"""Kind of the environments whose tools are a browser on pages."""
CAPABILITIES: Final[Mapping[str, str]] = {
    "search": "filling in the form of a page that reads, with a value that is not an identifier",
    "pagination": "turning to rows after the first ones of a list",
    "several-records": "opening two or more records of one kind",
    "form": "filling in a form that changes something",
    "choice": "choosing one of a form's options: a list, radio buttons or a checkbox",
    "date": "giving a date or a time",
    "list": "filling in a list, whose entries are added to the form one by one",
    "upload": "choosing a file in a form",
    "dialog": "answering a dialog, which each form that changes something opens",
    "confirmation": "answering a page that asks once more, which follows each such form",
    "look-up": "giving a value that another page shows: a code, or an identifier that the world generated",
    "several-applications": "working in two or more applications",
    "condition": "meeting a demand of a state machine before a step is possible",
    "repetition": "doing one step of a state machine twice or more",
    "waiting": "waiting for days to pass",
    "conversation": "working for a person who is asked and told things by messages",
}
"""Each capability, and the acts that it stands for."""
_CHOOSING: Final = frozenset({"choice", "flag"})
_DATED: Final = frozenset({"date", "time"})
_CONFIRMING: Final = {"dialog": "dialog", "page": "confirmation"}


class _PagePlan(NamedTuple):
    """A plan and the site on which it is carried out."""

    world: ServiceWorld
    site: Site
    calls: tuple[tuple[PageTool, PlannedCall], ...]


def capabilities_of(task: Task) -> tuple[str, ...]:
    """Returns the capabilities that a task on pages needs, in the order of `CAPABILITIES`.

    The world's services are loaded: the caller permits the Python code that a task names.

    Raises:
        UnsuitableError: It is no task on pages with a plan, or its world cannot be opened.
    """
    plan = _open(task)
    try:
        found = {*_by_call(plan), *_by_plan(plan), *_by_machine(task, plan)}
    finally:
        plan.world.database.close()
    return tuple(name for name in CAPABILITIES if name in found)


def _open(task: Task) -> _PagePlan:
    parameters, seed = task.environment.parameters, task.environment.seed
    if task.environment.kind != SITES or not parameters.get(PLAN):
        raise UnsuitableError("it is not a task on pages with a plan")
    own = {name: value for name, value in parameters.items() if name not in (WRAP, SANDBOX, SITE)}
    try:
        options = msgspec.convert(parameters.get(SITE, {}), SiteOptions)
        world = ServiceWorld(own, seed)
    except (ValueError, PluginLoadError) as exc:
        raise UnsuitableError(f"its world cannot be opened: {str(exc)[:200]}") from exc
    site = Site(world, ServedTools(world), seed if options.theme is None else options.theme)
    tools = site.catalog.tools
    return _PagePlan(world, site, tuple((tools[call.action], call) for call in world.plan if call.action in tools))


def _by_call(plan: _PagePlan) -> Iterator[str]:
    """Yields what single calls need."""
    composition = plan.world.composition
    for tool, call in plan.calls:
        if call.action == WAIT:
            yield "waiting"
        given = [field for field in plan.site.fields(tool.name) if call.arguments.get(field.name, ABSENT) is not ABSENT]
        if tool.is_view:
            offset = call.arguments.get("offset")
            if isinstance(offset, int) and offset > 0 and "limit" in tool.properties:
                yield "pagination"
            if any(field.name not in (*tool.takes, "limit", "offset") for field in given):
                yield "search"
        else:
            yield from _by_form(given, call.arguments)
            yield _CONFIRMING.get(plan.site.theme.confirmation, "")
        if any(composition.generated_kind(value) is not None for value in _leaves(call.arguments)):
            yield "look-up"


def _by_form(given: list[Field], arguments: Mapping[str, Any]) -> Iterator[str]:
    """Yields what the fields of a form that changes something need."""
    if given:
        yield "form"
    for field in given:
        for widget in _widgets(field, arguments[field.name]):
            if widget in _CHOOSING:
                yield "choice"
            elif widget in _DATED:
                yield "date"
            elif widget == "list":
                yield "list"
            elif widget == "file":
                yield "upload"


def _widgets(field: Field, value: Any) -> Iterator[str]:
    """Yields the controls in which a value is filled in; none for what the form holds already."""
    if value == field.default and type(value) is type(field.default):
        return
    if field.widget == "list" and isinstance(value, list | tuple) and field.item is not None:
        if value:
            yield field.widget
        for item in value:
            yield from _widgets(field.item, item)
    elif field.widget == "group" and isinstance(value, Mapping):
        for part in field.fields:
            if part.name in value:
                yield from _widgets(part, value[part.name])
    else:
        yield field.widget


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _leaves(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _by_plan(plan: _PagePlan) -> Iterator[str]:
    """Yields what the plan as a whole needs."""
    if len({tool.application for tool, _ in plan.calls} - HELPERS) > 1:
        yield "several-applications"
    if any(service.name == conversation.name for service in plan.world.composition.services):
        yield "conversation"
    opened: dict[str, set[str]] = {}
    for tool, call in plan.calls:
        for name, kind in tool.takes.items() if tool.is_view else ():
            if name in call.arguments:
                opened.setdefault(kind, set()).add(str(call.arguments[name]))
    if any(len(records) > 1 for records in opened.values()):
        yield "several-records"


def _by_machine(task: Task, plan: _PagePlan) -> Iterator[str]:
    """Yields what the steps of state machines need; the world has checked the machines."""
    machines = msgspec.convert(task.environment.parameters.get("machines", ()), tuple[Machine, ...])
    steps = {step.name: step for machine in machines for step in machine.transitions}
    taken: set[bytes] = set()
    for _, call in plan.calls:
        if (step := steps.get(call.action)) is None:
            continue
        if step.code:
            yield "look-up"
        if step.needs:
            yield "condition"
        if step.skill != "follow":
            key = msgspec.json.encode(call, order="sorted")
            if key in taken:
                yield "repetition"
            taken.add(key)
