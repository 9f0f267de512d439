"""The student that reads rows, against a softmax written out; needs torch and transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from assay.errors import UserError
from assay.learning.curation.student import TransformersStudent


def test_ranks_and_surprisals_are_those_of_the_softmax(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
             "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 40, "max_position_embeddings": 32}  # fmt: skip
    torch.manual_seed(0)
    made = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**shape))
    made.save_pretrained(tmp_path)
    row = np.arange(3, 23, dtype=np.int32)
    found = TransformersStudent(str(tmp_path)).read(row)
    with torch.no_grad():
        logits = made.eval()(torch.tensor(row[None].astype(np.int64))).logits[0].double().numpy()
    for at in range(1, len(row)):
        odds = np.exp(logits[at - 1] - logits[at - 1].max())
        chance = odds[row[at]] / odds.sum()
        assert found.nll[at] == pytest.approx(-np.log(chance), abs=1e-5)
        assert found.rank[at] == 1 + (odds > odds[row[at]]).sum()
    assert np.isnan(found.nll[0])
    with pytest.raises(UserError, match="token 99 is not in the student's 40"):
        TransformersStudent(str(tmp_path)).read(np.array([1, 99]))


def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(UserError, match="not a checkpoint of a causal model"):
        TransformersStudent(str(tmp_path))
