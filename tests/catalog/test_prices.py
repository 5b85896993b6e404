"""Prices: what requests cost, and what nobody can say."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast._config import configuration, load_prices, prices_file
from holdfast.catalog import Tally
from holdfast.catalog._data import read_data
from holdfast.catalog._prices import Price, Prices, cost_of, price_list, read_prices
from holdfast.catalog._usage import Spent
from holdfast.errors import UsageError
from holdfast.model import Event


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    """A configuration of the test's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    return tmp_path


def used(model, **usage):
    """A tally of one request."""
    return Tally().feed([Event.make("assistant", {"content": "", "model": model, "usage": usage})])


def test_what_a_session_costs():
    """Dollars per million tokens, each kind at its own price."""
    prices = Prices({"m": Price(1.0, 10.0, 0.1, 2.0)})
    beside = {"cache_read_input_tokens": 3_000_000, "cache_creation_input_tokens": 500_000}
    tally = used("m", input_tokens=2_000_000, output_tokens=1_000_000, **beside)
    assert cost_of(tally, prices) == pytest.approx(2 + 10 + 0.3 + 1)


def test_cached_input_is_not_paid_twice():
    """Where the input includes what the cache had, that part costs only as cached."""
    prices = Prices({"m": Price(1.0, 10.0, 0.1)})
    tally = used("m", input_tokens=2_000_000, cache_read_tokens=1_500_000)
    assert cost_of(tally, prices) == pytest.approx(0.5 + 0.15)


def test_without_a_price_of_its_own_cached_input_costs_as_input():
    """A missing price is never taken for free."""
    spent = Spent(input=10**6, cache_read=10**6, cache_write=10**6, fresh=10**6, total=10**6)
    assert Price(2.0, 1.0).cost(spent) == pytest.approx(6.0)


def test_unknown_models_have_no_cost():
    """Nobody knows what they cost, so the session's cost is unknown, not 0."""
    known = used("gpt-4o", input_tokens=10)
    assert cost_of(known, Prices()) == pytest.approx(10 * 2.5 / 1e6)
    known.feed([Event.make("usage", {"model": "mystery", "input_tokens": 1})])
    assert cost_of(known, Prices()) is None
    assert cost_of(Tally(), Prices()) is None


def test_a_total_alone_cannot_be_priced():
    """Input and output differ in price: of a mere total the cost is unknown."""
    assert cost_of(used("gpt-4o", total_tokens=10), Prices()) is None


def test_what_the_log_says_counts():
    """A cost that was recorded is taken as it is, whatever the model."""
    assert cost_of(used("mystery", input_tokens=10, cost=1.25), Prices()) == 1.25


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic:claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4"),
        ("openai/gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("GPT-4o", "gpt-4o"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku"),
        ("claude-3-7-sonnet@20250219", "claude-3-7-sonnet"),
    ],
)
def test_names_of_models(name, same):
    """Who serves a model and its date do not change its price."""
    assert Prices().of(name) == price_list()[same]


@pytest.mark.parametrize("name", ["gpt-5.9", "gpt-4o-audio", "claude-sonnet-9", "", "o3-deep"])
def test_the_next_version_is_unknown(name):
    """A name that is only alike gets no price."""
    assert Prices().of(name) is None


def test_own_prices_come_first():
    """Names may have wildcards, and the longest that fits counts."""
    prices = Prices(
        read_prices(
            {"*": {"input": 1, "output": 1}, "my-*": {"input": 2, "output": 2}, "GPT-4o": {"input": 3, "output": 3}}
        )
    )
    assert [prices.of(name).input for name in ("x", "my-7b", "gpt-4o", "gpt-4o-mini")] == [1.0, 2.0, 3.0, 1.0]


@given(st.text(max_size=200))
def test_any_name(name):
    """Whatever a log calls a model, asking for its price is harmless."""
    assert Prices().of(name) is None or name


def test_many_names_do_not_pile_up():
    """Names are remembered up to a bound, and answers stay right."""
    prices = Prices()
    for number in range(10_050):
        prices.of(f"m{number}")
    assert prices.of("gpt-4o") == Price(2.5, 10.0, 1.25)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"m": 3}, "table"),
        ({"m": {"input": 1}}, "lacks output"),
        ({"m": {"input": 1, "output": 1, "inptu": 1}}, "inptu"),
        ({"m": {"input": -1, "output": 1}}, "input must be"),
        ({"m": {"input": True, "output": 1}}, "input must be"),
        ({"m": {"input": float("nan"), "output": 1}}, "input must be"),
        ({"m": {"input": "1", "output": 1}}, "input must be"),
    ],
)
def test_wrong_prices_are_refused(table, words):
    """The message names the model and what is wrong."""
    with pytest.raises(UsageError, match=words):
        read_prices(table)


def test_prices_from_files(own_place):
    """prices.toml of the user is stronger than the settings, and both than the built-in."""
    settings = {"prices": {"a": {"input": 1, "output": 1}, "gpt-4o": {"input": 9, "output": 9}}}
    place = own_place / "config" / "holdfast" / "prices.toml"
    assert prices_file() == str(place)
    assert load_prices(configuration(settings)).of("gpt-4o").input == 9
    place.parent.mkdir(parents=True)
    place.write_text('["gpt-4o"]\ninput = 7.5\noutput = 8\n')
    prices = load_prices(configuration(settings))
    assert (prices.of("gpt-4o").input, prices.of("a").input) == (7.5, 1.0)


@pytest.mark.parametrize("text", ["[m]\ninput = 1\n", "not toml"])
def test_a_wrong_file_is_named(own_place, text):
    """What is wrong with prices.toml is told with its path."""
    place = own_place / "config" / "holdfast" / "prices.toml"
    place.parent.mkdir(parents=True)
    place.write_text(text)
    with pytest.raises(UsageError, match=r"prices\.toml"):
        load_prices(configuration())


@pytest.mark.parametrize("value", [3, {"m": {"input": 1}}])
def test_wrong_prices_in_the_settings(value):
    """The settings are checked when they are read."""
    with pytest.raises(UsageError, match=r"price"):
        configuration({"prices": value})


def test_prices_and_switches_in_the_environment(monkeypatch):
    """A table is given as JSON, a switch as true or false."""
    monkeypatch.setenv("HOLDFAST_PRICES", '{"m": {"input": 1, "output": 2}}')
    monkeypatch.setenv("HOLDFAST_CATALOG_AUTO_TAGS", "false")
    found = configuration()
    assert load_prices(found).of("m") == Price(1.0, 2.0)
    assert found.get("catalog.auto_tags") is False
    monkeypatch.setenv("HOLDFAST_PRICES", "{")
    with pytest.raises(UsageError, match="JSON"):
        configuration()
    monkeypatch.delenv("HOLDFAST_PRICES")
    monkeypatch.setenv("HOLDFAST_CATALOG_AUTO_TAGS", "maybe")
    with pytest.raises(UsageError, match="true or false"):
        configuration()


def test_built_in_prices_are_sane():
    """Every price is dated, positive, and reading from a cache is cheaper than input."""
    assert re.search(rb"^# .* as of 20\d\d-\d\d", read_data("prices.txt"), re.MULTILINE)
    assert price_list()
    for price in price_list().values():
        assert 0 < price.input <= price.output
        assert price.cache_read is None or price.cache_read < price.input
