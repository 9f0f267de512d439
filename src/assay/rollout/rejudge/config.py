"""Configurations of re-verification and replay. Imports no judge: `--help` shows the options."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec

from assay.errors import UserError

Version = Literal["recorded", "today"]


class SandboxOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Sandbox options. What they permit is not taken from the record of a run, which may be somebody else's."""

    backend: str | None = None
    """The sandbox; default: the run's."""
    allow_unsafe: bool = False
    """Allow the `process` backend, which isolates nothing."""
    allow_network: bool = False
    """Allow the network to tasks whose own policy asks for it."""
    accept_whole_network: bool = False
    """With `allow_network`: give tasks that ask for a list of hosts the whole network."""
    allow_task_code: bool = False
    """Allow tasks, recorded ones too, to name Python code as environment or check (`module:Class`, `file.py:Class`). It
    runs in this process, not in a sandbox."""
    base: dict[str, str] = {}
    """Replacement for a Dockerfile's `FROM IMAGE`, in addition to the run's: `IMAGE=scratch`, or a name."""
    pass_env: tuple[str, ...] = ()
    """Names of host variables that templates in tasks may read."""


def sandbox_fields(options: SandboxOptions) -> dict[str, Any]:
    """Returns the sandbox options of a configuration by name, for another one."""
    return {name: getattr(options, name) for name in SandboxOptions.__struct_fields__}


class ReverifyConfig(SandboxOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of a re-verification."""

    again: int = 0
    """Judgements per check of each stored state; 0 judges nothing. Two more rounds distinguish a flaky check from a
    changed one."""
    check_version: Version = "recorded"
    """Version of the checks: `recorded` (the archived copy, or a folder with the same digest) or `today`."""
    tasks: tuple[str, ...] = ()
    """Folders or families of today's tasks; default: where the run found them."""
    attempt: tuple[str, ...] = ()
    """Only this attempt, by name or prefix."""
    concurrency: int = 2
    """Attempts judged at once."""
    force: bool = False
    """Also judge attempts that this user has had judged as often before by the same checks."""
    fresh: bool = False
    """Draw new inputs for checks that judge by calls."""

    def __post_init__(self) -> None:
        """Rejects invalid values before anything starts."""
        if self.again < 0 or self.concurrency < 1:
            raise UserError("again must be 0 or more, and concurrency at least 1")


class ReplayConfig(SandboxOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of a replay."""

    attempts: tuple[str, ...] = ()
    """Attempt names (task@number), or prefixes; the part before a slash may be omitted."""
    run: str | None = None
    """Run of the attempts; default: the newest run that is not a replay."""
    all: bool = False
    """Replay every attempt of the run."""
    times: int = 1
    """Replays of each attempt."""
    no_experiments: bool = False
    """Do not repeat diverging replays under variations to find the cause."""
    from_each_prefix: bool = False
    """Let another agent continue from before each step, and report the decisive step."""
    semi_online: bool = False
    """Let another agent act on the pages of verified attempts in a browser, without the site, and score how far it does
    what they did."""
    patches: Annotated[int, msgspec.Meta(ge=0, le=500)] = 3
    """With --semi-online, the divergences that are repaired by the recorded step; the next one ends the replay."""
    patch_strategy: Literal["thought-free", "off-policy", "on-policy"] = "thought-free"
    """With --semi-online, the thought beside such a step in the history of a model: none, the recorded one, or one that
    the agent's model is asked for."""
    carry: Literal["no", "names", "elements"] = "no"
    """Carry attempts in a browser over to the same tasks under other looks (`--tasks` with another `theme`): the
    element of each act is matched by role and name alone, or also by label, form, texts around it and rank."""
    agent: str = "oracle"
    """With --from-each-prefix, the continuing agent: as in `assay run`, or `attempt:NAME` for the rest of that
    attempt. With --semi-online, the acting one."""
    agent_options: dict[str, Any] = msgspec.field(default_factory=dict)
    """Options of that agent, as `key=value`."""
    model: str | None = None
    """Model of that agent, as in `assay run`."""
    check_version: Version = "recorded"
    """Version of the task: `recorded` (the archived copy, or a folder with the same digest) or `today`."""
    tasks: tuple[str, ...] = ()
    """Folders or families of today's tasks; default: where the run found them."""
    concurrency: int = 2
    """Replays under way at once."""

    def __post_init__(self) -> None:
        """Rejects invalid values before anything starts."""
        if self.times < 1 or self.concurrency < 1:
            raise UserError("times and concurrency must be at least 1")
        if self.semi_online and self.from_each_prefix:
            raise UserError("semi_online and from_each_prefix are two kinds of replay: give one of them")
        if self.carry != "no" and (self.semi_online or self.from_each_prefix):
            raise UserError("carry is a replay of whole attempts: leave out semi_online and from_each_prefix")


class MarginalsConfig(SandboxOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of the marginal contributions of a team's actors."""

    attempts: tuple[str, ...] = ()
    """Attempt names (task@number), or prefixes; default: all attempts of the run."""
    run: str | None = None
    """Run of the attempts; default: the newest run that holds no continuations of this command."""
    units: Literal["acts", "actors"] = "acts"
    """`acts`: each act of an actor against passing its turn, on forks of the state in which it acted. `actors`: each
    actor against a team without it, from the start."""
    forks: Annotated[int, msgspec.Meta(ge=2, le=10_000)] = 32
    """Continuations of each side; both sides use the same seeds."""
    actors: tuple[str, ...] = ()
    """Only these actors; default: all."""
    model: str | None = None
    """Model of the continuing actors, as in `assay run`, if they ask one."""
    check_version: Version = "recorded"
    """Version of the task: `recorded` (the archived copy, or a folder with the same digest) or `today`."""
    tasks: tuple[str, ...] = ()
    """Folders or families of today's tasks; default: where the run found them."""
    concurrency: Annotated[int, msgspec.Meta(ge=1)] = 2
    """Continuations under way at once."""


class TiersConfig(SandboxOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of labels of steps: the cheapest of several agents that finishes the task from there."""

    attempts: tuple[str, ...] = ()
    """Attempt names (task@number), or prefixes; default: all attempts of the run."""
    run: str | None = None
    """Run of the attempts; default: the newest run that holds no tries of this command."""
    tiers: dict[str, str]
    """A tier, as `NAME=AGENT`; at least two. Their order is that of their costs."""
    costs: dict[str, float]
    """Cost of one step by a tier, as `NAME=NUMBER`, in any unit; no two are equal."""
    tier_models: dict[str, str] = {}
    """Model of a tier, as `NAME=MODEL`, if its agent asks one."""
    agent_options: dict[str, Any] = msgspec.field(default_factory=dict)
    """Option of a tier's agent, as `NAME.OPTION=VALUE`."""
    forks: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 4
    """Tries of a tier at a step; all tiers use the same seeds."""
    need: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    """Share of its tries that must pass for a tier to suffice."""
    every: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Label every so many steps of an attempt, from the first on."""
    check_version: Version = "recorded"
    """Version of the task: `recorded` (the archived copy, or a folder with the same digest) or `today`."""
    tasks: tuple[str, ...] = ()
    """Folders or families of today's tasks; default: where the run found them."""
    concurrency: Annotated[int, msgspec.Meta(ge=1)] = 2
    """Tries under way at once."""

    def __post_init__(self) -> None:
        """Rejects invalid values before anything starts."""
        costs = list(self.costs.values())
        if len(self.tiers) < 2 or self.tiers.keys() != self.costs.keys():
            raise UserError("name at least two tiers, each with its cost: --tier NAME=AGENT --cost NAME=NUMBER")
        if len(set(costs)) < len(costs) or not all(0 < cost < math.inf for cost in costs):
            raise UserError("the costs of tiers must be above 0 and differ: their order is that of the costs")
        named = {*self.tier_models, *(name.partition(".")[0] for name in self.agent_options)}
        unknown = sorted(named - self.tiers.keys())
        if unknown:
            raise UserError(f"no tier is called {unknown[0]!r}; there are {', '.join(self.tiers)}")
        bare = next((name for name in self.agent_options if not name.partition(".")[2]), None)
        if bare is not None:
            raise UserError(
                f"{bare!r} names a tier without an option: write --agent-option {bare}.OPTION=VALUE, in a file "
                f'"{bare}.OPTION" = VALUE below [agent_options]'
            )

    @property
    def ordered(self) -> dict[str, float]:
        """Returns the costs by tier, from the cheapest."""
        return dict(sorted(self.costs.items(), key=lambda one: one[1]))

    def options_of(self, tier: str) -> dict[str, Any]:
        """Returns the options of a tier's agent."""
        pairs = ((name.partition("."), value) for name, value in self.agent_options.items())
        return {option: value for (name, _, option), value in pairs if name == tier}
