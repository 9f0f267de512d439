"""Builds the agent of a run from a name, a class, an object or a function."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from assay.errors import AgentDefinitionError, MissingModelError
from assay.plugins import call, construct, load, names

from ._options import require_fitting_texts
from .branches import uses_branches
from .combinators.combinator import Combinator, split_options, split_spelling
from .functions import FunctionAgent
from .interface import Agent
from .teams.agent import TeamAgent
from .teams.spec import read_team

AgentSource = str | type | Agent | Callable[..., Any]
"""Name as `assay run --agent` takes it, class, object with `run`, or function of the attempt."""


def build_agent(
    source: AgentSource,
    options: Mapping[str, Any] | None = None,
    *,
    model: str | None = None,
    default_name: str | None = None,
) -> Agent:
    """Returns the agent that acts in a run.

    Args:
        source: The agent, in any form.
        options: Keyword options of a class.
        model: Name of the run's model; None if it has none.
        default_name: Name of a function or a command that was given none; None: made from what it is.

    Raises:
        AgentDefinitionError: The source is not an agent; the message names what it lacks.
        MissingModelError: The agent asks a model, and the run names none.
        UserError: The agent rejects its options.
        PluginLoadError: Nothing has that name, or it does not import.
    """
    shown = repr(source) if isinstance(source, str) else describe_agent(source)
    combined = _build_compound(source, dict(options or {}), model) if isinstance(source, str) else None
    if combined is not None:
        target: Any = combined
        options = None
    else:
        target = load("agents", source) if isinstance(source, str) else source
    if isinstance(target, type):
        target = _construct(target, dict(options or {}), shown)
    elif options:
        given = ", ".join(sorted(options))
        raise AgentDefinitionError(f"agent {shown} takes no options ({given}): only a class is built with options")
    if isinstance(target, ModuleType):
        raise AgentDefinitionError(f"module {target.__name__} cannot be an agent: give a class or function of it")
    agent: Any = target if hasattr(target, "run") else FunctionAgent(target)
    if isinstance(agent, FunctionAgent) and agent.model_is_optional:
        agent = agent.with_model(needed=model is not None)
    _require_agent(agent, shown)
    if agent.needs_model and model is None:
        raise MissingModelError(
            f"agent {shown} asks a model: add --model, or model= in Python (for example openai:NAME, or scripted:FILE)"
        )
    if default_name is not None and has_default_name(agent):
        agent = agent.with_name(default_name)
    built: Agent = agent
    return built


def _build_compound(spelling: str, options: dict[str, Any], model: str | None) -> Agent | None:
    """Returns the agent of a combinator's spelling, `KIND:N:AGENT`, or a team; None for any other name."""
    head, _, rest = spelling.partition(":")
    if head not in names("agents"):
        return None
    kind = load("agents", head)
    if kind is TeamAgent and not rest:
        return _build_team(options, model)
    if not (isinstance(kind, type) and issubclass(kind, Combinator)):
        return None
    tries, inside = split_spelling(kind, rest)
    own, *others = split_options(kind, options, len(inside))
    agents = [build_agent(one, more, model=model) for one, more in zip(inside, others, strict=True)]
    if any(uses_branches(agent) for agent in agents):
        raise AgentDefinitionError(
            f"agent {spelling!r}: a combinator cannot be inside another, since one alone opens branches"
        )
    return kind(agents, tries, **own)


def _build_team(options: dict[str, Any], model: str | None) -> Agent:
    """Returns the team of the options, with the agent of each role. Raises as `build_agent`, naming the role."""
    team = read_team(options)
    agents: dict[str, Agent] = {}
    for role in team.roles:
        try:
            agents[role.name] = build_agent(role.agent, role.options, model=model)
        except MissingModelError as exc:
            raise MissingModelError(f"role {role.name!r}: {exc}") from exc
    return TeamAgent(team, agents)


def has_default_name(agent: Agent) -> bool:
    """Returns whether a function or a command was given no name, so that its name is made from what it is."""
    return not getattr(agent, "is_named", True)


def describe_agent(source: AgentSource) -> str:
    """Returns the name of an agent for messages and manifests: as given, or `module:name`."""
    if isinstance(source, str):
        return source
    function = source.function if isinstance(source, FunctionAgent) else source
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{getattr(named, '__qualname__', named)}"


def is_importable(kind: type) -> bool:
    """Returns whether `module:Class` finds a class again, in another process too."""
    module = sys.modules.get(kind.__module__)
    return kind.__module__ != "__main__" and getattr(module, kind.__qualname__, None) is kind


def _construct(kind: type, options: dict[str, Any], shown: str) -> Any:
    require_fitting_texts(shown, kind, options)
    agent = construct(f"agent {shown}", kind, options)
    if not callable(getattr(agent, "run", None)):
        raise AgentDefinitionError(f"class {shown} has no method run(self, attempt): an agent acts there")
    return agent


def _require_agent(agent: Any, shown: str) -> None:
    """Raises `AgentDefinitionError` where an attribute of an agent is missing or of the wrong type."""
    name = call(f"reading the name of agent {shown}", getattr, agent, "name", None)
    needs_model = call(f"reading `needs_model` of agent {shown}", getattr, agent, "needs_model", None)
    if not isinstance(name, str) or not name:
        raise AgentDefinitionError(f'agent {shown} has no `name`: add name = "..." to it, or decorate it: @assay.agent')
    if not isinstance(needs_model, bool):
        raise AgentDefinitionError(
            f"agent {shown} has no `needs_model`: add needs_model = False (or True, if it asks a model), or decorate "
            "it: @assay.agent"
        )
    if not inspect.iscoroutinefunction(agent.run):
        raise AgentDefinitionError(f"the method `run` of agent {shown} is not asynchronous: write `async def run`")
