"""Thousands of generated broken lists in every dialect: valid, stable, untouched if valid."""

from __future__ import annotations

from functools import cache

import pytest

from holdfast.replay import PROVIDERS, Conversation, sanitize, to_dialect, validate

pytestmark = pytest.mark.unmeasured


def whole_list(maker, seed, provider):
    """A valid list in a provider's dialect."""
    conversation = Conversation()
    for event in maker.make_healthy_log(seed, turns=3):
        conversation.feed(event)
    return conversation.messages(provider)


@cache
def one_of_97(maker, seed, provider):
    """The same, made once: breaking a list makes a copy of it."""
    return whole_list(maker, seed, provider)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.req("S3-49")
@pytest.mark.req("S3-50")
@pytest.mark.req("S3-59")
@pytest.mark.req("S3-63")
def test_every_broken_list_becomes_valid(maker, judge, rounds, provider):
    """A broken list becomes one that our rules and an independent judge accept, in one pass."""
    broken_lists = 0
    for seed in range(rounds):
        messages = maker.break_list(one_of_97(maker, seed % 97, provider), seed)
        given = str(messages)
        was_valid = validate(messages, provider).valid
        broken_lists += not was_valid
        result = sanitize(messages, provider)
        assert judge.problems(result.messages, provider) == [], seed
        assert validate(result.messages, provider).errors == [], seed
        assert result.recovered is True
        assert bool(result.issues) != was_valid, seed
        assert str(messages) == given, f"the input was changed: {seed}"
    assert broken_lists > rounds // 2


@pytest.mark.parametrize("provider", PROVIDERS)
def test_repairing_twice_is_repairing_once(maker, rounds, provider):
    """What was repaired needs no further repair."""
    for seed in range(rounds // 4):
        messages = maker.break_list(one_of_97(maker, seed % 97, provider), seed)
        once = sanitize(messages, provider)
        twice = sanitize(once.messages, provider)
        assert twice.messages == once.messages
        assert twice.issues == []


@pytest.mark.parametrize("provider", PROVIDERS)
def test_marking_gives_valid_lists_too(maker, judge, rounds, provider):
    """With incomplete calls marked, a broken list becomes valid as well, and stays as it is."""
    for seed in range(rounds // 8):
        messages = maker.break_list(one_of_97(maker, seed % 97, provider), seed)
        once = sanitize(messages, provider, incomplete="mark")
        assert judge.problems(once.messages, provider) == [], seed
        assert sanitize(once.messages, provider, incomplete="mark").messages == once.messages


@pytest.mark.parametrize("provider", PROVIDERS)
def test_keeping_is_stable(maker, rounds, provider):
    """With incomplete calls kept, repairing twice is repairing once."""
    for seed in range(rounds // 8):
        messages = maker.break_list(one_of_97(maker, seed % 97, provider), seed)
        once = sanitize(messages, provider, incomplete="keep")
        assert sanitize(once.messages, provider, incomplete="keep").messages == once.messages


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.req("S3-60")
def test_a_valid_list_comes_out_unchanged(maker, rounds, provider):
    """A valid list is handed back equal, without issues."""
    for seed in range(rounds // 8):
        messages = whole_list(maker, seed, provider)
        result = sanitize(messages, provider)
        assert result.messages == messages
        assert result.issues == []


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.req("S3-61")
def test_what_is_whole_in_a_broken_list_is_kept(maker, rounds, provider):
    """Dropping one message loses no words but those of the message and of calls cut in half."""
    for seed in range(rounds // 8):
        messages = whole_list(maker, seed, provider)
        at = seed % len(messages)
        rest = messages[:at] + messages[at + 1 :]
        kept = set(maker.words_in(sanitize(rest, provider).messages))
        reported = set(maker.words_in([issue.content for issue in sanitize(rest, provider).issues]))
        assert kept | reported >= set(maker.words_in(rest)), seed


def test_every_dialect_is_read_for_every_provider(maker, judge):
    """A list of one dialect, broken or not, becomes valid for any other provider."""
    for seed in range(60):
        for source in PROVIDERS:
            messages = maker.break_list(whole_list(maker, seed, source), seed)
            for provider in PROVIDERS:
                result = sanitize(messages, provider).messages
                assert judge.problems(result, provider) == [], (seed, source, provider)


def test_whole_lists_of_one_dialect_keep_their_words_in_another(maker):
    """Converting a whole list by repair loses no word of it."""
    for seed in range(60):
        for source in PROVIDERS:
            messages = whole_list(maker, seed, source)
            for provider in PROVIDERS:
                words = set(maker.words_in(sanitize(messages, provider).messages))
                lost = set(maker.words_in(messages)) - words
                assert not lost or _all_thought(messages, lost), (seed, source, provider)


def _all_thought(messages, words):
    """Whether words were only thought, which most dialects cannot carry."""
    parts = [str(part).split() for part in _parts(messages) if "thinking" not in str(part)]
    said = {word.strip("'\"},])") for part in parts for word in part}
    return not words & said


def _parts(messages):
    for message in messages:
        content = message.get("content", message.get("parts"))
        yield from content if isinstance(content, list) else [message]


def test_neutral_lists_survive_conversion_as_they_are(maker, judge):
    """Plain conversion of a valid neutral list gives a valid list of each dialect."""
    for seed in range(100):
        neutral = whole_list(maker, seed, "neutral")
        for provider in PROVIDERS:
            assert judge.problems(to_dialect(neutral, provider), provider) == []
