"""Model and training options, the building blocks of recipes.

Each field is documented by the string under it; `docs/reference/recipes.md` comes from there.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from assay.errors import UserError

Keep = Literal["all", "passed", "card"]
"""Attempts to train on: `all` judged ones, those with outcome pass (`passed`), or undoubted passes (`card`)."""
Count = Annotated[int, msgspec.Meta(ge=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Weight = Annotated[float, msgspec.Meta(ge=0)]


class ModelOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The model: an existing one by `path`, or a new small Qwen3."""

    path: str | None = None
    """Folder of a Hugging Face causal language model with its tokenizer; unset creates a model."""
    renderer: str | None = None
    """Name of the chat template, if the model's type does not determine it."""
    thinking: bool | None = None
    """Enables thinking in the prompt, for templates with that option; unset keeps their default."""
    device: str = "auto"
    """`cpu`, `cuda`, ...; `auto` takes a GPU where there is one."""
    dtype: str = "float32"
    """Data type of the trained weights: `float32` or `bfloat16`."""
    sampler_dtype: Literal["auto", "same", "float64"] = "auto"
    """Data type in which `assay improve` samples: `same` as `dtype`, or `float64`, in which a token does not depend on
    the batch (its rounding, 1e-15, decides no draw), so that a resumed training gives the same result. `auto` uses
    `float64` for float32 models of under 50 million weights on a CPU."""
    threads: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Training threads on a CPU; 0 uses PyTorch's default. Another number may change the last bits."""
    vocabulary: Annotated[int, msgspec.Meta(ge=300, le=65536)] = 768
    """New model: vocabulary size, with the 256 bytes and the special tokens; trained on the demonstrations."""
    hidden: Count = 128
    """New model: hidden size."""
    layers: Count = 4
    """New model: number of layers."""
    heads: Count = 4
    """New model: number of attention heads, each of hidden / heads dimensions."""
    feed_forward: Count = 384
    """New model: size of the feed-forward layer."""
    context: Annotated[int, msgspec.Meta(ge=64)] = 1024
    """New model: context length in tokens."""

    def __post_init__(self) -> None:
        """Rejects invalid combinations."""
        if self.dtype not in ("float32", "bfloat16"):
            raise UserError(f"model.dtype is {self.dtype!r}: write float32 or bfloat16")
        if self.hidden % self.heads:
            raise UserError(
                f"model.hidden is {self.hidden}: it must be a multiple of model.heads, which is {self.heads}"
            )


class OptimiserOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """AdamW, its learning rate and its bounds."""

    learning_rate: Positive = 1e-3
    """Maximum learning rate."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Schedule after the warm-up: `linear` and `cosine` end at 0."""
    warmup: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Warm-up steps, from 0."""
    weight_decay: Weight = 0.0
    """Weight decay of AdamW."""
    beta2: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.999
    """AdamW's second-moment decay; the first is 0.9."""
    clip: Positive = 1.0
    """Maximum gradient norm; larger gradients are scaled down."""
    tokens_at_once: Count = 4096
    """Maximum tokens, padding included, of one forward and backward pass; larger steps accumulate the same gradient
    over several passes."""


class SftOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Supervised fine-tuning: cross-entropy of the agents' tokens."""

    steps: Annotated[int, msgspec.Meta(ge=0)] = 120
    """Steps of the optimiser."""
    batch: Count = 16
    """Attempts per step, without repetition until all were used."""
    optimise: OptimiserOptions = OptimiserOptions(learning_rate=1e-3)
    """See the table of the optimiser."""


class DpoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Direct preference optimisation over pairs of attempts that diverged at one turn: only that turn is trained."""

    steps: Annotated[int, msgspec.Meta(ge=0)] = 60
    """Steps of the optimiser."""
    batch: Count = 16
    """Pairs per step."""
    beta: Positive = 0.1
    """Strength of the reference: a smaller value allows more divergence."""
    optimise: OptimiserOptions = OptimiserOptions(learning_rate=1e-4)
    """See the table of the optimiser."""


class PolicyGradientOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The clipped policy gradient over tokens, with any credit."""

    epochs: Count = 1
    """Passes over each batch."""
    minibatches: Count = 1
    """Optimiser steps per pass; an attempt is never split."""
    normalise: Literal["attempt", "token", "constant"] = "attempt"
    """Normalisation: equal weight for each attempt; for each token; or for each token with the sum divided by
    `constant_length` per attempt, as in Dr. GRPO."""
    constant_length: Count = 64
    """Tokens for `normalise = "constant"`."""
    clip_low: Positive = 0.2
    """Clipping bound below 1."""
    clip_high: Positive = 0.2
    """Clipping bound above 1."""
    old: Literal["sampled", "recomputed"] = "recomputed"
    """Old log-probabilities of the ratio: the sampler's, or the trainer's own before the update. With `recomputed` the
    gradient does not depend on how requests were batched."""
    correction: Literal["none", "token", "turn", "attempt"] = "none"
    """Importance weight of the token, turn or attempt, for rollouts of older weights or another engine."""
    correction_cap: Positive = 2.0
    """Maximum importance weight."""
    most_lag: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Maximum age of an attempt's weights in updates; older attempts are dropped and counted."""
    most_gap: Positive = 0.01
    """Maximum difference of sampled and recomputed log-probabilities of the same weights, in nats; a larger one stops
    the training, because trainer and engine then run different models."""
    reference_pull: Weight = 0.0
    """Weight of the divergence from the initial policy (k3 estimate)."""
    observation_weight: Weight = 0.0
    """ECHO's weight of the cross-entropy of observations caused by the agent."""
    observation_warmup: Annotated[int, msgspec.Meta(ge=0)] = 10
    """Warm-up steps of the observation weight, from 0."""
    optimise: OptimiserOptions = OptimiserOptions(learning_rate=5e-4)
    """See the table of the optimiser."""
