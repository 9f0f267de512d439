"""How a model is made and trained: the parts that recipes are put together from.

Each field is documented by the string under it; `docs/reference/recipes.md` comes from there.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from assay.errors import UserError

__all__ = ["DpoOptions", "Keep", "ModelOptions", "Optimise", "PolicyGradientOptions", "SftOptions"]

Keep = Literal["all", "passed", "card"]
"""Which attempts are learned from: `all` that were judged, those whose outcome passed (`passed`, whatever else is known
of them), or those that passed and nothing speaks against (`card`)."""
Count = Annotated[int, msgspec.Meta(ge=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Weight = Annotated[float, msgspec.Meta(ge=0)]


class ModelOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which model: one of your own by `path`, or a small Qwen3 that is made on the spot."""

    path: str | None = None
    """Folder of a Hugging Face causal language model with its tokenizer; without it a model is made."""
    renderer: str | None = None
    """Name of the chat template, where the model's type does not tell."""
    thinking: bool | None = None
    """Whether the prompt lets the model think, for templates that can say so; unset leaves their default."""
    device: str = "auto"
    """`cpu`, `cuda`, ...; `auto` takes a GPU where there is one."""
    dtype: str = "float32"
    """What weights are trained in: `float32` or `bfloat16`."""
    sampler_dtype: Literal["auto", "same", "float64"] = "auto"
    """What the attempts of `assay improve` are sampled in: `same` as `dtype`, or `float64`, where a token does not
    depend on which requests run together (their rounding, 1e-15, is far below what decides a draw), so that a training
    that was killed ends as one that was not. `auto` takes `float64` for float32 models of under 50 million weights on a
    CPU."""
    threads: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Threads that training uses on a CPU; 0 leaves it to PyTorch. Another number may change the last bits."""
    vocabulary: Annotated[int, msgspec.Meta(ge=300, le=65536)] = 768
    """Of a made model: tokens, the 256 bytes and the special ones included. Trained on the demonstrations' own text."""
    hidden: Count = 128
    """Of a made model: width."""
    layers: Count = 4
    """Of a made model: layers."""
    heads: Count = 4
    """Of a made model: attention heads, each of hidden / heads numbers."""
    feed_forward: Count = 384
    """Of a made model: width of the inner layer."""
    context: Annotated[int, msgspec.Meta(ge=64)] = 1024
    """Of a made model: longest conversation in tokens."""

    def __post_init__(self) -> None:
        """Refuses what cannot be built."""
        if self.dtype not in ("float32", "bfloat16"):
            raise UserError(f"model.dtype is {self.dtype!r}: write float32 or bfloat16")
        if self.hidden % self.heads:
            raise UserError(
                f"model.hidden is {self.hidden}: it must be a multiple of model.heads, which is {self.heads}"
            )


class Optimise(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """AdamW, its learning rate and its bounds."""

    learning_rate: Positive = 1e-3
    """The highest that is reached."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How it goes on after the warm-up: `linear` and `cosine` end at 0."""
    warmup: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Steps in which it rises from 0."""
    weight_decay: Weight = 0.0
    """Of AdamW."""
    beta2: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.999
    """AdamW's memory of squared gradients; its memory of gradients is 0.9."""
    clip: Positive = 1.0
    """Largest norm of the gradient; a larger one is scaled down to it."""
    tokens_at_once: Count = 4096
    """Tokens, padding included, of one pass forward and back; a step of more is accumulated over several passes, to the
    same gradient."""


class SftOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Supervised fine-tuning: the cross-entropy of what the agent said."""

    steps: Annotated[int, msgspec.Meta(ge=0)] = 120
    """Steps of the optimiser."""
    batch: Count = 16
    """Attempts a step, drawn without repetition until all were seen."""
    optimise: Optimise = Optimise(learning_rate=1e-3)
    """See the table of the optimiser."""


class DpoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Direct preference optimisation over pairs of attempts that parted at one turn: only that turn is trained."""

    steps: Annotated[int, msgspec.Meta(ge=0)] = 60
    """Steps of the optimiser."""
    batch: Count = 16
    """Pairs a step."""
    beta: Positive = 0.1
    """How far the policy may leave the one it began as: smaller is further."""
    optimise: Optimise = Optimise(learning_rate=1e-4)
    """See the table of the optimiser."""


class PolicyGradientOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The clipped policy gradient over tokens, under whatever credit the rows carry."""

    epochs: Count = 1
    """How often each batch is used."""
    minibatches: Count = 1
    """Steps of the optimiser in one use of a batch; attempts are never split over two."""
    normalise: Literal["attempt", "token", "constant"] = "attempt"
    """What weighs equally: each attempt however many tokens and rows it has; each token; or each token with the sum
    divided by `constant_length` an attempt, as in Dr. GRPO."""
    constant_length: Count = 64
    """Of `normalise = "constant"`: tokens."""
    clip_low: Positive = 0.2
    """How far the ratio may fall below 1 before a token stops to count."""
    clip_high: Positive = 0.2
    """How far it may rise above 1."""
    old: Literal["sampled", "recomputed"] = "recomputed"
    """Which log-probabilities the ratio is taken against: those of the sampler, or the trainer's own from before the
    update. `recomputed` gives a gradient that does not depend on how requests were batched."""
    correction: Literal["none", "token", "turn", "attempt"] = "none"
    """Weighs by how much likelier the trainer's policy was to sample the token, turn or attempt than the sampler was.
    For rollouts of older weights or another engine."""
    correction_cap: Positive = 2.0
    """Largest such weight."""
    most_lag: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Updates that the weights behind a reply may be behind; attempts further behind are dropped and counted."""
    most_gap: Positive = 0.01
    """Largest difference of a sampled and a recomputed log-probability of the same weights, in nats; more stops the
    training, for then the trainer and the engine do not run the same model."""
    reference_pull: Weight = 0.0
    """Weight of the divergence from the policy that the training began with (the k3 estimate)."""
    observation_weight: Weight = 0.0
    """ECHO's weight of the cross-entropy of what the agent's acts brought about."""
    observation_warmup: Annotated[int, msgspec.Meta(ge=0)] = 10
    """Steps in which the observation weight rises from 0."""
    optimise: Optimise = Optimise(learning_rate=5e-4)
    """See the table of the optimiser."""
