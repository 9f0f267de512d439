"""AdamW with a learning-rate schedule and gradient accumulation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .options import OptimiserOptions

if TYPE_CHECKING:
    import torch


class Optimiser:
    """Optimises a model."""

    def __init__(self, model: Any, options: OptimiserOptions, steps: int) -> None:
        import torch

        self.options = options
        self.steps_taken = 0
        self._steps = max(steps, 1)
        self._named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._inner = torch.optim.AdamW(
            self._named.values(),
            lr=options.learning_rate,
            betas=(0.9, options.beta2),
            weight_decay=options.weight_decay,
            foreach=True,
        )

    def rate(self) -> float:
        """Returns the learning rate of the next step."""
        chosen, step = self.options, self.steps_taken
        if step < chosen.warmup:
            return chosen.learning_rate * (step + 1) / chosen.warmup
        done = min(1.0, (step - chosen.warmup) / max(1, self._steps - chosen.warmup))
        falls = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1 + math.cos(math.pi * done))}
        return chosen.learning_rate * falls[chosen.schedule]

    def step(self, losses: Iterable[torch.Tensor]) -> float:
        """Runs one step on the sum of `losses`, freeing each before the next; returns the gradient norm before
        clipping. A step with a non-finite norm is skipped."""
        import torch

        self._inner.zero_grad(set_to_none=True)
        for loss in losses:
            loss.backward()
        norm = float(torch.nn.utils.clip_grad_norm_(self._named.values(), self.options.clip))
        rate = self.rate()
        self.steps_taken += 1
        if math.isfinite(norm):
            for group in self._inner.param_groups:
                group["lr"] = rate
            self._inner.step()
        return norm

    def state(self) -> dict[str, torch.Tensor]:
        """Returns the state as named tensors."""
        import torch

        found = {"taken": torch.tensor(self.steps_taken)}
        for name, parameter in self._named.items():
            for key, value in self._inner.state.get(parameter, {}).items():
                found[f"{key}/{name}"] = value.detach().clone()
        return found

    def restore(self, state: Mapping[str, torch.Tensor]) -> None:
        """Restores a state."""
        self.steps_taken = int(state["taken"])
        for name, parameter in self._named.items():
            states = {key.partition("/")[0]: value for key, value in state.items() if key.partition("/")[2] == name}
            if states:
                self._inner.state[parameter] = {
                    key: value if key == "step" else value.to(parameter.device) for key, value in states.items()
                }
