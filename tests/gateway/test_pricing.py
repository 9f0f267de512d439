from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import UserError
from assay.gateway.backends.pricing import Price, Prices
from assay.records import Usage

pytestmark = pytest.mark.quick


def test_cached_tokens_have_their_own_price() -> None:
    price = Price(input=2.0, output=8.0, cached_input=0.5)
    usage = Usage(prompt_tokens=1_000_000, completion_tokens=500_000, cached_tokens=400_000)
    assert price.cost(usage) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.5 * 8)


def test_an_unreported_count_has_no_cost() -> None:
    assert Price(1, 1).cost(Usage(prompt_tokens=5)) is None


def test_a_price_that_nobody_said_is_unknown() -> None:
    assert Prices().find("gpt-4o") is None


def test_the_users_file_says_the_price(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('[models."gpt-4o"]\ninput = 0.1\noutput = 0.2\nas_of = "2026-11-01"\n')
    assert Prices.from_file(file).find("gpt-4o") == Price(0.1, 0.2, as_of="2026-11-01")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[models."m"]\ninput = 1\n', "output"),
        ('[models."m"]\ninput = -1\noutput = 1\n', r"models\[\.\.\.\]\.input"),
        ('[models."m"]\ninput = "1"\noutput = 1\n', "Expected `float`"),
        ("models = 3", r"\$\.models"),
        ("[[[", "prices.toml"),
    ],
)
def test_a_wrong_file_is_explained(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    with pytest.raises(UserError, match=named):
        Prices.from_file(file)


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="ASSAY_PRICES"):
        Prices.from_file(tmp_path / "none.toml")
