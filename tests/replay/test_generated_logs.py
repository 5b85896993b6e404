"""Thousands of generated broken logs: never an exception, always valid, nothing lost."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.replay import PROVIDERS, Conversation, recover, runs, sanitize, validate

pytestmark = pytest.mark.unmeasured


def converse(events, **options):
    conversation = Conversation(**options)
    for event in events:
        conversation.feed(event)
    return conversation


@pytest.mark.req("S3-45")
@pytest.mark.req("S3-50")
@pytest.mark.req("S3-59")
def test_every_broken_log_gives_a_valid_list_for_every_provider(maker, judge, rounds):
    """From any log comes a list that our rules and an independent judge accept."""
    for seed in range(rounds):
        conversation = converse(maker.make_log(seed))
        for provider in PROVIDERS:
            messages = conversation.messages(provider)
            assert judge.problems(messages, provider) == [], (seed, provider)
            assert validate(messages, provider).errors == [], (seed, provider)


@pytest.mark.req("S3-48")
def test_marked_calls_are_as_valid_as_dropped_ones(maker, judge, rounds):
    """With incomplete calls marked instead of dropped, every list is valid as well."""
    for seed in range(rounds // 4):
        conversation = converse(maker.make_log(seed), incomplete="mark")
        for provider in PROVIDERS:
            assert judge.problems(conversation.messages(provider), provider) == [], seed


def test_repair_finds_nothing_to_do_on_a_built_conversation(maker, rounds):
    """The builder's lists pass through sanitize as they are, without an issue."""
    for seed in range(rounds // 4):
        conversation = converse(maker.make_log(seed))
        for provider in PROVIDERS:
            messages = conversation.messages(provider)
            again = sanitize(messages, provider)
            assert again.messages == messages
            assert again.issues == []


def test_recovery_equals_the_conversation_kept_live(maker, rounds):
    """Recovering a log gives what the live conversation gives, with the same issues."""
    for seed in range(rounds // 4):
        events = maker.make_log(seed)
        live = converse(events)
        recovered = recover(events, "openai")
        assert recovered.messages == live.messages("openai")
        assert recovered.issues == live.issues


def test_asking_in_between_changes_nothing(maker, rounds):
    """Asking for the messages after every event ends with the same list as asking once."""
    for seed in range(rounds // 4):
        events = maker.make_log(seed)
        asked = Conversation()
        for event in events:
            asked.feed(event)
            asked.messages()
        assert asked.messages() == converse(events).messages()


def take_in(events, size):
    """The conversation of a log that is taken in by so many at a time, and asked for in between."""
    conversation = Conversation()
    for start in range(0, len(events), size):
        conversation.feed_all(events[start : start + size])
        conversation.messages()
    return conversation


def of_many_turns(maker, seed):
    """A log of plain exchanges, then something unusual about them, and so on."""
    odd = (maker.make_edited_log, maker.make_run_log, maker.make_log, maker.make_healthy_log)[seed % 4]
    parts = [maker.make_usual_log(seed), odd(seed), maker.make_usual_log(seed + 1, edits=seed % 5)]
    return maker.joined(parts)


def test_events_taken_in_together_say_the_same_as_one_by_one(maker, rounds):
    """However a log is cut into parts, messages, sources and issues are those of its events one after the other."""
    for seed in range(rounds // 5):
        events = of_many_turns(maker, seed)
        alone = converse(events)
        for size in (len(events), 1 + seed % 7):
            together = take_in(events, size)
            for provider in PROVIDERS:
                assert together.messages(provider) == alone.messages(provider), seed
            assert together.issues == alone.issues, seed
            assert together.sources == alone.sources, seed
            assert together.usage == alone.usage, seed


def test_edited_logs_are_valid_at_every_moment_and_however_often_one_asks(maker, judge, rounds):
    """Retractions and summaries, anywhere in a broken log, leave a valid list, the same for all."""
    for seed in range(rounds // 4):
        events = maker.make_edited_log(seed)
        asked = Conversation()
        for event in events:
            asked.feed(event)
            assert judge.problems(asked.messages(), "neutral") == [], seed
        once = converse(events)
        assert once.messages() == asked.messages(), seed
        assert once.issues == asked.issues, seed
        for provider in PROVIDERS:
            assert judge.problems(once.messages(provider), provider) == [], seed


def test_every_moment_of_a_log_is_valid(maker, rounds):
    """At each event of a log the conversation so far is valid."""
    for seed in range(rounds // 20):
        conversation = Conversation()
        for event in maker.make_log(seed):
            conversation.feed(event)
            assert validate(conversation.messages(), "neutral").valid


@pytest.mark.req("S3-60")
@pytest.mark.req("S3-61")
def test_each_word_is_shown_once_or_reported(maker, rounds):
    """Each text, argument and result of a log is in some run's messages, or in the issues, once."""
    for seed in range(rounds):
        maker_of = maker.make_run_log if seed % 4 == 0 else maker.make_log
        events = maker_of(seed)
        expected = expected_words(maker, events)
        found = Counter()
        for run in runs(events):
            conversation = run.conversation
            found.update(maker.words_in(conversation.messages()))
            for issue in conversation.issues:
                found.update(maker.words_in(issue.content))
        assert found == expected, seed


def expected_words(maker, events):
    """Each word as often as the log has it, but for streamed text that a final event covers."""
    expected = Counter()
    for event in events:
        if event.type == "delta" and any(covers(final, event) for final in events):
            continue
        expected.update(maker.words_in(event.data))
    return expected


def covers(final, delta):
    first = final.data.get("covers_from")
    in_range = isinstance(first, int) and first <= delta.seq < final.seq
    of = "thinking" if delta.data.get("kind") == "thinking" else "text"
    is_of = final.type == "assistant" and final.run == delta.run
    return is_of and in_range and of in said_in(final.data["content"])


def said_in(content):
    """The types of blocks with words in them."""
    if isinstance(content, str):
        return {"text"} if content else set()
    texts = {"text" for one in content if isinstance(one, str) and one}
    blocks = [one for one in content if isinstance(one, dict)]
    return texts | {one["type"] for one in blocks if one.get(one.get("type"))}


def test_only_results_are_moved(maker, rounds):
    """Words and calls stay in the order of the log; only results come to their calls."""
    for seed in range(rounds // 2):
        events = maker.make_log(seed)
        place = {}
        for event in events:
            if event.type != "tool_result":
                for word in maker.words_in(event.data):
                    place[word] = None if word in place else event.seq
        shown = [
            place[word]
            for message in converse(events).messages()
            for block in blocks_of(message)
            if block["type"] != "tool_result"
            for word in maker.words_in(block)
            if place.get(word) is not None
        ]
        assert shown == sorted(shown), seed


def blocks_of(message):
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def test_a_healthy_log_needs_no_repair(maker):
    """A log without faults gives no issue, and every call of it is shown with its result."""
    for seed in range(200):
        events = maker.make_healthy_log(seed)
        conversation = converse(events)
        recorded = [event.data["id"] for event in events if event.type == "tool_call"]
        blocks = [block for message in conversation.messages() for block in blocks_of(message)]
        assert [block["id"] for block in blocks if block["type"] == "tool_use"] == recorded
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(answered) == sorted(recorded)
        assert [issue for issue in conversation.issues if issue.type != "incomplete_block"] == []


@pytest.mark.req("S3-43")
def test_words_of_delegated_agents_never_reach_the_parent(maker):
    """In plain logs, jumbled as recorders write them, each word is in the run that said it."""
    for seed in range(600):
        events, owner = maker.make_plain_log(seed)
        found = runs(events)
        assert found[0].agent == "master"
        top = maker.words_in(found[0].conversation.messages())
        assert set(top) == {word for word, who in owner.items() if who == "master"}, seed
        everything = Counter(word for run in found for word in maker.words_in(run.conversation.messages()))
        assert everything == Counter(list(owner)), seed
        assert all(not run.conversation.issues for run in found), seed


def test_broken_logs_of_several_agents_are_valid_and_whole(maker, judge, rounds):
    """Faults anywhere in a plain log: every run is valid, every word is shown once or reported."""
    for seed in range(rounds // 4):
        events = maker.make_broken_plain_log(seed)
        found = Counter()
        for run in runs(events):
            conversation = run.conversation
            for provider in PROVIDERS:
                assert judge.problems(conversation.messages(provider), provider) == [], seed
            found.update(maker.words_in(conversation.messages()))
            found.update(maker.words_in([issue.content for issue in conversation.issues]))
        recorded = Counter()
        for event in events:
            talk = event.type in {"user", "assistant", "tool_call", "tool_result"}
            if talk and event.data.get("agent") != "system":
                recorded.update(maker.words_in(event.data))
        assert found == recorded, seed


@pytest.mark.req("S3-43")
@pytest.mark.parametrize("children", [["seer", "wolf", "scribe"], ["seer", "seer", "seer"]])
def test_agents_at_work_at_the_same_time_do_not_reach_the_parent(maker, children):
    """Children that work in parallel, also of one name, leave the parent's conversation clean."""
    for seed in range(200):
        events, owner = maker.make_parallel_log(seed, children)
        found = runs(events)
        top = maker.words_in(found[0].conversation.messages())
        assert set(top) == {word for word, who in owner.items() if who == "master"}, seed
        shown = Counter()
        for run in found:
            shown.update(maker.words_in(run.conversation.messages()))
            shown.update(maker.words_in([issue.content for issue in run.conversation.issues]))
        assert shown == Counter(list(owner)), seed
        if len(set(children)) == 3:
            for run in found[1:]:
                words = maker.words_in(run.conversation.messages())
                assert len({owner[word] for word in words}) == 1, seed


def test_each_delegation_is_a_run_of_its_own(maker):
    """An agent that is started several times has several runs, each with its own words."""
    for seed in range(300):
        events, owner = maker.make_plain_log(seed)
        for run in runs(events)[1:]:
            words = set(maker.words_in(run.conversation.messages()))
            assert len({owner[word] for word in words}) == 1, seed
