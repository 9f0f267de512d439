"""Bounds a checkpoint that arrived from elsewhere, before it is loaded: a small `config.json` may describe a model
that fills the memory.

A process with limits of memory and CPU time builds the model without its weights and opens the tokenizer. Loaded is a
checkpoint only if that process ended by itself, and if the model needs no more memory than its files of weights
account for.

Covered: any number in the configuration, whatever architecture it names. Not covered: the size of the weights, which
their publisher stored in full.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
from pathlib import Path
from typing import Final

from assay.errors import UserError

MOST_DATA_BYTES: Final = 4 << 30
"""Memory of the process."""
MOST_CPU_S: Final = 120
TIMEOUT_S: Final = 600.0
MOST_TIMES: Final = 4
"""A model may need so many times the bytes of its files: they may hold a shorter type, and tied weights once."""
SLACK_BYTES: Final = 256 << 20


def require_proportionate(folder: Path, *, most_data_bytes: int = MOST_DATA_BYTES) -> None:
    """Raises `UserError` if a checkpoint cannot be described in bounded memory, or needs more than its weights account
    for. Blocking; takes as long as PyTorch and Transformers take to start."""
    command = [sys.executable, "-P", "-m", __name__, str(folder), str(most_data_bytes)]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise UserError(f"{folder.name}: the checkpoint took longer than {TIMEOUT_S:g} s to describe") from None
    if result.returncode or not result.stdout.strip().isdigit():
        last = (result.stderr.strip().splitlines() or [f"exit code {result.returncode}"])[-1][:300]
        raise UserError(
            f"{folder.name}: the checkpoint cannot be described within {most_data_bytes >> 20} MiB and {MOST_CPU_S} s "
            f"of CPU time: {last}"
        )
    needed, stored = int(result.stdout), sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if needed > MOST_TIMES * stored + SLACK_BYTES:
        raise UserError(
            f"{folder.name}: config.json describes a model of {needed >> 20:,} MiB, and the weights have "
            f"{stored >> 20:,} MiB: it was changed"
        )


def _describe(folder: Path) -> int:
    """Returns the bytes of a checkpoint's parameters and buffers, without making them, after opening its tokenizer."""
    import torch
    import transformers

    from assay.gateway.tokens.library import open_tokenizer

    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    open_tokenizer(folder)
    return int(sum(one.numel() * one.element_size() for one in (*model.parameters(), *model.buffers())))


def main(words: list[str]) -> int:
    """Prints the bytes of the model in a folder, under limits."""
    folder, most_data_bytes = Path(words[0]), int(words[1])
    resource.setrlimit(resource.RLIMIT_DATA, (most_data_bytes, most_data_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S))
    with contextlib.redirect_stdout(sys.stderr):
        needed = _describe(folder)
    sys.stdout.write(f"{needed}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
