"""Checks exports against the sources of trainers that need a GPU to run. Usage: with_wheels.py RUN WHEELS

RUN holds the exports `verl`, `skyrl`, `tinker`; WHEELS the unpacked wheels (`scripts/trainers-for-tests.sh`). The
classes and functions that parse are taken out of the trainers' own files and run; what they import besides is not.
Tinker's SDK is imported as it is. Prints one JSON object.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

RUN, WHEELS = Path(sys.argv[1]), Path(sys.argv[2])


def taken(path: Path, *names: str) -> dict[str, Any]:
    """Definitions of a file, executed with pydantic, typing, numpy and a silent logger as all that they can see."""
    import logging

    import numpy as np
    import pydantic

    tree = ast.parse(path.read_text(encoding="utf-8"))
    body = [node for node in tree.body if getattr(node, "name", None) in names]
    seen: dict[str, Any] = {"np": np, "BaseModel": pydantic.BaseModel, "logger": logging.getLogger(), "Any": Any}
    seen["SAMPLE_SUPPORT_FIELD"] = "rollout_sample_support"
    exec("from typing import *\nfrom dataclasses import dataclass", seen)
    for outside in ("ConversationType", "RoutedExpertIndices", "SampleSupport", "torch", "GeneratorOutput"):
        seen.setdefault(outside, type(outside, (), {"Tensor": object}))
    exec(compile(ast.Module(body, []), str(path), "exec", dont_inherit=True), seen)
    return seen


def verl() -> int:
    """Every row is an `AgentLoopOutput`."""
    path = WHEELS / "verl" / "verl" / "experimental" / "agent_loop" / "agent_loop.py"
    kind = taken(path, "AgentLoopMetrics", "AgentLoopOutput")["AgentLoopOutput"]
    rows = pq.read_table(RUN / "verl" / "rollouts.parquet").to_pylist()
    for row in rows:
        fields = {name: json.loads(v) if name in ("metrics", "extra_fields") else v for name, v in row.items()}
        unknown = fields.keys() - kind.model_fields.keys() - {"uid"}
        assert not unknown, unknown
        made = kind.model_validate(fields)
        assert len(made.response_ids) == len(made.response_mask)
    return len(rows)


def skyrl() -> int:
    """The output passes SkyRL's own validation, and has no field that it does not know."""
    base = WHEELS / "skyrl" / "skyrl" / "train"
    found = taken(base / "generators" / "base.py", "TrajectoryID", "GeneratorOutput")
    known = found["GeneratorOutput"].__annotations__
    own = ("validate_generator_output", "_validate_per_token_side_channels", "_validate_step_wise_fields")
    validate = taken(base / "utils" / "trainer_utils.py", *own)[own[0]]
    output = json.loads((RUN / "skyrl").read_text())
    assert output.keys() <= known.keys(), output.keys() - known.keys()
    output["trajectory_ids"] = [found["TrajectoryID"](**one) for one in output["trajectory_ids"]]
    validate(len(output["response_ids"]), output, step_wise="is_last_step" in output)
    return len(output["response_ids"])


def tinker() -> int:
    """Every line is a `Datum` of the SDK."""
    from tinker.types._pydantic_types.datum import Datum

    lines = (RUN / "tinker").read_text().splitlines()
    for line in lines:
        datum = Datum.model_validate_json(line)
        assert {len(tensor.data) for tensor in datum.loss_fn_inputs.values()} == {datum.model_input.length}
    return len(lines)


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"verl": verl(), "skyrl": skyrl(), "tinker": tinker()}) + "\n")
