"""Secrets are taken out however they are written, and nothing else is."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.rollout.recording.redaction import Redactor
from assay.settings import Settings

pytestmark = pytest.mark.newest
SECRET = 'p/w+"x"\\\u00e9\n0123456789'
KEYS = {
    "sk_key": "sk-proj-" + "aB3dE6gH9jK2mN5pQ8sT1vW4",
    "github_token": "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hI6",
    "aws_access_key": "AKIA" + "ABCDEFGHIJKLMNO7",
    "google_key": "AIza" + "SyA-bcdefghijklmnopqrstuvwxyz012345",
    "slack_token": "xoxb-" + "123456789012-abcdefABCDEF",
    "huggingface_token": "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "private_key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\nabc=\n-----END RSA PRIVATE KEY-----",
}


def escaped(text: str, choose: random.Random) -> str:
    """A JSON string in which any character may be written in any way that JSON allows."""
    written = []
    for char in text:
        plain = json.dumps(char, ensure_ascii=False)[1:-1]
        code = json.dumps(char)[1:-1] if ord(char) > 0xFFFF else f"\\u{ord(char):04x}"
        ways = [plain, code, *(["\\/"] if char == "/" else [])]
        written.append(choose.choice(ways))
    return '"' + "".join(written) + '"'


# A backslash that stands right before a secret is taken out with it.
TEXT = st.text(st.characters(exclude_characters="\\", exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 2), TEXT, TEXT)
def test_known_values_are_found_however_json_writes_them(seed: int, deep: int, before: str, after: str) -> None:
    choose = random.Random(seed)
    text = f'{{"content": {escaped(before + SECRET + after, choose)}}}'
    for _ in range(deep):
        text = json.dumps({"content": text}, ensure_ascii=choose.random() < 0.5)
    cleaned = Redactor({"DB_PASSWORD": SECRET}).clean(text.encode())
    assert cleaned.names == ("DB_PASSWORD",)
    found: Any = json.loads(cleaned.data)["content"]
    for _ in range(deep):
        found = json.loads(found)["content"]
    assert found == before.replace(SECRET, "[redacted:DB_PASSWORD]") + "[redacted:DB_PASSWORD]" + after


def test_credentials_of_a_place_and_of_a_collector_are_known_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "Zq8vK3mP0tR5wX7yB2nC4dF6gH9jL1sA5uE8iO0k")
    headers = "x-team=production,api-key=hc9f8e7d6c5b4a39,authorization=Bearer%20b4a3928170605f4e"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", headers)
    redactor = Redactor(Settings(Path("cache"), Path("store")).secrets())
    text = b"Zq8vK3mP0tR5wX7yB2nC4dF6gH9jL1sA5uE8iO0k hc9f8e7d6c5b4a39 b4a3928170605f4e production"
    assert redactor.clean(text).data.decode().split() == [
        "[redacted:AWS_SECRET_ACCESS_KEY]",
        "[redacted:OTEL_EXPORTER_OTLP_HEADERS?api-key]",
        "[redacted:OTEL_EXPORTER_OTLP_HEADERS?authorization]",
        "production",
    ]


@pytest.mark.parametrize("name", KEYS)
def test_keys_are_known_by_their_shape(name: str) -> None:
    for text in (KEYS[name], f"a\n{KEYS[name]}", f'k="{KEYS[name]}"', f"{KEYS[name]}, {KEYS[name]}"):
        body = json.dumps({"a": [text], "b": 1}).encode()
        cleaned = Redactor().clean(body)
        assert cleaned.names == (name,)
        assert KEYS[name][:20].encode() not in cleaned.data
        assert json.loads(cleaned.data)["b"] == 1


@pytest.mark.parametrize("name", [*KEYS, "KNOWN"])
@given(st.integers(0, 12_000), st.integers(0, 3_000), st.data())
def test_a_secret_that_touches_a_part_is_found_wherever_it_begins(
    name: str, before: int, after: int, data: st.DataObject
) -> None:
    secret = KEYS.get(name, "known-value-0123456789").encode()
    whole = b"x " * before + secret + b" y" * after
    one = data.draw(st.integers(before * 2 + 1, before * 2 + len(secret) - 1))
    other = data.draw(st.integers(before * 2, one - 1))
    redactor = Redactor({"KNOWN": "known-value-0123456789"})
    assert redactor.touches(whole, other, one)
    assert redactor.touches(whole, one, len(whole) - data.draw(st.integers(0, after * 2)))
    assert not redactor.touches(b"x " * before, before, before * 2)


def test_ordinary_names_are_left_alone() -> None:
    text = "disk-management-of-many-volumes-2 sk-learn-0-24-documentation-page-index task-sk-1 AKIAlike eyJ hf_model "
    text += "call_a1b2c3d4e5f6a7b8c9d0e1f2 toolu_01A2b3C4d5E6f7G8h9I0j1K2 " + "-" * 80 + " additionalProperties"
    assert Redactor({"short": "yes"}).clean(text.encode()).names == ()


def test_values_are_cleaned_in_place_and_the_rest_is_kept() -> None:
    redactor = Redactor({"TOKEN": "hunter2-hunter2"})
    value = {"hunter2-hunter2": [1, None, "my hunter2-hunter2."], "b": {"c": True}}
    assert redactor.names_in(value) == ("TOKEN",)
    assert redactor.value(value) == {"[redacted:TOKEN]": [1, None, "my [redacted:TOKEN]."], "b": {"c": True}}
    assert redactor.text("nothing here") == "nothing here"


@given(st.binary(max_size=400))
def test_any_bytes_may_be_looked_through(data: bytes) -> None:
    redactor = Redactor({"a": "password1", "b": "pass\\word\n\u00e9"})
    assert redactor.clean(data).data == data or redactor.clean(data).names


def test_half_a_surrogate_pair_is_no_obstacle() -> None:
    redactor = Redactor({"TOKEN": "hunter2-hunter2"})
    assert redactor.text("\ud800 hunter2-hunter2") == "\ud800 [redacted:TOKEN]"
    assert redactor.names_in(["\ud800 hunter2-hunter2"]) == ("TOKEN",)


def test_a_long_body_without_secrets_costs_little() -> None:
    import time

    letters = string.ascii_letters + " _-\\n"
    body = "".join(random.Random(1).choice(letters) for _ in range(50_000)).encode()
    redactor, best = Redactor(), 1.0
    for _ in range(20):
        began = time.perf_counter()
        redactor.clean(body)
        best = min(best, time.perf_counter() - began)
    assert best < 0.001  # 0.1 ms where nobody else computes


def test_runs_of_one_character_as_pictures_have_them_cost_little() -> None:
    import time

    redactor, began = Redactor(), time.process_time()
    for letter in "AJ-":
        redactor.clean(f'{{"url":"data:image/png;base64,{letter * 3_000_000}"}}'.encode())
    assert time.process_time() - began < 2
