from __future__ import annotations

from pathlib import Path

import pytest

from assay.errors import UserError
from assay.gateway.backends.pricing import BUILT_IN, BUILT_IN_HOST, Price, Prices
from assay.records import Usage

pytestmark = pytest.mark.quick


def test_every_built_in_price_is_dated() -> None:
    assert all(price.as_of is not None and len(price.as_of) == 10 for price in BUILT_IN.values())


def test_cached_tokens_have_their_own_price() -> None:
    price = Price(input=2.0, output=8.0, cached_input=0.5)
    usage = Usage(prompt_tokens=1_000_000, completion_tokens=500_000, cached_tokens=400_000)
    assert price.cost(usage) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.5 * 8)


def test_an_unreported_count_has_no_cost() -> None:
    assert Price(1, 1).cost(Usage(prompt_tokens=5)) is None


def test_a_price_holds_only_where_it_was_listed() -> None:
    prices = Prices()
    assert prices.find("gpt-4o", BUILT_IN_HOST) == BUILT_IN["gpt-4o"]
    assert prices.find("gpt-4o", "127.0.0.1") is None
    assert prices.find("unheard-of", BUILT_IN_HOST) is None


def test_the_users_file_goes_first(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('[models."gpt-4o"]\ninput = 0.1\noutput = 0.2\n')
    prices = Prices.from_file(file)
    assert prices.find("gpt-4o", BUILT_IN_HOST) == prices.find("gpt-4o", "other") == Price(0.1, 0.2)


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
