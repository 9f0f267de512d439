"""Which option of an agent is worth changing? Each one's values alone, against the present configuration.

One change at a time, on the tasks of the search, paired by task: a component's potential is the best gain that one of
its values brings, its weight the worst loss. The ranking is compared between two halves of the tasks, because a ranking
that does not hold on other tasks is luck. Nothing is decided here, and no holdout is spent.

After the question of Shor (catalogued from its abstract), which ranks components of a harness by how far an update
helps or hinders; the measure is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import msgspec

from assay.learning.trainer.rollouts import count_outcomes
from assay.records import digest_record
from assay.settings import Settings
from assay.statistics import Interval, RankAgreement, difference_interval, rank_agreement

from .evolve import Report, measure_options
from .recipe import EvolveRecipe


class ValueEffect(msgspec.Struct, frozen=True):
    """One value of one option in place of the present one."""

    value: Any
    run: str
    gain: float
    """Mean over tasks of the pass rate with it less the present one."""
    interval: Interval | None
    """95%, over tasks; None without one."""


class ComponentEffect(msgspec.Struct, frozen=True):
    """One option, with the effects of its values, the best first."""

    option: str
    values: tuple[ValueEffect, ...]

    @property
    def potential(self) -> float:
        """Returns the largest gain; 0 if every value is worse than the present one."""
        return max(0.0, self.values[0].gain)


class ComponentReport(msgspec.Struct, frozen=True):
    """The ranking."""

    base: dict[str, Any]
    base_run: str
    base_rate: float
    components: tuple[ComponentEffect, ...]
    """The most worth changing first."""
    agreement: RankAgreement
    """Rank correlation of all configurations between two halves of the tasks; without a value for fewer than three, or
    where one half does not tell them apart."""


async def rank_components(recipe: EvolveRecipe, settings: Settings, report: Report = lambda _: None) -> ComponentReport:
    """Measures each value of the space alone, and ranks the options. Raises as `evolve`."""
    changes = list[tuple[str, Any]]()

    def configurations(resolved: EvolveRecipe) -> list[dict[str, Any]]:
        present = digest_record(resolved.base)
        changes.extend(
            (option, value)
            for option, values in resolved.space.items()
            for value in values
            if digest_record({**resolved.base, option: value}) != present
        )
        return [resolved.base, *({**resolved.base, option: value} for option, value in changes)]

    made = await measure_options(recipe, settings, report, configurations)
    rates = [
        {one.task: one.passed / recipe.search.attempts for one in count_outcomes(settings, run.run)} for run in made
    ]
    base, *others = rates
    effects: dict[str, list[ValueEffect]] = {}
    for (option, value), run, own in zip(changes, made[1:], others, strict=True):
        gains = [own.get(task, 0.0) - rate for task, rate in base.items()]
        effect = ValueEffect(value, run.run, fmean(gains) if gains else 0.0, difference_interval(gains))
        effects.setdefault(option, []).append(effect)
    ranked = [
        ComponentEffect(option, tuple(sorted(values, key=lambda one: -one.gain))) for option, values in effects.items()
    ]
    ranked.sort(key=lambda one: (-one.potential, one.option))
    return ComponentReport(made[0].options, made[0].run, made[0].rate, tuple(ranked), _agreement(rates))


def _agreement(rates: Sequence[Mapping[str, float]]) -> RankAgreement:
    """Returns how far two halves of the tasks, every second one each, order the configurations alike."""
    tasks = sorted(rates[0])
    first, second = (
        {str(number): [own.get(task, 0.0) for task in half] for number, own in enumerate(rates)}
        for half in (tasks[::2], tasks[1::2])
    )
    return rank_agreement(first, second)
