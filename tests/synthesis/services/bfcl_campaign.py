"""The golden figures of BFCL's multi-turn sets, over all of their tasks.

    python -m tests.synthesis.services.bfcl_campaign DATA [--set SET ...]

Of each set: the reference passes all tasks, doing nothing passes none, and neither does the reference less the last
call of any one turn. DATA is the folder of the files; for the set `long_context` it has `long_context.py`, too.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator

import msgspec

from assay.environments.services.plans import PlannedCall, play
from assay.environments.services.world import ServiceWorld
from assay.records import Task, VerdictStatus
from assay.synthesis.services.bfcl import SETS, BfclTasks
from assay.verdicts import worst_outcome
from assay.verify.outcome import WorldRequest, verify_world

END = PlannedCall("end_turn", {"message": "Done."})


def opened(task: Task) -> ServiceWorld:
    return ServiceWorld(task.environment.parameters, task.environment.seed)


def plan_of(task: Task) -> tuple[PlannedCall, ...]:
    return msgspec.convert(task.environment.parameters["plan"], tuple[PlannedCall, ...])


def judge(task: Task, *plan: PlannedCall) -> VerdictStatus:
    facts = play(opened(task), plan).facts()
    results = asyncio.run(verify_world(WorldRequest(task, facts, None)))
    assert all(one.verdict.separation == "no-agent-code" for one in results)
    return worst_outcome(one.verdict.status for one in results)


def shortened(task: Task) -> Iterator[tuple[PlannedCall, ...]]:
    """Yields the reference less the last call of each turn."""
    plan = plan_of(task)
    ends = [at for at, call in enumerate(plan) if call == END]
    for end in (*ends, len(plan)):
        if end and plan[end - 1] != END:
            yield (*plan[: end - 1], *plan[end:])


def measure(name: str, data: str) -> tuple[int, int, int, int, int]:
    """Returns the numbers of tasks and of shortened references, and how many pass of the references, of doing nothing
    and of the shortened references."""
    tasks = list(BfclTasks(data=data, set=name).tasks(1_000, 0))
    less = [judge(task, *plan) for task in tasks for plan in shortened(task)]
    references = [judge(task, *plan_of(task)) for task in tasks]
    nothing = [judge(task) for task in tasks]
    return len(tasks), len(less), references.count("pass"), nothing.count("pass"), less.count("pass")


def main() -> int:
    """Prints the figures, and returns 1 if one is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--set", action="append", choices=SETS)
    options = parser.parse_args()
    is_right = True
    for name in options.set or SETS:
        tasks, less, references, nothing, shortened_passes = measure(name, options.data)
        print(f"{name}: reference {references} of {tasks}, nothing {nothing}, less {shortened_passes} of {less}")  # noqa: T201
        is_right &= references == tasks and nothing == shortened_passes == 0
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
