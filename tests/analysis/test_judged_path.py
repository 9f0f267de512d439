"""The judged part of attempts with branches, also of records whose branches do not hold together."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from assay.analysis.judged_path import judged_path
from assay.records import Evidence, ModelCall, Step, Trajectory
from tests.analysis.trajectories import trajectory

pytestmark = pytest.mark.quick


def branched(branches: list[dict[str, Any]], adopted: dict[str, Any], steps: int = 6) -> Trajectory:
    evidence = [Evidence(f"e{n}", "audit", "branch", data) for n, data in enumerate(branches)]
    made = [Step(n, "agent", f"step {n}", call=f"c{n}") for n in range(steps)]
    calls = [
        ModelCall(f"c{n}", "openai-chat", "m", {}, {}, parent=f"c{n - 1}" if n == 1 else None) for n in range(steps)
    ]
    return msgspec.structs.replace(
        trajectory([]), steps=tuple(made), calls=tuple(calls),
        evidence=(*evidence, Evidence("a", "audit", "branch_adopted", {"at": steps, **adopted})),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("branches", "adopted", "path"),
    [
        ([{"branch": 1, "at": 3}], {"branch": 1, "after": 5}, [3, 4, 5]),
        ([{"branch": 1, "at": 3}], {"branch": 0, "after": 2}, [0, 1, 2]),
        (
            [{"branch": 1, "at": 2, "after": 0}, {"branch": 2, "at": 4, "after": 2}],
            {"branch": 2, "after": 5},
            [0, 2, 4, 5],
        ),
        ([{"branch": 1, "at": 3}], {"branch": 1}, []),
        ([{"branch": 1, "at": 3, "after": 4}], {"branch": 1, "after": 5}, []),
        ([{"branch": 1, "at": 3, "after": 3}], {"branch": 1, "after": 3}, []),
        ([{"branch": 1, "at": "x"}], {"branch": 1, "after": 5}, []),
        ([{"branch": 1, "at": 3}], {"branch": 1, "after": 99}, []),
    ],
)
def test_the_path_leads_from_the_start_to_the_adopted_state(
    branches: list[dict[str, Any]], adopted: dict[str, Any], path: list[int]
) -> None:
    assert [step.index for step in judged_path(branched(branches, adopted)).steps] == path


def test_calls_of_other_branches_are_left_out_and_what_a_call_continues_is_kept() -> None:
    found = judged_path(branched([{"branch": 1, "at": 2, "after": 0}], {"branch": 0, "after": 1}))
    assert [call.id for call in found.calls] == ["c0", "c1"]
