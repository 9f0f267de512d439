"""Tokenizers trained here on given texts, for models that are trained from nothing: nothing is downloaded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")


def write_domain_tokenizer(folder: Path, texts: Iterable[str], vocabulary: int) -> int:
    """Writes a tokenizer trained on `texts` alone; returns its vocabulary size.

    Words are not kept apart, only digits are: what is always the same (a tool's schema, a template) becomes a few long
    tokens, so that conversations of one domain are several times shorter, while numbers stay readable to the model.
    """
    from tokenizers import pre_tokenizers

    special = re.compile("|".join(map(re.escape, (*SPECIAL_TOKENS, *_TAGS))))
    pieces = (piece for text in texts for piece in special.split(text) if piece)
    tokenizer = train_tokenizer(pre_tokenizers.Digits(individual_digits=True), pieces, vocabulary)
    write_tokenizer(tokenizer, folder)
    return int(tokenizer.get_vocab_size())


def train_tokenizer(split: Any, texts: Iterable[str], vocabulary: int) -> Any:
    """Returns a tokenizer of byte pairs, trained on texts as `split` cuts them."""
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


def write_tokenizer(tokenizer: Any, folder: Path) -> Path:
    """Writes a tokenizer and the files that a renderer needs; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    described: dict[str, Any] = {"eos_token": "<|im_end|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(described), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3"}), encoding="utf-8")
    return folder
