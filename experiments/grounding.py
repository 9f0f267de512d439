"""Have passing attempts a higher grounding index than failing ones? (`docs/experiments/skills.md#grounding`)

The index is that of `assay skills grounding`, in imported runs of three releases; the data folder holds parts of them.
The area is the chance that a passing attempt has a higher mean index than a failing one. Nothing is drawn.

    python -m experiments.grounding DATA --record
"""

from __future__ import annotations

from pathlib import Path

from assay.learning.skills.grounding_report import report_grounding
from assay.rollout.exchange.config import ImportConfig
from assay.rollout.exchange.importing import import_paths

from ._results import Table
from ._running import make_parser, open_recording, open_store

RELEASES = {
    "spark-skills": "SPARK release (part)",
    "agentlens-bench": "AgentLens-Bench (part)",
    "tau-bench": "tau-bench, airline, gpt-4o",
}


def main() -> None:
    """Imports the releases and measures the areas."""
    parser = make_parser(__doc__)
    parser.add_argument("data", type=Path, help="folder of the releases")
    given = parser.parse_args()
    recording = open_recording("grounding", "grounding DATA", given, __doc__, [0])
    rows = []
    with open_store(given.store) as settings:
        for folder, release in RELEASES.items():
            imported = import_paths(ImportConfig(paths=(str(given.data / folder),), run=folder), settings)
            found = report_grounding([imported.run], settings)
            area = "-" if found.area is None else f"{found.area:.2f}"
            rows.append([release, f"{found.passing}, {found.failing}", area])
    recording.write({"areas": Table(["runs", "passing, failing (three acts or more)", "area"], rows)})


if __name__ == "__main__":
    main()
