"""A model of under a million random weights for tests and examples: deterministic, nothing is downloaded.

A small Qwen3 with that family's special tokens and a byte-level tokenizer trained on text of the Python standard
library. Its own output is noise; `steer_with` makes it produce a script token by token with its own log-probabilities.
The weights have a large variance, so that different contexts give clearly different log-probabilities.
"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from assay.gateway.interface import ModelRequest
from assay.gateway.tokens.library import LibraryRenderer
from assay.gateway.tokens.model import Steer

from .scripted import ScriptedBackend

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def write_tiny_model(folder: Path, *, seed: int = 0, vocabulary: int = 4096, context: int = 65536) -> Path:
    """Writes a checkpoint (about 3 MB) into `folder`, unless one is there; returns the folder. Needs `assay[local]`."""
    if (folder / "model.safetensors").is_file():
        return folder
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    write_tiny_tokenizer(folder, vocabulary)
    config = Qwen3Config(
        vocab_size=vocabulary, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, max_position_embeddings=context, tie_word_embeddings=True,
        initializer_range=0.1, bos_token_id=None, eos_token_id=2,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder, safe_serialization=True)
    return folder


def steer_with(renderer: LibraryRenderer, script: ScriptedBackend) -> Steer:
    """Makes a model produce a script's replies, in its own template."""

    async def steer(request: ModelRequest) -> Sequence[int]:
        return renderer.render_reply((await script.complete(request)).message)

    return steer


def write_tiny_tokenizer(folder: Path, vocabulary: int = 4096) -> Path:
    """Writes the tokenizer and the files a renderer needs; returns the folder. Needs `tokenizers`."""
    from tokenizers import Regex, pre_tokenizers

    texts = (Path(str(module.__file__)).read_text(encoding="utf-8") for module in (argparse, textwrap, json))
    split = pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated")
    return _write_tokenizer(_train_tokenizer(split, texts, vocabulary), folder)


def write_domain_tokenizer(folder: Path, texts: Iterable[str], vocabulary: int) -> int:
    """Writes a tokenizer trained on `texts` alone; returns its vocabulary size.

    Words are not kept apart, only digits are: what is always the same (a tool's schema, a template) becomes a few long
    tokens, so that conversations of one domain are several times shorter, while numbers stay readable to the model.
    """
    from tokenizers import pre_tokenizers

    special = re.compile("|".join(map(re.escape, (*SPECIAL_TOKENS, *_TAGS))))
    pieces = (piece for text in texts for piece in special.split(text) if piece)
    tokenizer = _train_tokenizer(pre_tokenizers.Digits(individual_digits=True), pieces, vocabulary)
    _write_tokenizer(tokenizer, folder)
    return int(tokenizer.get_vocab_size())


def _train_tokenizer(split: Any, texts: Iterable[str], vocabulary: int) -> Any:
    """A tokenizer of byte pairs, trained on texts as `split` cuts them."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(_TAGS),
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in _TAGS])
    return tokenizer


def _write_tokenizer(tokenizer: Any, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    described: dict[str, Any] = {"eos_token": "<|im_end|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(described), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3"}), encoding="utf-8")
    return folder
