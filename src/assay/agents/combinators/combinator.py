"""Common parts of combinators: their spelling, the needs of the agents inside, and the record of what was picked.

`KIND:N:AGENT` names a combinator of N tries by one agent, `cascade:CHEAP,EXPENSIVE` one of two agents; an agent inside
may be a combinator's spelling, but only the outermost one opens branches. Options that a combinator does not have are
those of the agents inside; in a cascade `1.NAME` and `2.NAME` address one of the two.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from assay.agents._options import read_options
from assay.agents.branches import Branch, Branches
from assay.agents.interface import Agent, Attempt, Needs, attempts_task, is_placed, takes_advice, takes_solution
from assay.environments.interface import Mount
from assay.errors import AgentError, OptionError
from assay.records import Evidence

from .judges import Judge, TryScore, read_judge
from .routing import Router, read_router
from .summaries import Comparer, TrySummary, read_comparer

PICK = "pick"
"""Kind of the evidence about what a combinator tried and picked."""
MOST_TRIES = 1_000


class JudgedOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a combinator with a judge."""

    judge: str = ""
    """Judge of a finished try: `verdict` (the task's own verifier: an upper bound), `model`, `command:...` (in a fork
    of the sandbox; done if it exits with 0), or `path/to/file.py:function` of a `FinishedTry`. Required."""
    accept: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    """Least score at which a try counts as done."""


class CascadeOptions(JudgedOptions, frozen=True, forbid_unknown_fields=True):
    """Options of a cascade."""

    route: str = ""
    """Instead of `judge`: who makes the next step, decided after each. `after-error`: the expensive agent where a call
    of the last step failed, else the cheap one. `path/to/file.py:function` of a `StepPrefix` returns True for the
    expensive one. Both act in one and the same state."""


class ScreenedOptions(JudgedOptions, frozen=True, forbid_unknown_fields=True):
    """Options of a combinator that may ask two judges."""

    screen: str = ""
    """Second judge, which is asked first, spelled as `judge`: of all tries the better half by its score, at least
    three, go to `judge`, and ties there go to its score. Without one all go to `judge`, and ties to the earliest."""


class TournamentOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of a tournament."""

    judge: str = ""
    """Judge that names the best of a group: `model` (by the summaries), `path/to/file.py:function` of a list of
    `TrySummary` that returns the position of the best, `command:...` (in a fork of each try's sandbox), or `verdict`
    (the task's own verifier: an upper bound). Required."""
    group: Annotated[int, msgspec.Meta(ge=2, le=10)] = 2
    """Most tries that are compared at once."""
    votes: Annotated[int, msgspec.Meta(ge=1, le=99)] = 1
    """Comparisons of each group, in another order each time; the most votes win, then the earlier try."""
    summary: Literal["rule", "model"] = "rule"
    """`rule`: summaries are made from the record alone; `model`: the run's model adds its own of each try."""


class PlainOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A combinator without options of its own."""


class Try(msgspec.Struct, frozen=True, omit_defaults=True):
    """One try, in the evidence `pick`."""

    branch: int
    agent: str
    score: float | None
    """The judge's; None if it was not judged."""
    steps: int
    ended: str | None
    stopped: str | None
    screened: float | None = None
    """The second judge's score; None without one."""


class Combinator:
    """Base of combinators.

    Args:
        agents: The agents inside.
        tries: Number of tries.
        options: The combinator's own options.
    """

    name: str
    kind: ClassVar[str]
    Options: ClassVar[type[msgspec.Struct]] = JudgedOptions
    agents_inside: ClassVar[int] = 1
    """2: spelled `KIND:FIRST,SECOND`, without a number."""
    uses_branches = True

    def __init__(self, agents: Sequence[Agent], tries: int, **options: Any) -> None:
        inside = ",".join(agent.name for agent in agents)
        self.name = f"{self.kind}:{inside}" if self.agents_inside > 1 else f"{self.kind}:{tries}:{inside}"
        self.agents = tuple(agents)
        self.options = own = read_options(self.Options, options, self.kind)
        judged = own if isinstance(own, JudgedOptions) else None
        route = own.route if isinstance(own, CascadeOptions) else ""
        if route and judged is not None and judged.judge:
            raise OptionError(f"agent {self.kind}: route and judge are two ways to choose: give one of them")
        self.router: Router | None = read_router(route, agents, self.kind) if route else None
        self.tries = 1 if route else tries
        self.judge: Judge | None = read_judge(judged.judge, self.kind) if judged is not None and not route else None
        self.accept = 1.0 if judged is None else judged.accept
        screen = own.screen if isinstance(own, ScreenedOptions) else ""
        self.screen: Judge | None = read_judge(screen, self.kind) if screen else None
        compared = own.judge if isinstance(own, TournamentOptions) else None
        self.comparer: Comparer | None = None if compared is None else read_comparer(compared, self.kind)
        judges = [judge for judge in (self.judge, self.screen, self.comparer) if judge is not None]
        self.upper_bound = any(judge.is_privileged for judge in judges)
        self.needs_model = any(a.needs_model for a in agents) or any(judge.needs_model for judge in judges)
        self.needs_model |= isinstance(own, TournamentOptions) and own.summary == "model"
        self.takes_solution = any(map(takes_solution, agents))
        self.attempts_task = all(map(attempts_task, agents))
        self.takes_advice = any(map(takes_advice, agents))
        placed = [agent for agent in agents if is_placed(agent)]
        self.mounts: tuple[Mount, ...] = tuple(dict.fromkeys(mount for agent in placed for mount in agent.mounts))
        self.needs = _join_needs([agent.needs for agent in placed])

    async def run(self, attempt: Attempt) -> None:
        """Tries, judges and adopts; what was tried is recorded even where a limit ends it."""
        if attempt.branches is None:
            raise AgentError(f"{self.name} opens branches of an attempt, and this one has none: use it by itself")
        trying = Trying(self, attempt, attempt.branches)
        try:
            await self.combine(trying)
        finally:
            trying.record()

    async def combine(self, trying: Trying) -> None:
        """Makes the tries of one attempt and adopts one."""
        raise NotImplementedError


class Trying:
    """The tries of one attempt under way."""

    def __init__(self, combinator: Combinator, attempt: Attempt, branches: Branches) -> None:
        self.branches = branches
        self.best: Branch | None = None
        """The adopted branch."""
        self._combinator, self._attempt = combinator, attempt
        self._tries: list[Try] = []
        self._picked: int | None = None
        self._best_score = -1.0
        self._details: dict[str, Any] = {}

    def seed(self, number: int) -> int:
        """Returns the seed of a try; that of the first is the attempt's, so that one try is the plain agent."""
        return self._attempt.seed if number == 0 else random.Random(f"{self._attempt.seed}/{number}").getrandbits(63)

    async def open(self, number: int) -> Branch:
        """Opens the branch of a try."""
        return self.branches.first if number == 0 else await self.branches.start(seed=self.seed(number))

    async def run(self, agent: Agent, branch: Branch) -> TryScore | None:
        """Lets an agent act in a branch and returns the answer of the judge, or of the one that is asked first; None
        without a judge."""
        steps = len(branch.steps)
        ending = await self.branches.run(agent, branch)
        made = Try(branch.number, agent.name, None, len(branch.steps) - steps, ending.ended, ending.stopped)
        self._tries.append(made)
        screen = self._combinator.screen
        if screen is not None:
            judgement = await screen.judge(self.branches, branch)
            self._tries[-1] = msgspec.structs.replace(made, screened=judgement.score)
            return judgement
        return await self.judge(branch)

    async def judge(self, branch: Branch) -> TryScore | None:
        """Returns the judge's answer for a try; None without a judge."""
        judge = self._combinator.judge
        if judge is None:
            return None
        judgement = await judge.judge(self.branches, branch)
        place = next(n for n, one in reversed([*enumerate(self._tries)]) if one.branch == branch.number)
        self._tries[place] = msgspec.structs.replace(self._tries[place], score=judgement.score)
        return judgement

    def is_accepted(self, judgement: TryScore | None) -> bool:
        """Returns whether the judge takes a try for done."""
        return judgement is not None and judgement.score >= self._combinator.accept

    async def keep_best(self, branch: Branch, score: float) -> None:
        """Adopts a branch if its score is above that of the adopted one, and closes the other."""
        if score <= self._best_score:
            await self.branches.close(branch)
            return
        before, self.best, self._best_score = self.best, branch, score
        self.adopt(branch)
        if before is not None and before is not branch:
            await self.branches.close(before)

    def adopt(self, branch: Branch) -> None:
        """Makes a branch's state the attempt's result."""
        self.branches.adopt(branch)
        self._picked = branch.number

    def record_routed(self, branch: Branch, routed: Sequence[int]) -> None:
        """Sets the record of an attempt that was routed by step: the number of the agent that made each."""
        ending = branch.ending
        self._tries = [Try(branch.number, self._combinator.name, None, len(routed), ending.ended, ending.stopped)]
        self._details = {"agents": [agent.name for agent in self._combinator.agents], "routed": list(routed)}

    def record_rounds(self, summaries: Sequence[TrySummary], rounds: Sequence[Any]) -> None:
        """Adds the summaries and the groups that were compared until now to the record of the pick."""
        self._details = {"summaries": msgspec.to_builtins(summaries), "rounds": msgspec.to_builtins(rounds)}

    def record(self) -> None:
        """Records the tries and the pick."""
        judge, screen = self._combinator.judge or self._combinator.comparer, self._combinator.screen
        data = {
            "by": self._combinator.kind,
            "judge": None if judge is None else judge.name,
            "privileged": self._combinator.upper_bound,
            "accept": self._combinator.accept,
            **({} if screen is None else {"screen": screen.name}),
            "tries": msgspec.to_builtins(self._tries),
            **self._details,
            "picked": self._picked,
        }
        self._attempt.note(Evidence(PICK, "audit", PICK, data))


def split_spelling(kind: type[Combinator], rest: str) -> tuple[int, tuple[str, ...]]:
    """Returns the number of tries and the agents of what follows `KIND:` in a spelling. Raises `OptionError`."""
    if kind.agents_inside > 1:
        parts = tuple(part.strip() for part in rest.split(",", kind.agents_inside - 1))
        if len(parts) < kind.agents_inside or not all(parts):
            raise OptionError(f"agent {kind.kind}:{rest}: write {kind.kind}:CHEAP,EXPENSIVE, two agents")
        return len(parts), parts
    number, _, agent = rest.partition(":")
    if not (number.isascii() and number.isdigit() and 1 <= int(number) <= MOST_TRIES and agent):
        raise OptionError(
            f"agent {kind.kind}:{rest}: write {kind.kind}:N:AGENT, with N tries from 1 to {MOST_TRIES}, for example "
            f"{kind.kind}:4:loop"
        )
    return int(number), (agent,)


def split_options(kind: type[Combinator], options: dict[str, Any], agents: int) -> list[dict[str, Any]]:
    """Returns the combinator's own options, and those of each agent inside."""
    own = set(kind.Options.__struct_fields__)
    found: list[dict[str, Any]] = [{} for _ in range(agents + 1)]
    for name, value in options.items():
        place, _, rest = name.partition(".")
        if name in own:
            found[0][name] = value
        elif agents > 1 and place.isdigit() and 1 <= int(place) <= agents and rest:
            found[int(place)][rest] = value
        else:
            for inside in found[1:]:
                inside.setdefault(name, value)
    return found


def _join_needs(needs: Sequence[Needs]) -> Needs:
    if not needs:
        return Needs()
    largest = {name: max(getattr(one, name) for one in needs) for name in Needs.__struct_fields__ if name != "tmpfs"}
    return Needs(**largest, tmpfs=tuple(dict.fromkeys(folder for one in needs for folder in one.tmpfs)))
