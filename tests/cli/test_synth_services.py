"""`assay synth services` writes a set that `assay run` takes, and says what is in it."""

from __future__ import annotations

import json

import pytest

from .conftest import Say


@pytest.mark.long
def test_a_set_is_made_reported_and_run(say: Say) -> None:
    words = ("synth", "services", "shop", "mail", "--out", "set", "--count", "4", "--knob", "shop.orders=40")
    code, out, err = say(*words)
    assert code == 0, err
    assert "4 tasks of 4 in set/family.json; left out: 0 near-duplicates" in out
    assert "over-specification: 0." in out
    assert "tasks: 4 of 4" in err or "tasks: 1 of 4" in err
    assert "next: assay run set --agent oracle" in err
    code, out, _ = say(*words, "--json")
    report = json.loads(out)
    assert (code, len(report["tasks"]), report["wanted"]) == (0, 4, 4)
    assert sum(report["knobs"]["level"].values()) == 4
    assert set(report["given"]) == {"mean", "median", "share"}
    code, _, err = say("run", "set", "--agent", "oracle", "--run", "proof")
    assert code == 0, err
    code, out, _ = say("stats", "proof", "--table", "economy", "--table", "rates", "--json")
    found = json.loads(out)
    assert "economy" not in json.dumps(found["groups"])
    (economy,) = found["tables"]["economy"]
    assert economy["attempts"] == 4
    assert economy["reads"] >= economy["needed_reads"] > 0
    code, out, _ = say("show", f"{report['tasks'][0]}@0", "--run", "proof")
    assert code == 0
    assert "reads, " in out
    assert "messages to the person, " in out


def test_another_set_does_not_replace_one(say: Say) -> None:
    assert say("synth", "services", "mail", "--out", "set", "--count", "1")[0] == 0
    code, _, err = say("synth", "services", "mail", "--out", "set", "--count", "1", "--seed", "1")
    assert code != 0
    assert "made with other options" in err
    code, _, err = say("lint", "set")
    assert code != 0
    assert "it names tasks of a family" in err


def test_wrong_options_are_named(say: Say) -> None:
    for words, message in (
        (("nothing",), "nothing"),
        (("mail", "--knob", "messages=3"), "APP.KNOB=VALUE"),
        (("mail", "--mood", "glad"), "--mood"),
        (("mail", "--mood", "upset", "--level", "explicit"), "need a person"),
    ):
        code, _, err = say("synth", "services", *words, "--out", "set")
        assert code != 0
        assert message in err
