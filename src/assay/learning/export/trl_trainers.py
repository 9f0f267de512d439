"""TRL trainers for exported tokens. Needs `trl`, imported on demand.

`grpo_trainer()` returns a `GRPOTrainer` that trains on rows of a `trl-grpo` export, with their per-token advantages and
the sampler's log-probabilities, instead of sampling. `dpo_trainer()` returns a `DPOTrainer` that uses the tokens of the
file instead of rendering `prompt`, `chosen` and `rejected`.
"""

from __future__ import annotations

from typing import Any

from assay.errors import UserError

_MISSING = "this needs TRL ({}): pip install 'trl>=1.16,<2' datasets accelerate"


def no_reward(completions: list[Any], **_: Any) -> list[float]:
    """Constant `reward_funcs`: credit is already assigned."""
    return [0.0] * len(completions)


def grpo_trainer() -> type[Any]:
    """Returns the class. Its data set has the columns of a `trl-grpo` export; `num_generations` and prompts are
    ignored.

    A row's loss is weighed by `row_weight`, so that each attempt counts as much as any other.
    """
    try:
        import torch
        from torch.utils.data import RandomSampler
        from trl import GRPOTrainer  # type: ignore[import-not-found, attr-defined, unused-ignore]
    except ImportError as exc:
        raise UserError(_MISSING.format(exc)) from exc

    class RowsGRPOTrainer(GRPOTrainer):  # type: ignore[misc, unused-ignore]
        """Trains on exported rows."""

        def get_train_dataloader(self) -> Any:
            size, taken = self._train_batch_size, self._get_train_sampler
            return self._get_dataloader(self.train_dataset, "Training", size, sampler_fn=taken, is_training=True)

        def _get_train_sampler(self, dataset: Any = None) -> Any:
            dataset_rows = self.train_dataset if dataset is None else dataset
            return RandomSampler(dataset_rows, generator=torch.Generator().manual_seed(self.args.seed))

        def _prepare_inputs(self, generation_batch: list[dict[str, Any]]) -> dict[str, Any]:
            batch = grpo_batch(generation_batch, self.model.generation_config.pad_token_id, self.accelerator.device)
            # TRL takes this number as that of all batches between two generations.
            batch["num_items_in_batch"] *= self.args.steps_per_generation
            return batch

    return RowsGRPOTrainer


def grpo_batch(inputs: list[dict[str, Any]], pad: int, device: Any) -> dict[str, Any]:
    """Builds a batch of GRPO's loss: B prompts left-padded to P, completions right-padded to T."""
    import torch

    def padded(name: str, fill: float, kind: Any, *, left: bool = False) -> Any:
        width = max(len(row[name]) for row in inputs)
        padded_rows = torch.full((len(inputs), width), fill, dtype=kind)
        for row_index, row in enumerate(inputs):
            values = torch.tensor(row[name], dtype=kind)
            begin = width - len(values) if left else 0
            padded_rows[row_index, begin : begin + len(values)] = values
        return padded_rows.to(device)

    ones = [{"prompt": [1] * len(r["prompt_ids"]), "completion": [1] * len(r["completion_ids"])} for r in inputs]
    inputs = [{**row, **one} for row, one in zip(inputs, ones, strict=True)]
    tool_mask = padded("tool_mask", 0, torch.long)
    weights = torch.tensor([row.get("row_weight") or 1.0 for row in inputs]).unsqueeze(1).to(device)
    batch = {
        "prompt_ids": padded("prompt_ids", pad, torch.long, left=True),
        "prompt_mask": padded("prompt", 0, torch.long, left=True),
        "completion_ids": padded("completion_ids", pad, torch.long),
        "completion_mask": padded("completion", 0, torch.long),
        "tool_mask": tool_mask,
        "advantages": padded("advantages", 0.0, torch.float32) * weights,
        "num_items_in_batch": tool_mask.sum(),
    }
    if all(row.get("old_per_token_logps") is not None for row in inputs):
        batch["old_per_token_logps"] = padded("old_per_token_logps", 0.0, torch.float32)
    return batch


def dpo_trainer() -> type[Any]:
    """Returns the class. Its data set has the columns of a `trl-dpo` export, with tokens in every row."""
    try:
        from trl import DPOTrainer  # type: ignore[import-not-found, attr-defined, unused-ignore]
    except ImportError as exc:
        raise UserError(_MISSING.format(exc)) from exc

    class RowsDPOTrainer(DPOTrainer):  # type: ignore[misc, unused-ignore]
        """Trains on exported pairs."""

        def _prepare_dataset(self, dataset: Any, *rest: Any, **named: Any) -> Any:
            ids = ("prompt_ids", "chosen_ids", "rejected_ids")
            if any(name not in dataset.column_names for name in ids):
                return super()._prepare_dataset(dataset, *rest, **named)
            empty = sum(row is None for row in dataset["prompt_ids"])
            if empty:
                raise UserError(
                    f"{empty} pairs have no tokens: leave them out, or train on messages with TRL's own DPOTrainer"
                )
            return dataset.select_columns(list(ids))

    return RowsDPOTrainer
