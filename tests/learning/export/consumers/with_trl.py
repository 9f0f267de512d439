"""Records attempts of a tiny model, exports them, and lets TRL itself train on the files. Usage: with_trl.py FOLDER

Prints one JSON object of what TRL saw and did. A program of its own because TRL's imports warn, and warnings are errors
in tests.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "HF_HOME": sys.argv[1]}

import torch
import trl
from datasets import load_dataset
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from assay.gateway.backends.local import open_local
from assay.gateway.tokens.library import open_renderer
from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.learning.export.trl_trainers import dpo_trainer, grpo_trainer, no_reward
from assay.settings import Settings
from scripts.tiny_model import write_tiny_model
from tests.learning.recorded import Script, bodies, store_run

FOLDER = Path(sys.argv[1])
MODEL = write_tiny_model(FOLDER / "model")
ATTEMPTS = [
    (("up", "right"), {}),
    (("up", "key:k", "right"), {}),
    (("up", "up"), {"integrity": "fail"}),
    (("left", "left"), {"outcome": "fail"}),
    (("up", "left"), {"outcome": "fail"}),
]


async def recorded() -> Path:
    """A store with run `r`: the tiny model's own attempts, steered, with its own log-probabilities."""
    renderer, engine = open_renderer(MODEL), open_local(MODEL, "local:tiny", device="cpu")
    made = []
    for number, (moves, how) in enumerate(ATTEMPTS):
        script = Script(renderer, moves, engine)
        await script.play()
        made.append(bodies(f"a{number}", script, number=number, **how))
    await engine.close()
    return store_run(FOLDER / "store", made)


def exported(store: Path, to: str) -> Any:
    """The data set that `datasets` reads from an export."""
    out = FOLDER / f"{to}.parquet"
    export_for_training("r", WriteConfig(to=to, out=str(out)), Settings(cache=FOLDER, store=store))
    return load_dataset("parquet", data_files=str(out), split="train", cache_dir=str(FOLDER / "datasets"))


def options(**more: Any) -> dict[str, Any]:
    """Two steps on the CPU, with nothing written or sent."""
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "logging_steps": 1}
    steps = {"max_steps": 2, "per_device_train_batch_size": 2, "learning_rate": 1e-3}
    return {"output_dir": str(FOLDER / "out"), "use_cpu": True, "bf16": False, **quiet, **steps, **more}


def model() -> Any:
    """The model whose attempts they are."""
    return AutoModelForCausalLM.from_pretrained(MODEL)


def tokenizer() -> Any:
    """Its tokenizer, with TRL's own template for training this family."""
    found = PreTrainedTokenizerFast.from_pretrained(MODEL)
    found.pad_token = "<|endoftext|>"
    template = Path(trl.__file__).parent / "chat_templates" / "qwen3_training.jinja"
    found.chat_template = template.read_text(encoding="utf-8")
    return found


def trained(trainer: Any) -> dict[str, Any]:
    """Trains two steps; what came of it."""
    before = [p.detach().clone() for p in trainer.model.parameters()]
    trainer.train()
    moved = any(not torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))
    return {"steps": trainer.state.global_step, "moved": moved}


def sft(store: Path) -> dict[str, Any]:
    """The stock trainer on tokens: what its collator hands to the model is what was sampled."""
    data, known = exported(store, "trl-sft"), tokenizer()
    trainer = trl.SFTTrainer(model(), args=trl.SFTConfig(**options(max_length=None)), train_dataset=data,
                             processing_class=known)  # fmt: skip
    batch = trainer.data_collator([trainer.train_dataset[n] for n in range(len(data))])
    exact = [
        batch["input_ids"][n][: len(ids)].tolist() == ids
        and batch["labels"][n][: len(ids)].tolist() == data["labels"][n]
        for n, ids in enumerate(data["input_ids"])
    ]
    return {"exact": exact, **trained(trainer)}


def chat(store: Path) -> dict[str, Any]:
    """The stock trainer on conversations: arguments come through `datasets` as they were written."""
    data, known = exported(store, "trl-chat"), tokenizer()
    calls = [c["function"] for m in data["messages"] for one in m for c in one.get("tool_calls", ())]
    arguments = options(max_length=None, assistant_only_loss=True)
    trainer = trl.SFTTrainer(model(), args=trl.SFTConfig(**arguments), train_dataset=data, processing_class=known)
    batch = trainer.data_collator([trainer.train_dataset[n] for n in range(len(data))])
    said = [known.decode(ids[labels != -100]) for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True)]
    return {"arguments": [call["arguments"] for call in calls], "said": said, **trained(trainer)}


def dpo(store: Path, kind: Any, columns: list[str]) -> dict[str, Any]:
    """A DPO trainer: what its collator's mask trains."""
    data, known = exported_once(store), tokenizer()
    trainer = kind(model(), args=trl.DPOConfig(**options(max_length=None)), train_dataset=data.select_columns(columns),
                   processing_class=known)  # fmt: skip
    batch = trainer.data_collator([trainer.train_dataset[n] for n in range(len(data))])
    said = [
        known.decode(ids[mask == 1]) for ids, mask in zip(batch["input_ids"], batch["completion_mask"], strict=True)
    ]
    return {"said": said, "pairs": len(data), **trained(trainer)}


def exported_once(store: Path) -> Any:
    """The preferences, exported where they are not yet."""
    out = FOLDER / "trl-dpo.parquet"
    if not out.exists():
        return exported(store, "trl-dpo")
    return load_dataset("parquet", data_files=str(out), split="train", cache_dir=str(FOLDER / "datasets"))


def grpo(store: Path) -> dict[str, Any]:
    """Our subclass on rows with credit: the trainer's log-probabilities are those that were recorded."""
    data, known = exported(store, "trl-grpo"), tokenizer()
    gaps: list[float] = []

    class Watched(grpo_trainer()):  # type: ignore[misc]
        def _get_per_token_logps_and_entropies(self, *given: Any, **named: Any) -> Any:
            found = super()._get_per_token_logps_and_entropies(*given, **named)
            if not gaps:
                mask = self.watched["tool_mask"] * self.watched["completion_mask"]
                gaps.append(float(((found[0] - self.watched["old_per_token_logps"]).abs() * mask).max()))
            return found

        def _prepare_inputs(self, generation_batch: Any) -> Any:
            self.watched = super()._prepare_inputs(generation_batch)
            return self.watched

    arguments = options(num_generations=2, beta=0.0)
    trainer = Watched(model(), args=trl.GRPOConfig(**arguments), train_dataset=data, reward_funcs=no_reward,
                      processing_class=known)  # fmt: skip
    came = trained(trainer)
    shape = list(trainer.watched["advantages"].shape)
    return {"gap": gaps[0], "shape": shape, "clipped": trainer.state.log_history[0]["clip_ratio/region_mean"], **came}


def main() -> None:
    """All four."""
    store = asyncio.run(recorded())
    messages = ["prompt", "chosen", "rejected", "tools"]
    ids = ["prompt_ids", "chosen_ids", "rejected_ids"]
    came = {
        "sft": sft(store),
        "chat": chat(store),
        "dpo": dpo(store, trl.DPOTrainer, messages),
        "dpo_tokens": dpo(store, dpo_trainer(), ids),
        "grpo": grpo(store),
    }
    sys.stdout.write(json.dumps(came) + "\n")


if __name__ == "__main__":
    main()
