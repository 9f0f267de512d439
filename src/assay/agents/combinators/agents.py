"""The combinators: `best-of`, `retry`, `verify-then-retry`, `vote`, `tournament` and `cascade`.

Which one pays depends on the judge. `best-of` and `retry` turn luck into success if the judge is right, and into a
larger gap between what the judge says and what is true if it is not: `assay stats --table picks` shows that gap.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from assay.agents.branches import Branch
from assay.records import Message, Task

from .combinator import CascadeOptions, Combinator, PlainOptions, ScreenedOptions, TournamentOptions, Trying
from .routing import OneStepAgent, Router, StepPrefix
from .summaries import TrySummary, add_model_note, summarise_try

T = TypeVar("T")


class BestOfAgent(Combinator):
    """Tries N times from the start and hands in the try with the best score, the earliest of equals; with a second
    judge the best of those that it lets through (`screen`)."""

    kind = "best-of"
    Options = ScreenedOptions

    async def combine(self, trying: Trying) -> None:
        if self.screen is not None:
            await self._pick_screened(trying)
            return
        for number in range(self.tries):
            branch = await trying.open(number)
            judgement = await trying.run(self.agents[0], branch)
            await trying.keep_best(branch, 0.0 if judgement is None else judgement.score)

    async def _pick_screened(self, trying: Trying) -> None:
        """Makes all tries, and picks by both judges. At a limit the best so far by the second one stays adopted."""
        screened: list[tuple[float, Branch]] = []
        for number in range(self.tries):
            branch = await trying.open(number)
            judgement = await trying.run(self.agents[0], branch)
            screened.append((0.0 if judgement is None else judgement.score, branch))
            trying.adopt(max(screened, key=lambda one: one[0])[1])
        found = []
        for score, branch in keep_better_half(screened):
            judgement = await trying.judge(branch)
            found.append((0.0 if judgement is None else judgement.score, score, branch))
        best = max(found, key=lambda one: one[:2])[2]
        trying.adopt(best)
        for _, branch in screened:
            if branch is not best:
                await trying.branches.close(branch)


def keep_better_half(screened: Sequence[tuple[float, T]]) -> list[tuple[float, T]]:
    """Returns the better half of the tries, rounded down and at least three, in their order; the earliest of equals.

    After the hybrid of R2E-Gym, which keeps as many by its execution-free verifier before it compares results of tests.
    """
    most = max(3, len(screened) // 2)
    ranked = sorted(range(len(screened)), key=lambda number: -screened[number][0])[:most]
    return [screened[number] for number in sorted(ranked)]


class RetryAgent(Combinator):
    """Tries up to N times from the start, until the judge takes a try for done; else hands in the best score."""

    kind = "retry"

    async def combine(self, trying: Trying) -> None:
        for number in range(self.tries):
            branch = await trying.open(number)
            judgement = await trying.run(self.agents[0], branch)
            await trying.keep_best(branch, 0.0 if judgement is None else judgement.score)
            if trying.is_accepted(judgement):
                return


class VerifyThenRetryAgent(Combinator):
    """Lets the agent continue in the state that it left, up to N times, with what the judge found missing added to the
    task, until the judge takes it for done or the world is over."""

    kind = "verify-then-retry"

    async def combine(self, trying: Trying) -> None:
        branch = trying.branches.first
        task = branch.attempt.task
        for number in range(self.tries):
            branch.attempt.seed = trying.seed(number)
            judgement = await trying.run(self.agents[0], branch)
            trying.adopt(branch)
            is_over = branch.ending.stopped is not None or _is_world_over(branch)
            if judgement is None or trying.is_accepted(judgement) or is_over:
                break
            branch.attempt.task = _with_advice(task, judgement.feedback)
        branch.attempt.task = task


class VoteAgent(Combinator):
    """Tries N times from the start and hands in a final state that most tries share, the earliest of equals."""

    kind = "vote"
    Options = PlainOptions

    async def combine(self, trying: Trying) -> None:
        tried: list[tuple[Branch, str]] = []
        for number in range(self.tries):
            branch = await trying.open(number)
            await trying.run(self.agents[0], branch)
            tried.append((branch, await _final_state(branch)))
            counts = Counter(state for _, state in tried)
            most = max(counts.values())
            trying.adopt(next(one for one, state in tried if counts[state] == most))


class ComparedGroup(msgspec.Struct, frozen=True):
    """A group of a tournament, in the evidence `pick`."""

    branches: tuple[int, ...]
    votes: tuple[int, ...]
    winner: int


class TournamentAgent(Combinator):
    """Tries N times from the start, summarises each try, compares the summaries in small groups, round after round,
    and hands in the try that is left.

    After the recursive tournament voting of "Scaling Test-Time Compute for Agentic Coding".
    """

    kind = "tournament"
    Options = TournamentOptions
    options: TournamentOptions

    async def combine(self, trying: Trying) -> None:
        made = list[tuple[Branch, TrySummary]]()
        for number in range(self.tries):
            branch = await trying.open(number)
            await trying.run(self.agents[0], branch)
            trying.adopt(made[0][0] if made else branch)
            summary = summarise_try(branch)
            if self.options.summary == "model":
                summary = await add_model_note(branch, summary)
            made.append((branch, summary))
        summaries, rounds, left = [summary for _, summary in made], list[list[ComparedGroup]](), made
        while len(left) > 1:
            rounds.append([])
            groups = [left[start : start + self.options.group] for start in range(0, len(left), self.options.group)]
            left = []
            for group in groups:
                votes = await self._vote(trying, group)
                best = group[votes.index(max(votes))]
                left.append(best)
                numbers = tuple(branch.number for branch, _ in group)
                rounds[-1].append(ComparedGroup(numbers, tuple(votes), best[0].number))
                trying.record_rounds(summaries, rounds)
            trying.adopt(left[0][0])
            winners = {branch.number for branch, _ in left}
            for branch in (branch for group in groups for branch, _ in group):
                if branch.number not in winners:
                    await trying.branches.close(branch)

    async def _vote(self, trying: Trying, group: list[tuple[Branch, TrySummary]]) -> list[int]:
        """Returns the votes of each try of a group. A comparison has the tries in an order of its own, since a model
        may prefer a position; one try is no comparison."""
        votes = [0] * len(group)
        if self.comparer is None or len(group) == 1:
            return votes
        for number in range(self.options.votes):
            order = list(range(len(group)))
            random.Random(f"{trying.seed(0)}/{group[0][0].number}/{len(group)}/{number}").shuffle(order)
            place = await self.comparer.compare(trying.branches, [group[one] for one in order])
            votes[order[place]] += 1
        return votes


class CascadeAgent(Combinator):
    """Lets a cheap agent try, and an expensive one from the start only if the judge does not take that for done; with
    `route` either makes single steps of one try."""

    kind = "cascade"
    agents_inside = 2
    Options = CascadeOptions

    async def combine(self, trying: Trying) -> None:
        if self.router is not None:
            await self._route(trying, self.router)
            return
        for number, agent in enumerate(self.agents):
            branch = await trying.open(number)
            judgement = await trying.run(agent, branch)
            await trying.keep_best(branch, 0.0 if judgement is None else judgement.score)
            if trying.is_accepted(judgement):
                return

    async def _route(self, trying: Trying, router: Router) -> None:
        """Asks the router before every step, until an agent ends the attempt, or returns without an act."""
        branch, routed = trying.branches.first, list[int]()
        trying.adopt(branch)
        while True:
            made = len(branch.steps)
            chosen = int(router(StepPrefix(branch.attempt.task, tuple(branch.steps))))
            agent = OneStepAgent(self.agents[chosen], branch)
            try:
                ending = await trying.branches.run(agent, branch)
            finally:
                routed += [chosen] * (len(branch.steps) - made)
                trying.record_routed(branch, routed)
            if ending.ended is not None or ending.stopped is not None or not agent.has_acted:
                return


def _is_world_over(branch: Branch) -> bool:
    return bool(getattr(branch.attempt.tools, "terminated", False))


async def _final_state(branch: Branch) -> str:
    workspace = branch.attempt.workspace
    digest = await branch.attempt.tools.digest() if workspace is None else await workspace.digest()
    return digest or f"branch {branch.number}"


def _with_advice(task: Task, feedback: str) -> Task:
    """Returns the task with a judge's findings after its instruction."""
    advice = f"An earlier try was not accepted. {feedback}".strip()
    if isinstance(task.instruction, str):
        return msgspec.structs.replace(task, instruction=f"{task.instruction}\n\n{advice}\n")
    return msgspec.structs.replace(task, instruction=(*task.instruction, Message("user", advice)))
