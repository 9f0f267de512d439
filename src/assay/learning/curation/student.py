"""Student model for stage `teacher`: any causal language model by its checkpoint folder (extra `assay[local]`).

It runs on CPU by default. No code of the folder is executed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import UserError

from .teacher import Surprisal

CHUNK = 256


class TransformersStudent:
    """Reads a row in one forward pass, and ranks its tokens a few at a time, so that memory stays small."""

    def __init__(self, folder: str, device: str = "cpu") -> None:
        try:
            import torch
            from transformers import AutoModelForCausalLM
        except ImportError as exc:
            raise UserError("a student needs torch and transformers: pip install 'assay[local]'") from exc
        self._torch = torch
        try:
            found = AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False, use_safetensors=True
            )
        except (OSError, ValueError) as exc:
            raise UserError(f"{folder} is not a checkpoint of a causal model: {exc}") from exc
        self._model = found.to(device).eval()
        self._device = device
        self._most = int(getattr(found.config, "max_position_embeddings", 0) or 0)
        self._vocabulary = int(found.config.vocab_size)

    def read(self, token_ids: NDArray[Any], /) -> Surprisal:
        """Reads a row; tokens beyond the model's positions are NaN.

        Raises:
            UserError: A token is outside the model's vocabulary, so the row was made with another tokenizer.
        """
        torch = self._torch
        rank, nll = np.full(len(token_ids), np.nan), np.full(len(token_ids), np.nan)
        held = token_ids[: self._most] if self._most else token_ids
        if len(held) < 2:
            return Surprisal(rank, nll)
        if int(held.max()) >= self._vocabulary:
            raise UserError(
                f"token {int(held.max())} is not in the student's {self._vocabulary}: the row uses another tokenizer"
            )
        ids = torch.from_numpy(held.astype(np.int64)).to(self._device)
        with torch.inference_mode():
            logits = self._model(ids[None]).logits[0, :-1]
            for start in range(0, len(held) - 1, CHUNK):
                part = logits[start : start + CHUNK].float()
                said = ids[start + 1 : start + 1 + len(part), None]
                of_said = part.gather(1, said)
                places = slice(start + 1, start + 1 + len(part))
                rank[places] = (1 + (part > of_said).sum(1)).cpu().numpy()
                nll[places] = (part.logsumexp(1) - of_said[:, 0]).cpu().numpy()
        return Surprisal(rank, nll)
