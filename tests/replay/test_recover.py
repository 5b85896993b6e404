"""Recovery of a log: at any point, within a window, and the questions asked of a list."""

from __future__ import annotations

import pytest

from holdfast import replay
from holdfast.errors import UsageError
from holdfast.model import Event
from holdfast.replay import (
    PROVIDERS,
    Issue,
    LeftOut,
    TokenCount,
    has_incomplete_tool_call,
    is_complete,
    last_tool_call,
    recover,
    recover_todos,
    tool_result_message,
    validate,
)


def log(*steps):
    return [Event.make(type, data, seq=seq) for seq, (type, data) in enumerate(steps)]


def user(content):
    return "user", {"content": content}


def assistant(content, **more):
    return "assistant", {"content": content, **more}


def call(identity, tool="Read", **params):
    return "tool_call", {"id": identity, "tool": tool, "params": params}


def result(identity, value="done"):
    return "tool_result", {"toolCallId": identity, "result": value}


# --- recovery


@pytest.mark.req("S3-32")
@pytest.mark.req("S3-44")
def test_a_session_is_recovered_for_a_provider():
    """Events become a valid list, the system prompt apart, the issues reported."""
    events = log(("system", {"content": "be kind"}), user("hi"), assistant("hello"), call("a"))
    recovery = recover(events, "anthropic", session_id="s-1")
    assert [m["role"] for m in recovery.messages] == ["user", "assistant", "user"]
    assert recovery.system == "be kind"
    assert recovery.recovered is True
    assert recovery.left_out is None
    assert recovery.log_line == (
        "Session s-1 recovery: Sanitized 1 issue(s): "
        "[incomplete_tool_call] call a to Read has no result: marked as interrupted"
    )
    assert recover([]).log_line == "Session unnamed recovery: No issues found"


def test_any_past_point_can_be_recovered():
    """``at`` takes the events up to and including that number, or that place."""
    events = log(user("a"), assistant("b"), user("c"))
    assert [m["content"] for m in recover(events, at=1).messages] == ["a", "b"]
    unnumbered = [Event.make(*user("a")), Event.make(*assistant("b"))]
    assert [m["content"] for m in recover(unnumbered, at=0).messages] == ["a"]
    assert recover([None, *events], at=5).messages[0]["content"] == "a"


@pytest.mark.req("B-16")
def test_incomplete_calls_can_be_marked_or_kept():
    """Marking tells the model; keeping leaves the call for the caller to run again."""
    events = log(user("go"), call("a", path="x"))
    assert "interrupted" in str(recover(events, incomplete="mark").messages)
    kept = recover(events, incomplete="keep").messages
    assert has_incomplete_tool_call(kept)
    assert last_tool_call(kept) == {"id": "a", "name": "Read", "input": {"path": "x"}}
    assert not has_incomplete_tool_call(recover(events).messages)


def test_unknown_words_are_refused():
    """A misspelt provider or way is the caller's error."""
    with pytest.raises(UsageError):
        recover([], "antropic")
    with pytest.raises(UsageError):
        recover([], incomplete="forget")


def test_the_room_names_what_it_has():
    """Every exported name is there; a misspelt one is an ordinary attribute error."""
    for name in replay.__all__:
        assert getattr(replay, name) is not None
    with pytest.raises(AttributeError):
        replay.recuver  # noqa: B018 - the access is the test


# --- windows


def long_log(turns=20):
    """Turns of 100 bytes each way, with a call in every third one."""
    steps = [user("first " + "x" * 94)]
    for number in range(turns):
        steps.append(assistant(f"{number:03} " + "a" * 96))
        if number % 3 == 0:
            steps += [call(f"c{number}"), result(f"c{number}", "r" * 100)]
        steps.append(user(f"{number:03} " + "u" * 96))
    return log(*steps)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("window_tokens", [0, 30, 100, 200, 333, 700, 10_000])
@pytest.mark.req("B-38")
def test_a_window_is_valid_and_keeps_the_first_turn(provider, window_tokens, judge):
    """Whatever fits is shown, after the first user turn; a pair is never split."""
    recovery = recover(long_log(), provider, window_tokens=window_tokens)
    assert judge.problems(recovery.messages, provider) == []
    assert validate(recovery.messages, provider).errors == []
    assert "first xxx" in str(recovery.messages[0])
    if window_tokens >= 30:
        assert recovery.count.tokens <= window_tokens


def test_a_window_shows_the_newest_and_says_what_it_leaves_out():
    """The report counts what is not shown and names its events; the log is not touched."""
    events = long_log()
    recovery = recover(events, window_tokens=200)
    assert str(events[-1].data["content"]) in str(recovery.messages[-1])
    assert recovery.left_out.messages > 0
    assert recovery.left_out.calls > 0
    assert recovery.left_out.first_seq == 1
    assert recovery.left_out.last_seq < events[-1].seq
    everything = recover(events, window_tokens=100_000)
    assert everything.left_out is None
    assert recovery.left_out.tokens + recovery.count.tokens == everything.count.tokens
    assert everything.messages == recover(events).messages


def test_a_window_that_is_too_small_keeps_the_first_turn_and_says_so():
    """If not even the first turn fits, it is shown all the same, with an issue."""
    recovery = recover(long_log(), window_tokens=5)
    assert len(recovery.messages) == 1
    assert recovery.issues == [Issue("window_too_small", "list", "the first turn alone takes 25 of 5 tokens")]


def test_a_window_prefers_the_latest_summary():
    """After a compaction the summary is kept instead of the first turn, without earlier results."""
    steps = [user("old"), call("a"), result("a"), user("covered")]
    steps += [("compaction", {"summary": "they met", "covers": [3, 3]})]
    steps += [assistant("a" * 400), user("u" * 400), assistant("z" * 40), user("last")]
    recovery = recover(log(*steps), window_tokens=20)
    assert "they met" in str(recovery.messages[0])
    assert "old" not in str(recovery.messages)
    assert "tool_result" not in str(recovery.messages)
    assert recovery.messages[-1]["content"] == "last"
    assert recovery.left_out == LeftOut(messages=4, calls=1, tokens=recovery.left_out.tokens, first_seq=0, last_seq=6)


def test_a_lone_turn_leaves_nothing_out():
    """A conversation of one turn that is too long is shown whole; there is nothing to leave out."""
    recovery = recover(log(user("x" * 400)), window_tokens=10)
    assert len(recovery.messages) == 1
    assert recovery.left_out is None
    assert recover([], window_tokens=10).messages == []


def test_the_assistants_first_words_can_be_cut_before():
    """A window of a log that the assistant began counts no event for the turn put before it."""
    recovery = recover(log(assistant("a" * 400), user("b"), assistant("c")), window_tokens=20)
    assert recovery.messages[0]["role"] == "user"
    assert recovery.left_out.first_seq == 0


def test_tokens_are_counted_by_the_best_figure_there_is():
    """A counter passed in, the provider's own usage, or an estimate; the source is named."""
    words = log(user("one two three"), assistant("four five"))
    counted = recover(words, window_tokens=100, count_tokens=lambda text: len(text.split()))
    assert counted.count == TokenCount(5, "counter")
    assert recover(words, window_tokens=100).count == TokenCount(7, "estimate")
    for name in ("output_tokens", "completion_tokens"):
        reported = log(user("one two three"), assistant("four five", usage={name: 11}))
        assert recover(reported, window_tokens=100).count == TokenCount(15, "estimate+usage")
    odd = log(user("one two three"), assistant("four five", usage={"output_tokens": "many"}))
    assert recover(odd, window_tokens=100).count == TokenCount(7, "estimate")
    assert recover([], window_tokens=5).count == TokenCount(0, "estimate")


def test_everything_a_message_holds_is_counted():
    """Thinking, calls, results, images and foreign blocks all have a length."""
    picture = {"type": "image", "source": {"type": "url", "url": "u"}}
    reasoning = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"}
    events = log(
        user([picture]),
        ("thinking", {"content": "hm", "signature": "s"}),
        assistant([reasoning, {"type": "text", "text": "so"}]),
        call("a"),
        result("a", [{"type": "text", "text": "part"}, picture]),
    )
    tokens = recover(events, "neutral", window_tokens=10_000).count.tokens
    assert 3_200 < tokens < 3_300


# --- questions


CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "R", "input": {}}]}
TWO = {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "R", "input": {"n": i}} for i in "ab"]}
HI = {"role": "user", "content": "hi"}
BYE = {"role": "assistant", "content": "bye"}


def told(identity):
    block = {"type": "tool_result", "tool_use_id": identity, "content": "x"}
    return {"role": "user", "content": [block]}


@pytest.mark.parametrize(
    ("messages", "incomplete"),
    [
        ([], False),
        ([HI], False),
        ([HI, BYE], False),
        ([HI, CALL], True),
        ([HI, CALL, told("a")], False),
        ([HI, CALL, HI], False),
        ([HI, TWO, told("a")], True),
        ([HI, TWO, told("b"), told("a")], False),
        ([told("a")], False),
        ([HI, None], False),
        ([HI, {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "R"}}]}], True),
    ],
)
@pytest.mark.req("S3-33")
def test_a_list_may_end_with_an_incomplete_call(messages, incomplete):
    """True if the list ends with a call that has no result, in any dialect."""
    assert has_incomplete_tool_call(messages) is incomplete


@pytest.mark.req("S3-34")
def test_the_last_call_is_told():
    """The call with which the list ends: the first of several, the first unanswered one."""
    assert last_tool_call([]) is None
    assert last_tool_call([HI, BYE]) is None
    assert last_tool_call([HI, CALL]) == {"id": "a", "name": "R", "input": {}}
    assert last_tool_call([HI, TWO])["id"] == "a"
    assert last_tool_call([HI, TWO, told("a")])["id"] == "b"


@pytest.mark.req("S3-35")
@pytest.mark.req("B-15")
def test_a_result_message_answers_a_call():
    """The message that answers a call completes the list, in every dialect."""
    made = tool_result_message("a", {"content": "fine"})
    assert made == {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "fine"}]}
    assert validate([HI, CALL, made]).valid
    assert tool_result_message("a", "no", is_error=True)["content"][0]["is_error"] is True
    assert tool_result_message("a", "x", provider="openai") == {"role": "tool", "tool_call_id": "a", "content": "x"}
    with pytest.raises(UsageError):
        tool_result_message("a", "x", provider="antropic")


@pytest.mark.parametrize(
    ("messages", "complete"),
    [([], False), ([HI], False), ([HI, BYE], True), ([HI, CALL], False), ([HI, CALL, told("a")], False)],
)
@pytest.mark.req("S3-36")
@pytest.mark.req("S3-73")
def test_a_conversation_is_complete_when_the_assistant_had_the_last_word(messages, complete):
    """Complete means that the assistant spoke last and waits for nothing; nothing is stored."""
    assert is_complete(messages) is complete


def test_what_cannot_be_read_is_not_complete():
    """A message that raises when touched says nothing."""

    class Hostile(dict):
        def get(self, *args):
            raise RuntimeError

    assert is_complete([Hostile(role="assistant", content="x")]) is False


# --- todos


def todos(*contents):
    return [{"content": content, "status": "pending"} for content in contents]


@pytest.mark.req("S3-37")
@pytest.mark.req("S3-71")
@pytest.mark.req("B-17")
def test_the_last_todos_written_win():
    """The last TodoWrite call or todo_update counts, whatever the case of the tool's name."""
    one, two = todos("a"), todos("b", "c")
    assert recover_todos([]) == []
    assert recover_todos(log(call("1", "TodoWrite", todos=one))) == one
    assert recover_todos(log(call("1", "TodoWrite", todos=one), call("2", "todowrite", todos=two))) == two
    assert recover_todos(log(call("1", "TodoWrite", todos=one), ("todo_update", {"todos": two}))) == two
    assert recover_todos(log(("todo_update", {"todos": two}), call("1", "TODOWRITE", todos=one))) == one
    assert recover_todos(log(call("1", "Read", todos=one))) == []


def test_other_tools_may_write_todos():
    """The names are configurable."""
    events = log(call("1", "Plan", todos=todos("a")), call("2", "TodoWrite", todos=todos("b")))
    assert recover_todos(events, names=["plan"]) == todos("a")


@pytest.mark.parametrize("params", [{}, {"todos": None}, {"todos": "x"}, {"todos": 5}])
def test_malformed_todos_are_none(params):
    """A malformed last call gives an empty list; an unreadable event changes nothing."""
    events = log(call("1", "TodoWrite", todos=todos("a")), call("2", "TodoWrite", **params))
    assert recover_todos(events) == []
    assert recover_todos([*events, None, Event("todo_update", 9, 0, b"[]")]) == []


def test_an_id_that_is_another_ones_short_form_is_given_to_one_call_only():
    """Nine letters or digits may be what another call is called elsewhere."""
    from holdfast.replay._text import CallNames, mistral_id

    names = CallNames()
    assert names.take("call-with-a-longer-id") == "call-with-a-longer-id"
    short = mistral_id("call-with-a-longer-id")
    assert names.take(short) == f"{short}-2"
    assert names.take("abcdefghi") == "abcdefghi"
    assert names.take("abcdefghi") == "abcdefghi-2"


def test_a_long_id_gives_way_if_its_short_form_is_taken():
    """Whatever OpenAI would call it is no other call's name."""
    from holdfast.replay._text import OPENAI_ID_CHARS_MAX, CallNames, openai_id

    long = "c" * (OPENAI_ID_CHARS_MAX + 1)
    names = CallNames()
    short = names.take(openai_id(long))
    assert names.take(long) == f"{long}-2"
    assert names.take(short) == f"{short}-2"
