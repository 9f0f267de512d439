"""A model of under a million random weights for tests and measurements: deterministic, nothing is downloaded.

A small Qwen3 with that family's special tokens and a byte-level tokenizer trained on text of the Python standard
library. Its output is noise. The weights have a large variance, so that different contexts give clearly different
log-probabilities.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path

from assay.gateway.backends.tiny import train_tokenizer, write_tokenizer

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


def write_tiny_tokenizer(folder: Path, vocabulary: int = 4096) -> Path:
    """Writes the tokenizer and the files a renderer needs; returns the folder. Needs `tokenizers`."""
    from tokenizers import Regex, pre_tokenizers

    texts = (Path(str(module.__file__)).read_text(encoding="utf-8") for module in (argparse, textwrap, json))
    split = pre_tokenizers.Split(Regex(_SPLIT), behavior="isolated")
    return write_tokenizer(train_tokenizer(split, texts, vocabulary), folder)
