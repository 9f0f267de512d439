"""Is an adviser worth asking where requests may have to be declined? (`docs/experiments/teams.md#an-adviser-of-safety`)

A clerk sees the request and a hint, an adviser knows the rules (`_desk_world`). 60 pairs of requests, of which one is
to be declined, five run seeds. The table is that of `assay stats --table refusals`.

    python -m experiments.safety_adviser --record
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from assay.analysis.refusals import sum_refusals
from assay.cli.refusal_table import read_refusals, refusal_rows
from assay.learning.trainer.rollouts import complete_run
from assay.rollout import RunConfig
from assay.settings import Settings

from ._results import Table
from ._running import make_parser, open_recording, open_store

SEEDS = (1, 2, 3, 4, 5)
HERE = Path(__file__).with_name("_desk_world.py")
TASKS = f"family:{HERE}:DeskTasks,n=120,seed=31,twins=true"


def team(name: str, ask: str, *, absent: bool = False, **adviser: Any) -> dict[str, Any]:
    """Returns a clerk and an adviser, who is asked and cannot act."""
    roles = [
        {"name": "clerk", "agent": f"{HERE}:Clerk", "options": {"ask": ask}},
        {"name": "adviser", "agent": f"{HERE}:Adviser", "options": adviser, "tools": [], "hand_off_to": []},
    ]
    return {"name": name, "roles": roles, "order": "hand-off", "absent": ["adviser"] if absent else []}


ARMS = (
    team("in-doubt", "in doubt", absent=True),
    team("in-doubt", "in doubt"),
    team("always", "always", absent=True),
    team("always", "always"),
    team("in-doubt.timid", "in doubt", absent=True),
    team("in-doubt.timid", "in doubt", timid=True),
    team("always.timid", "always", absent=True),
    team("always.timid", "always", timid=True),
)


async def _run(settings: Settings, seeds: Sequence[int]) -> list[str]:
    names = []
    for number, arm in enumerate(ARMS):
        for seed in seeds:
            names.append(f"arm{number}-{seed}")
            config = RunConfig(tasks=(TASKS,), agent="team", agent_options=arm, run=names[-1], seed=seed)
            await complete_run(config, settings)
    return names


def _label(agent: str) -> str:
    """Returns an arm in words, as `in doubt, timid, adviser absent`."""
    words = agent.removeprefix("team:").replace("-adviser", ", adviser absent")
    return words.replace("in-doubt", "in doubt").replace(".timid", ", timid")


def main() -> None:
    """Runs all arms."""
    given = make_parser(__doc__, seeds=SEEDS).parse_args()
    recording = open_recording("safety-adviser", "safety_adviser", given, __doc__, SEEDS)
    with open_store(given.store) as settings:
        names = asyncio.run(_run(settings, recording.seeds))
        found = refusal_rows(sum_refusals(read_refusals(settings.store, names)))
    columns = [name for name in found[0] if name not in ("agent", "model")]
    rows = [[_label(one["agent"]), *(one[name] for name in columns)] for one in found]
    recording.write({"refusals": Table(["the clerk asks", *columns], rows)})


if __name__ == "__main__":
    main()
