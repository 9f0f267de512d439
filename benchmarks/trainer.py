"""The built-in trainer and engine: tokens a second of each step, and what keeping conversations saves.

    python -m benchmarks.trainer [--quick] [--device cuda --hidden 768 --layers 12 --heads 12 --dtype bfloat16]

A made model of random weights; rows of random tokens, as many and as long as a step of `recipes/grid.toml` has. Each
line is measured in a process of its own. `forward alone` is the limit: a training step cannot be faster than
reading its tokens once, and costs about three times that by arithmetic. Generation is 64 conversations of six turns:
`kept` reads what is new in each turn, `read anew` drops what was kept before every turn.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._measure import median_of, own_process, peak_mib
from benchmarks._report import Report, Target, options

COLUMNS = ("what", "parameters", "tokens", "tokens_per_cpu_s", "tokens_per_s", "cpu_s", "peak_mib", "device_mib")
WORK = ("forward alone", "supervised step", "policy gradient step", "generation, kept", "generation, read anew")
TURNS, TALKS, SAMPLED = 6, 64, 6
MOST_OVER_LIMIT = 6.0
"""Times the forward pass that a policy gradient step may take: forward twice and back."""


def policy_of(model: dict[str, Any]) -> Any:
    from assay.learning.trainer.options import ModelOptions
    from assay.learning.trainer.policy import TrainedPolicy, make_model

    given = ModelOptions(**model, feed_forward=3 * model["hidden"], thinking=False)
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder), ["go up, go down, go left, go right"], given, seed=0)
        return TrainedPolicy.open(Path(folder), given)


def rows_of(policy: Any, count: int, length: int) -> list[Any]:
    """Rows as a step of rollouts gives them: a fifth of the tokens is trained."""
    from assay.learning.rows import TrainingRow, TurnSpan
    from assay.learning.trainer.policy_gradient import recompute_logprobs

    draw = np.random.default_rng(0)
    sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
    rows: list[Any] = []
    for number in range(count):
        ids = draw.integers(0, 256, length).astype(np.int32)
        spans = tuple(
            TurnSpan(start=at, end=at + 4, call=f"c{at}", step=n, weight_version=policy.version, sampling=sampling)
            for n, at in enumerate(range(40, length - 4, 20))
        )
        mask = np.zeros(length, dtype=np.bool_)
        for span in spans:
            mask[span.start : span.end] = True
        rows.append(
            TrainingRow(
                token_ids=ids, roles=np.zeros(length, np.uint8), loss_mask=mask, logprobs=np.zeros(length, np.float32),
                versions=np.where(mask, 0, -1).astype(np.int16), weight_versions=(policy.version,), turns=spans,
                advantages=np.where(mask, draw.normal(), 0).astype(np.float32), run="r", chain=f"a{number}",
                attempt=f"a{number}", group=str(number // 8), task="t", agent="loop", branch="b", outcome="pass",
            )
        )  # fmt: skip
    import msgspec

    known = recompute_logprobs(policy.model, rows, 4096, policy.device)
    return [
        msgspec.structs.replace(row, logprobs=np.where(row.loss_mask, given, 0).astype(np.float32))
        for row, given in zip(rows, known, strict=True)
    ]


def measured(what: str, model: dict[str, Any], count: int, length: int) -> dict[str, Any]:
    """Tokens a second of one kind of work."""
    import torch

    torch.set_num_threads(1)
    policy = policy_of(model)
    act, tokens = (
        _generation(policy, kept=what.endswith("kept"))
        if what.startswith("generation")
        else _training(policy, what, count, length)
    )
    act()
    cost = median_of(act)
    on_device = torch.cuda.max_memory_allocated() / (1 << 20) if policy.device.type == "cuda" else None
    return {
        "what": what,
        "parameters": policy.parameters,
        "tokens": tokens,
        "tokens_per_cpu_s": round(tokens / cost.cpu_s),
        "tokens_per_s": round(tokens / cost.wall_s),
        "cpu_s": round(cost.cpu_s, 3),
        "peak_mib": round(peak_mib()),
        "device_mib": None if on_device is None else round(on_device),
    }


def _training(policy: Any, what: str, count: int, length: int) -> tuple[Any, int]:
    from assay.learning.trainer.optimise import Optimiser
    from assay.learning.trainer.options import OptimiserOptions, PolicyGradientOptions
    from assay.learning.trainer.policy_gradient import recompute_logprobs, update_policy
    from assay.learning.trainer.sft import sft_step

    rows = rows_of(policy, count, length)
    # A rate so small that the weights stay those that the log-probabilities are of.
    optimiser = Optimiser(policy.model, OptimiserOptions(learning_rate=1e-12), 1)
    given = PolicyGradientOptions(most_gap=10.0)
    acts = {
        "forward alone": lambda: recompute_logprobs(policy.model, rows, 4096, policy.device),
        "supervised step": lambda: sft_step(policy, optimiser, rows),
        "policy gradient step": lambda: update_policy(policy, optimiser, rows, given),
    }
    return acts[what], count * length


def _generation(policy: Any, *, kept: bool) -> tuple[Any, int]:
    backend = policy.backend("local:benchmark").tokens

    async def talk(number: int) -> None:
        draw = np.random.default_rng(number)
        told = draw.integers(0, 256, 60).tolist()
        for turn in range(TURNS):
            if not kept:
                backend._engine._pool.clear()
            reply = await backend.generate(told, {"temperature": 1.0, "seed": turn, "max_tokens": SAMPLED})
            told = [*told, *reply.token_ids, *draw.integers(0, 256, 16).tolist()]

    async def all_talks() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(TALKS):
                group.create_task(talk(number))

    return lambda: asyncio.run(all_talks()), TALKS * TURNS * SAMPLED


def main(arguments: list[str] | None = None) -> None:
    parser = options("trainer", "The built-in trainer and engine.")
    for name, default in (("hidden", 128), ("layers", 4), ("heads", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    given = parser.parse_args(arguments)
    model = {name: getattr(given, name) for name in ("hidden", "layers", "heads", "device", "dtype")}
    count, length = (16, 120) if given.quick else (128, 120)
    began = time.monotonic()
    rows = [own_process(measured, what, model, count, length)[0] for what in WORK]
    by_name = {row["what"]: row for row in rows}
    over = by_name["policy gradient step"]["cpu_s"] / by_name["forward alone"]["cpu_s"]
    saved = by_name["generation, read anew"]["cpu_s"] / by_name["generation, kept"]["cpu_s"]
    targets = [
        Target("a policy gradient step, beside reading its tokens once", "times", MOST_OVER_LIMIT, round(over, 2)),
        Target("turns of a conversation that is kept, beside reading it anew", "times", 1.0, round(1 / saved, 2)),
    ]
    how = f"{count} rows of {length} tokens; {TALKS} conversations of {TURNS} turns; {time.monotonic() - began:.0f} s."
    Report("trainer", how, rows, targets, {}).finish(COLUMNS, given.into)


if __name__ == "__main__":
    main()
