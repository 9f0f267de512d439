"""Input of the tables of `assay stats`: each part is read from the runs when a table first asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from assay.records import Separation
from assay.statistics import count_by_task
from assay.store import RunStore

from .output import say

if TYPE_CHECKING:
    from assay.analysis.columns import AttemptMeasures
    from assay.analysis.refusals import RefusalAttempt
    from assay.api.service_measures import ProcessMeasures
    from assay.statistics import TaskCount

    from .capability_table import Needed
    from .context_table import ContextCut
    from .evidence_table import EvidenceAttempt
    from .pick_table import Pick
    from .route_table import RouteLoss
    from .semi_online_tables import ReplayedAttempt
    from .service_tables import ServedAttempt
    from .task_economy import Economy
    from .team_tables import TeamAttempt


@dataclass(frozen=True)
class TableInput:
    """Runs, and what their tables read from them."""

    root: Path
    runs: tuple[str, ...]
    attempts: list[AttemptMeasures]
    k: int
    require: Separation
    message_cost: float = 0.0
    """Cost of a message in the utility of an interview."""
    allow_task_code: bool = False

    @property
    def counts(self) -> tuple[TaskCount, ...]:
        """Counts by agent, model and task."""
        return count_by_task(one.outcome for one in self.attempts)

    @cached_property
    def options(self) -> tuple[str, ...]:
        """Agent options of each run, as text; `-` for missing ones."""
        found = []
        for run in self.runs:
            with RunStore.open(self.root, run) as store:
                config = store.manifest().get("config")
            options = config.get("agent_options") if isinstance(config, dict) else None
            pairs = options.items() if isinstance(options, dict) else ()
            found.append(", ".join(f"{key}={value}" for key, value in sorted(pairs)) or "-")
        return tuple(found)

    @cached_property
    def routes(self) -> tuple[RouteLoss, ...]:
        """Findings of the check `route`, one for each attempt."""
        from .route_table import read_routes

        return read_routes(self.root, self.runs)

    @cached_property
    def picks(self) -> tuple[Pick, ...]:
        """Picks of combinators with a judge, one for each judged attempt."""
        from .pick_table import read_picks

        return read_picks(self.root, self.runs, self.require)

    @cached_property
    def served(self) -> tuple[ServedAttempt, ...]:
        """Attempts at tasks of services, compared with their plans."""
        from .service_tables import read_served

        return read_served(
            self.root, self.runs, lambda text: say(f"warning: {text}"), allow_task_code=self.allow_task_code
        )

    @cached_property
    def needed(self) -> Needed:
        """Capabilities that tasks on pages need."""
        from .capability_table import read_needed

        return read_needed(
            self.root, self.runs, lambda text: say(f"warning: {text}"), allow_task_code=self.allow_task_code
        )

    @cached_property
    def processes(self) -> tuple[ProcessMeasures, ...]:
        """Conversations and tool use of attempts on services."""
        from assay.api.service_measures import read_process_measures

        return read_process_measures(self.root, self.runs, allow_task_code=self.allow_task_code)

    @cached_property
    def economies(self) -> tuple[Economy, ...]:
        """Findings of the check `economy`, one for each attempt."""
        from .task_economy import read_economies

        return read_economies(self.root, self.runs)

    @cached_property
    def teams(self) -> tuple[TeamAttempt, ...]:
        """Attempts of teams, with each actor's part."""
        from .team_tables import read_team_attempts

        return read_team_attempts(self.root, self.runs)

    @cached_property
    def evidence(self) -> tuple[EvidenceAttempt, ...]:
        """Evidence graphs of attempts at tasks that need facts."""
        from .evidence_table import read_evidence_graphs

        return read_evidence_graphs(
            self.root, self.runs, lambda text: say(f"warning: {text}"), allow_task_code=self.allow_task_code
        )

    @cached_property
    def cuts(self) -> tuple[ContextCut, ...]:
        """Outputs that attempts dropped from their contexts."""
        from .context_table import read_context_cuts

        return read_context_cuts(self.root, self.runs)

    @cached_property
    def replays(self) -> tuple[ReplayedAttempt, ...]:
        """Semi-online replays."""
        from .semi_online_tables import read_replayed

        return read_replayed(self.root, self.runs, self.options)

    @cached_property
    def refusals(self) -> tuple[RefusalAttempt, ...]:
        """Judged attempts, with what must be declined and what was."""
        from .refusal_table import read_refusals

        return read_refusals(self.root, self.runs)
