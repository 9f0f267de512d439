"""Whatever a folder holds, only `UserError` comes out, and what loads is a record that can be stored."""

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from assay.errors import UserError
from assay.records import Task, canonical_bytes, decode
from assay.tasks import AssayTable, HarborTask, lint_task, load_task

pytestmark = pytest.mark.quick
FAST = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def keys_of(kind: Any) -> set[str]:
    """Every key of the schema, at any depth, so that random structures hit known tables."""
    found: set[str] = set()
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            found |= {field.encode_name} | keys_of(field.type)
    for inner in ("type", "item_type", "value_type"):
        if isinstance(getattr(kind, inner, None), inspect.Type):
            found |= keys_of(getattr(kind, inner))
    for inner_type in getattr(kind, "types", ()):
        found |= keys_of(inner_type)
    return found


KEYS = sorted(keys_of(inspect.type_info(HarborTask)) | keys_of(inspect.type_info(AssayTable)) | {"assay", "memory"})
VALUES = st.one_of(
    st.sampled_from(["1.4", "public", "allowlist", "separate", "/workspace", "../x", "first", "2G", "${A:-b}", "a/b"]),
    st.text(max_size=8).filter(lambda t: t.isprintable()),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.booleans(),
    st.dates(),
)
NAMES = st.one_of(st.sampled_from(KEYS), st.text(max_size=4))
TREES = st.recursive(VALUES, lambda v: st.lists(v, max_size=3) | st.dictionaries(NAMES, v, max_size=4), max_leaves=12)
TOP = ["agent", "verifier", "environment", "steps", "metadata", "task", "artifacts", "schema_version", "solution"]
FILES = ["task.toml", "instruction.md", "tests/test.sh", "environment/Dockerfile", "steps/first/instruction.md"]


def outcome(toml: bytes, others: dict[str, bytes]) -> None:
    """Loads and lints; anything but `UserError` escapes and fails the test."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for at, data in {"instruction.md": b"Do.", "tests/test.sh": b"exit 0\n", **others, "task.toml": toml}.items():
            (folder / at).parent.mkdir(parents=True, exist_ok=True)
            (folder / at).write_bytes(data)
        lint_task(folder)
        with suppress(UserError):
            task = load_task(folder).task
            assert decode(canonical_bytes(task), Task) == task


@pytest.mark.long
@FAST
@given(st.dictionaries(st.sampled_from(TOP), TREES, max_size=5))
def test_random_structures(data: dict[str, Any]) -> None:
    outcome(tomli_w.dumps(data).encode("utf-8", "replace"), {"steps/first/instruction.md": b"Do."})


@pytest.mark.long
@FAST
@given(st.binary(max_size=200), st.dictionaries(st.sampled_from(FILES), st.binary(max_size=80), max_size=4))
def test_random_bytes(toml: bytes, others: dict[str, bytes]) -> None:
    outcome(toml, others)


@FAST
@given(st.text(alphabet="[]={}.\"'#\n ,ax1-:T", max_size=60))
def test_random_toml_text(text: str) -> None:
    outcome(text.encode(), {})


@pytest.mark.long
@FAST
@given(st.dictionaries(st.sampled_from(sorted(keys_of(inspect.type_info(AssayTable)))), TREES, max_size=4))
def test_random_keys_of_ours(data: dict[str, Any]) -> None:
    outcome(tomli_w.dumps({"metadata": {"assay": data}}).encode("utf-8", "replace"), {})
