"""The contracts that the reference shows, on runs that keep and break them."""

from __future__ import annotations

import pytest

from assay.analysis.contracts import findings_of_contract, read_contract, verdict_of_contract
from assay.analysis.contracts.fields import ROOTS
from assay.analysis.contracts.syntax import BOUNDED, FUTURE, PAST, STRICT_PAST, VALUES
from assay.records import Step
from scripts.contract_words import MEANINGS, ROOT_VALUES
from scripts.make_reference import ROOT
from tests.analysis.trajectories import acted, call, ran, said, subject

SERVED = [acted(0, "find_user_by_email", email="a@b.c"), acted(1, "get_order"), said(2, "Cancel it?"),
          said(3, "yes, please", "user"), acted(4, "cancel_order"), acted(5, "refund", amount=20)]  # fmt: skip
CODED = [ran(0, "git status"), acted(1, "str_replace", path="main.py", old_str="1", new_str="2"), ran(2, "pytest -q")]
SHARED = acted(0, "read_customer", '{"mail": "ann@shop.example"}')


def judged(name: str, steps: list[Step]) -> tuple[str, list[str]]:
    text = (ROOT / "docs_src" / "contracts" / f"{name}.toml").read_text()
    contract, given = read_contract(text, name), subject(steps)
    found = findings_of_contract(contract, given)
    return verdict_of_contract(contract, given, found).status, [f.rule.partition(".")[2] for f in found]


@pytest.mark.parametrize(
    ("name", "steps"),
    [("customer_service", SERVED), ("repository", CODED), ("team", [SHARED, acted(1, "send_invoice", to="x")])],
)
def test_a_run_that_keeps_the_contract_passes(name: str, steps: list[Step]) -> None:
    assert judged(name, steps) == ("pass", [])


@pytest.mark.parametrize(
    ("name", "steps", "broken"),
    [
        ("customer_service", SERVED[1:], ["identify-first"]),
        ("customer_service", [*SERVED[:3], SERVED[4]], ["ask-before-changing"]),
        ("customer_service", [*SERVED, acted(6, "refund", amount=101)], ["small-refunds-alone"]),
        ("customer_service", [acted(0, "look", error=True), *(said(n, "hm") for n in range(1, 6))], ["mend-errors"]),
        ("repository", [ran(0, "git log --all --oneline | head")], ["no-history"]),
        ("repository", [ran(0, "rm -rf /")], ["no-removal-of-everything"]),
        ("repository", [acted(0, "str_replace", path="tests/test_main.py", old_str="1", new_str="2"), CODED[2]],
         ["tests-stay"]),
        ("repository", CODED[:2], ["test-after-the-last-edit"]),
        ("team", [SHARED, acted(1, "mail", text="write to ann@shop.example")], ["customer-data"]),
        ("team", [Step(0, "other_agent", tool_calls=(call("shell"),), extra={"name": "researcher-2"})], ["permission"]),
    ],
)  # fmt: skip
def test_what_breaks_the_contract_is_named(name: str, steps: list[Step], broken: list[str]) -> None:
    status, found = judged(name, steps)
    assert [rule for rule in found if rule not in ("few-changes", "read-before-change")] == broken
    assert status == ("pass" if broken == ["test-after-the-last-edit"] else "fail")


def test_every_operator_and_every_name_is_explained() -> None:
    written = {name.split("(")[0] for form in MEANINGS for name in form.split("), ")}
    assert written == {*FUTURE, *PAST, *STRICT_PAST, *BOUNDED, *VALUES, "known", "missing"}
    assert set(ROOT_VALUES) == {root for root, below in ROOTS.items() if not below}
