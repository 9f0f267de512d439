"""The trained model: weights, template and weight version.

A version is a digest of the weights themselves, so it moves exactly when they do, and the same weights have the same
version on disk, in the trainer and in the engine.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import StoreError, UserError, boundary
from assay.gateway.backends.local import LocalBackend, is_small_cpu_model, load_checkpoint, weights_digest
from assay.gateway.backends.tiny import write_domain_tokenizer
from assay.gateway.tokens import RenderedBackend
from assay.gateway.tokens.library import LibraryRenderer, open_renderer, open_tokenizer

from .options import ModelOptions

if TYPE_CHECKING:
    import torch


_TINY = ModelOptions(vocabulary=300, hidden=64, layers=2, heads=2, feed_forward=128, context=16384)


class TrainedPolicy:
    """A causal language model in training. It stays in evaluation mode, because dropout would change the recomputed
    log-probabilities."""

    def __init__(self, model: Any, folder: Path, options: ModelOptions) -> None:
        self.model = model.eval()
        self.folder = folder
        self.options = options
        self.renderer: LibraryRenderer = open_renderer(folder, options.renderer, thinking=options.thinking)

    @classmethod
    def open(cls, folder: Path, options: ModelOptions | None = None) -> TrainedPolicy:
        """Loads a checkpoint. Raises `UserError` if the folder holds none."""
        require_torch()
        options = options or ModelOptions()
        model = load_checkpoint(folder, str(folder), device=options.device, dtype=options.dtype)
        return cls(model, folder, options)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.model.device

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return int(sum(p.numel() for p in self.model.parameters()))

    @property
    def version(self) -> str:
        """Digest of the current weights."""
        return weights_digest(self.model.state_dict())

    def weights(self) -> Mapping[str, torch.Tensor]:
        """Returns a copy of the weights."""
        return {name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()}

    def backend(self, name: str) -> RenderedBackend:
        """Returns an engine with a copy of the weights, for the runs of this training."""
        import copy

        import torch

        wanted = self.options.sampler_dtype
        model = copy.deepcopy(self.model)
        if wanted == "float64" or (wanted == "auto" and self.options.dtype == "float32" and is_small_cpu_model(model)):
            for parameter in model.parameters():  # buffers, as what turns positions, stay what the model made them
                parameter.data = parameter.data.to(torch.float64)
        tokens = LocalBackend(model, name, decode=self.renderer.tokenizer.decode, weight_version=self.version)
        # Said in every request, so that every record says it: this is the distribution that the ratio is taken over.
        return RenderedBackend(tokens, self.renderer, {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0})

    def save(self, folder: Path) -> None:
        """Writes the model and its tokenizer, readable by `local:FOLDER` and Transformers."""
        import shutil

        with boundary(StoreError, f"writing {folder}"):
            self.model.save_pretrained(folder, safe_serialization=True)
            for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"):
                if (self.folder / name).is_file():
                    shutil.copyfile(self.folder / name, folder / name)


def make_model(folder: Path, texts: Iterable[str], options: ModelOptions, seed: int) -> None:
    """Creates a small Qwen3 of random weights and a tokenizer trained on `texts`, atomically and deterministically."""
    require_torch()
    with boundary(StoreError, f"writing {folder}"), atomic_folder(folder) as partial:
        _make_model(partial, texts, options, seed)


def init_model(folder: Path) -> None:
    """Writes a tiny Qwen3 of random weights that takes one byte a token, to try a pipeline out with `local:FOLDER`.

    Raises:
        UserError: The folder exists, or PyTorch is missing.
        StoreError: The folder cannot be written.
    """
    if folder.exists():
        raise UserError(f"{folder} exists: choose another name or remove it first")
    make_model(folder, (), _TINY, seed=0)


def _make_model(folder: Path, texts: Iterable[str], options: ModelOptions, seed: int) -> None:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    size = write_domain_tokenizer(folder, texts, options.vocabulary)
    end = open_tokenizer(folder).eos_token_id
    config = Qwen3Config(
        vocab_size=size, hidden_size=options.hidden, intermediate_size=options.feed_forward,
        num_hidden_layers=options.layers, num_attention_heads=options.heads, num_key_value_heads=options.heads,
        head_dim=options.hidden // options.heads, max_position_embeddings=options.context, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=end, pad_token_id=None,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder, safe_serialization=True)
    described = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    described.pop("transformers_version", None)  # the same folder from the same recipe
    (folder / "config.json").write_text(json.dumps(described, indent=1), encoding="utf-8")


def require_torch() -> None:
    """Raises `UserError` if PyTorch or Transformers is missing."""
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as exc:
        missing = f"training needs PyTorch and Transformers ({exc}); install assay[train] (in a clone: make model)"
        raise UserError(missing) from exc
    transformers.utils.logging.disable_progress_bar()


@contextmanager
def atomic_folder(final: Path) -> Iterator[Path]:
    """Yields a folder to write into, which replaces `final` at the end.

    Whoever is killed on the way leaves what was there, or nothing, and a folder that the next one sweeps away.
    """
    partial = final.with_name(final.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    _sync([*(path for path in partial.iterdir() if path.is_file()), partial])
    if final.exists():
        shutil.rmtree(final)
    partial.rename(final)
    _sync([final.parent])


def _sync(paths: Iterable[Path]) -> None:
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
