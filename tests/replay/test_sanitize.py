"""Repairing lists: the layers, the ten scenarios, and values that fight back."""

from __future__ import annotations

import gc
import math

import pytest

import holdfast.replay._messages as room
from holdfast.errors import UsageError
from holdfast.replay import PROVIDERS, Issue, format_issues, recovery_line, sanitize, validate
from holdfast.replay._text import collector_paused


def user(content):
    return {"role": "user", "content": content}


def assistant(content):
    return {"role": "assistant", "content": content}


def use(identity, name="Read", **given):
    return {"type": "tool_use", "id": identity, "name": name, "input": given}


def answer(identity, content="done"):
    return {"type": "tool_result", "tool_use_id": identity, "content": content}


def text(value):
    return {"type": "text", "text": value}


def types(result):
    return [issue.type for issue in result.issues]


HI = user("hi")
CALL = assistant([use("a")])
ANSWER = user([answer("a")])
BYE = assistant("bye")


# --- the ten scenarios


@pytest.mark.req("S3-66")
def test_scenario_1_empty():
    """An empty list stays empty: a fresh start."""
    result = sanitize([])
    assert (result.messages, result.issues, result.recovered) == ([], [], True)


@pytest.mark.req("S3-66")
def test_scenario_2_incomplete_at_the_end():
    """A call at the end without a result is removed, the words before it stay."""
    result = sanitize([HI, assistant([text("I look"), use("a")])])
    assert result.messages == [HI, assistant("I look")]
    assert types(result) == ["incomplete_tool_call"]


@pytest.mark.req("S3-66")
def test_scenario_3_incomplete_in_the_middle():
    """A call without a result in the middle is removed, everything around it stays."""
    result = sanitize([HI, CALL, user("well?"), BYE])
    assert result.messages == [user([text("hi"), text("well?")]), BYE]


@pytest.mark.req("S3-66")
def test_scenario_4_orphaned_result():
    """A result without a call is removed."""
    result = sanitize([HI, BYE, ANSWER, BYE])
    assert result.messages == [HI, assistant([text("bye"), text("bye")])]
    assert types(result) == ["orphaned_tool_result"]


@pytest.mark.req("S3-66")
def test_scenario_5_mixed():
    """A complete pair stays, the incomplete call after it goes."""
    result = sanitize([HI, CALL, ANSWER, assistant([use("b")])])
    assert result.messages == [HI, CALL, ANSWER]


@pytest.mark.req("S3-48")
@pytest.mark.req("S3-66")
def test_scenario_6_partial_parallel():
    """Of parallel calls, those with results stay."""
    result = sanitize([HI, assistant([use("a"), use("b")]), user([answer("b")])])
    assert result.messages == [HI, assistant([use("b")]), user([answer("b")])]


@pytest.mark.req("S3-51")
@pytest.mark.req("S3-66")
def test_scenario_7_corrupted():
    """What is no message is dropped; the rest stays."""
    result = sanitize([HI, None, {"role": "king", "content": "x"}, 5, {"content": "y"}, BYE])
    assert result.messages == [HI, BYE]
    assert types(result) == ["invalid_structure"] * 4


@pytest.mark.req("S3-66")
def test_scenario_8_text_only():
    """A conversation of words alone is left as it is."""
    result = sanitize([HI, BYE, user("more"), assistant("yes")])
    assert result.messages == [HI, BYE, user("more"), assistant("yes")]
    assert result.issues == []


@pytest.mark.req("S3-66")
def test_scenario_9_thinking():
    """Thinking with its signature is kept, in a whole list and in a broken one."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    messages = [HI, assistant([thought, text("so"), use("a")]), ANSWER]
    assert sanitize(messages).messages == messages
    assert sanitize([*messages, None]).messages == messages


@pytest.mark.req("S3-66")
def test_scenario_10_complete_pairs():
    """Complete pairs are left as they are."""
    messages = [HI, assistant([use("a"), use("b")]), user([answer("a"), answer("b")]), BYE]
    assert sanitize(messages).messages == messages


# --- reports


@pytest.mark.req("S3-65")
def test_issues_are_told_in_one_line():
    """The report names each issue; without any it says so; the log line names the session."""
    issues = [Issue("empty_message", "message 1", "gone"), Issue("invalid_id", "message 2", "new")]
    assert format_issues([]) == "No issues found"
    assert format_issues(issues) == "Sanitized 2 issue(s): [empty_message] gone; [invalid_id] new"
    assert recovery_line("s-1", issues[:1]) == ("Session s-1 recovery: Sanitized 1 issue(s): [empty_message] gone")


@pytest.mark.req("S3-62")
def test_each_issue_says_where_and_what():
    """An issue has a type, a place and a sentence, and holds what is not shown."""
    (issue,) = sanitize([HI, CALL]).issues
    assert issue.type == "incomplete_tool_call"
    assert issue.where == "message 1"
    assert issue.detail == "call a to Read has no result: dropped"
    assert issue.content == use("a")


# --- sequence and form


def test_a_late_result_is_brought_to_its_call():
    """A result after later turns moves to its call; nothing is lost and the change is reported."""
    result = sanitize([HI, CALL, user("well?"), BYE, ANSWER])
    assert result.messages == [HI, CALL, user([answer("a"), text("well?")]), BYE]
    assert types(result) == ["reshaped"]


def test_a_result_before_its_call_is_paired():
    """A result that stands before its call is brought behind it."""
    result = sanitize([HI, ANSWER, CALL, ANSWER])
    assert result.messages == [HI, CALL, ANSWER]
    assert types(result) == ["duplicate_tool_result"]


def test_results_come_first_and_calls_last():
    """Words before results, and words after calls, are put where the provider wants them."""
    result = sanitize([HI, assistant([use("a"), text("so")]), user([text("and"), answer("a")])])
    assert result.messages == [HI, CALL, ANSWER, assistant("so"), user("and")]


def test_turns_alternate_and_begin_with_the_user():
    """Turns of one side are merged; an assistant who begins is preceded by a user."""
    result = sanitize([BYE, BYE, HI, HI])
    assert [m["role"] for m in result.messages] == ["user", "assistant", "user"]
    assert "leading_assistant" in types(result)


@pytest.mark.req("S3-52")
def test_empty_messages_go():
    """Messages without content are dropped, whatever kind of nothing they hold."""
    empty = [user(""), user(None), user([]), user(" \n"), user([text("")]), {"role": "user"}]
    result = sanitize([HI, BYE, *empty])
    assert result.messages == [HI, BYE]
    assert "empty_message" in types(result)


def test_a_message_emptied_by_the_repair_goes_too():
    """Dropping a call may empty a message: then the message goes, and its neighbours are joined."""
    assert sanitize([HI, CALL, HI]).messages == [user([text("hi"), text("hi")])]


def test_system_messages_are_lifted_out_or_kept_in_front():
    """Where the list cannot hold them they are apart; else they stand in front."""
    messages = [{"role": "system", "content": "be kind"}, HI, {"role": "system", "content": "now"}]
    apart = sanitize(messages, "anthropic")
    assert (apart.messages, apart.system) == ([HI], "be kind\n\nnow")
    assert types(apart) == ["system_moved", "system_moved"]
    broken = [*messages, None]
    inside = sanitize(broken, "mistral")
    assert [m["role"] for m in inside.messages] == ["system", "system", "user"]
    assert inside.system is None
    assert sanitize(broken, "openai").messages[0] is messages[0]
    requests = sanitize(broken, "pydantic-ai").messages
    assert [part["part_kind"] for part in requests[0]["parts"]] == ["system-prompt", "system-prompt", "user-prompt"]
    assert sanitize([messages[0], None], "pydantic-ai").messages == []


@pytest.mark.parametrize("provider", ["openai", "openai-responses"])
def test_developer_messages_stay_what_they_are(provider):
    """A leading developer message is handed on as it was given."""
    developer = {"role": "developer", "content": "be kind"}
    assert sanitize([developer, HI, None], provider).messages == [developer, HI]


@pytest.mark.req("S3-60")
def test_what_need_not_change_does_not():
    """In a broken list, whole messages keep members and wording that only their sender knows."""
    marked = user([{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}])
    assert sanitize([marked, BYE, None]).messages == [marked, BYE]
    arguments = '{ "a" : 1 }'
    function = {"name": "Read", "arguments": arguments}
    called = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    named = {"role": "user", "content": "x", "name": "Ann"}
    told = {"role": "tool", "tool_call_id": "c", "content": [text("ok")]}
    messages = [named, called, told]
    assert sanitize([*messages, None], "openai").messages == messages


def test_too_many_cache_marks_are_taken_out():
    """Members that break a rule only together are dropped from all messages."""
    marked = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
    result = sanitize([user([marked] * 5), None])
    assert result.messages == [user([text("x")] * 5)]


def test_text_is_made_whole():
    """NUL and halves of characters are replaced, pairs of halves are joined."""
    result = sanitize([user("a\0b"), assistant("\ud83d\ude00 \ud800")])
    assert result.messages == [user("a\ufffdb"), assistant("\U0001f600 \ufffd")]
    assert types(result) == ["invalid_text", "invalid_text"]


def test_arguments_are_made_plain():
    """NaN, huge integers, foreign objects, odd keys and depth become words; the rest stays."""

    class Odd:
        pass

    deep = here = {}
    for _ in range(100):
        here["d"] = here = {}
    given = {
        "nan": math.nan, "inf": -math.inf, "big": 10**5000, "odd": Odd(), "bytes": b"ok", 5: 1,
        None: 2, "tuple": (1, True, 0.5), "deep": deep, "text": "x\0",
    }  # fmt: skip
    result = sanitize([HI, assistant([{**use("a"), "input": given}]), ANSWER])
    made = result.messages[1]["content"][0]["input"]
    assert made["nan"] == "nan"
    assert made["inf"] == "-inf"
    assert made["big"] == "(a huge integer)"
    assert made["odd"] == "(Odd)"
    assert made["bytes"] == "ok"
    assert made["5"] == 1
    assert made["null"] == 2
    assert made["tuple"] == [1, True, 0.5]
    assert "nested too deeply" in str(made["deep"])
    assert "invalid_value" in types(result)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (None, {}),
        ("", {}),
        ('{"a": 1}', {"a": 1}),
        ("not json", {"value": "not json"}),
        ("[" * 100_000, {"value": "[" * 100_000}),
        ([1], {"value": [1]}),
    ],
)
def test_arguments_become_an_object(given, made):
    """Arguments that are no object are read as JSON or put under one name."""
    result = sanitize([HI, assistant([{**use("a"), "input": given}]), ANSWER])
    assert result.messages[1]["content"][0]["input"] == made


def test_blocks_of_unknown_kind_are_kept_as_words_or_dropped():
    """A block nobody knows gives its text if it has one; members nobody knows are dropped."""
    odd = [
        {"type": "poem", "text": "roses"},
        {"type": "void"},
        {"text": 5},
        "bare",
        7,
        {"type": "text", "text": None},
        {"type": "text", "text": "x", "mood": "happy"},
        {"type": "refusal", "refusal": "no"},
    ]
    result = sanitize([user(odd)])
    assert result.messages == [user([text("roses"), text("bare"), text("x"), text("no")])]


def test_thinking_outside_an_assistants_turn_is_dropped():
    """Only an assistant thinks; a block of thinking needs something in it."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    empty = [{"type": "thinking"}, {"type": "redacted_thinking"}, {"type": "reasoning"}]
    unknown = [{"type": "server_tool_use"}]
    result = sanitize([user([thought, text("x")]), assistant([*empty, *unknown, text("y")])])
    assert result.messages == [user("x"), assistant("y")]
    assert types(result) == ["invalid_block"] * 5


# --- values that fight back


class Hostile:
    """Refuses everything."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    def __eq__(self, other):
        raise RuntimeError

    def __hash__(self):
        return hash("role")

    def __repr__(self):
        raise RuntimeError

    def __bool__(self):
        raise RuntimeError


class HostileText(str):
    __slots__ = ()

    def __eq__(self, other):
        raise RuntimeError

    def __hash__(self):
        return str.__hash__(self)

    def __str__(self):
        raise RuntimeError


class HostileDict(dict):
    def get(self, *args):
        raise RuntimeError

    def items(self):
        raise RuntimeError


class HostileList(list):
    def __iter__(self):
        raise RuntimeError

    def __len__(self):
        raise RuntimeError


def cyclic_list():
    made = [HI]
    made.append(made)
    return made


def cyclic_content():
    made = []
    made.append({"type": "tool_result", "tool_use_id": "a", "content": made})
    return [user(made)]


def cyclic_input():
    made = {}
    made["self"] = [made, made]
    return [HI, assistant([{**use("a"), "input": made}]), ANSWER]


def laughing_input():
    """A value that would have 2**60 parts if it were written out."""
    made = ["ha"]
    for _ in range(60):
        made = [made, made]
    return [HI, assistant([{**use("a"), "input": {"a": made}}]), ANSWER]


HOSTILE = [
    None,
    5,
    "text",
    b"bytes",
    {"role": "user", "content": "hi"},
    object(),
    Hostile(),
    iter([HI]),
    (HI, BYE),
    [Hostile(), HI],
    [{Hostile(): 1, "content": "x"}],
    [{"role": Hostile(), "content": "x"}],
    [{"role": "user", "content": Hostile()}],
    [{"role": "user", "content": [Hostile(), {"type": Hostile()}]}],
    [{"role": HostileText("user"), "content": HostileText("hello")}],
    [HostileDict(role="user", content="x"), HI],
    HostileList([HI]),
    [[[[]]]],
    [{"role": "user", "content": {"type": "text", "text": "lone"}}],
    [{"parts": [Hostile(), {"part_kind": Hostile()}], "kind": Hostile()}],
    [{"role": "model", "parts": [Hostile(), {"functionCall": {"name": Hostile()}}]}],
    [{"type": "function_call", "call_id": Hostile(), "name": Hostile()}],
    [{"type": Hostile(), "role": "user"}],
    [{"role": "assistant", "tool_calls": Hostile()}],
    [{"role": "assistant", "tool_calls": [Hostile(), {"function": Hostile()}]}],
    [{"role": "tool", "tool_call_id": Hostile(), "content": Hostile()}],
    cyclic_list(),
    cyclic_content(),
    cyclic_input(),
    laughing_input(),
    [{"role": "user", "content": [[[[["deep"]]]]]}] * 3,
]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("incomplete", ["drop", "mark", "keep"])
@pytest.mark.req("S3-59")
def test_nothing_makes_it_raise(provider, incomplete):
    """Whatever comes in, a valid list comes out, and validating it raises nothing either."""
    for value in HOSTILE:
        result = sanitize(value, provider, incomplete)
        assert result.recovered is True
        assert validate(result.messages, provider).valid
        validate(value, provider)


def test_shared_values_are_not_multiplied():
    """A value that shares its parts a thousandfold is cut, not written out."""
    result = sanitize(laughing_input(), "openai")
    assert len(str(result.messages)) < 1_000_000


def test_a_cycle_is_cut():
    """A value that holds itself is cut where it would begin again."""
    result = sanitize(cyclic_input())
    assert result.messages[1]["content"][0]["input"] == {"self": ["(a cycle)", "(a cycle)"]}


def test_odd_calls_and_parts_are_dropped():
    """Calls that are none, parts that are none and empty parts go; the rest stays."""
    odd = {"role": "assistant", "content": "x", "tool_calls": [5, {"function": 7}]}
    worse = {"role": "assistant", "content": "y", "tool_calls": "z"}
    gemini = {"role": "user", "parts": [5, {"text": " "}, {"text": "hi"}]}
    result = sanitize([gemini, odd, worse])
    assert result.messages == [HI, assistant([text("x"), text("y")])]
    assert types(result) == ["invalid_block", "empty_block"] + ["invalid_structure"] * 3


def test_text_of_other_types_is_taken_as_text():
    """A subclass of str is a text like any other, and comes out as a plain one."""

    class Name(str):
        __slots__ = ()

    result = sanitize([user(Name("hi"))])
    assert type(result.messages[0]["content"]) is str
    assert types(result) == ["invalid_text"]


def test_arguments_that_are_no_json_are_written_anew():
    """A call whose arguments cannot be read is rewritten; so is an id that is a number."""
    for identity in ("c7", 7):
        function = {"name": "Read", "arguments": "ls -l"}
        calls = [{"id": identity, "type": "function", "function": function}]
        called = {"role": "assistant", "content": None, "tool_calls": calls}
        told = {"role": "tool", "tool_call_id": identity, "content": "ok"}
        made = sanitize([HI, called, told], "openai").messages[1]["tool_calls"][0]
        assert made["function"]["arguments"] == '{"value":"ls -l"}'
        assert made["id"] == str(identity)


def test_broken_text_and_media_in_blocks_are_written_anew():
    """A lone block with broken text, or an image that is no base64, does not come back."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "%"}}
    result = sanitize([user([text("a\0")]), BYE, user([image, text("x")])])
    assert result.messages == [user("a\ufffd"), BYE, user("x")]


def test_what_cannot_be_compared_is_written_anew():
    """A message with a member that raises when compared is rewritten, not handed on."""

    class Sly(str):
        __slots__ = ()

        def __eq__(self, other):
            raise RuntimeError

        def __hash__(self):
            return hash("x")

    sly = {"type": "text", "text": "hi", "cache_control": {"type": Sly("ephemeral")}}
    assert sanitize([user([sly]), BYE, None]).messages == [HI, BYE]
    other = user([{"type": "text", "text": "hi", "mood": 1}])
    assert sanitize([other, BYE]).messages == [HI, BYE]
    function = {"name": "Read", "arguments": "{} "}
    calls = [{"id": "c", "type": "function", "function": {**function, "arguments": Sly("{}")}}]
    called = {"role": "assistant", "content": None, "tool_calls": calls}
    told = {"role": "tool", "tool_call_id": "c", "content": "ok"}
    assert validate(sanitize([HI, called, told], "openai").messages, "openai").valid


def test_the_collector_rests_only_during_long_work():
    """Long work pauses the collector and wakes it again, also after a failure."""
    assert gc.isenabled()
    with collector_paused(10):
        assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), collector_paused(100_000):
        raise ZeroDivisionError(str(gc.isenabled()))
    assert gc.isenabled()
    gc.disable()
    try:
        with collector_paused(100_000):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_unknown_provider_is_refused():
    """A misspelt provider or way is the caller's error, not the list's."""
    with pytest.raises(UsageError, match="unknown provider"):
        sanitize([], "antropic")
    with pytest.raises(UsageError, match="incomplete"):
        sanitize([], "anthropic", "forget")


# --- the ladder


@pytest.mark.parametrize(("valid_lengths", "kept"), [({9}, 9), ({5}, 5), ({4}, 0), ({0}, 0), ({5, 7}, 7)])
@pytest.mark.req("S3-56")
@pytest.mark.req("S3-57")
@pytest.mark.req("S3-58")
def test_the_ladder_cuts_the_end_then_half_then_all(valid_lengths, kept):
    """One to five messages less, else the first half, else nothing."""
    messages = [{"n": number} for number in range(10)]
    assert len(room.fall_back(messages, lambda part: len(part) in valid_lengths)) == kept


def test_the_ladder_keeps_half_of_a_longer_list():
    """If dropping the last few does not help, the first half is tried."""
    messages = [{"n": number} for number in range(20)]
    assert len(room.fall_back(messages, lambda part: len(part) == 10)) == 10


def test_a_list_that_stays_invalid_is_cut(monkeypatch):
    """If the rules refuse even the repaired list, the ladder makes it shorter and says so."""
    real = room.validate

    def strict(messages, provider, errors_max):
        outcome = real(messages, provider)
        too_long = isinstance(messages, list) and len(messages) > 1
        return type(outcome)(False, ["too long"]) if too_long else outcome

    monkeypatch.setattr(room, "validate", strict)
    result = sanitize([HI, BYE, HI])
    assert result.messages == [HI]
    assert types(result) == ["fallback"]


def test_even_a_fault_of_our_own_ends_in_a_fresh_start(monkeypatch):
    """If repairing itself should fail, the empty list comes out, with an issue."""
    monkeypatch.setattr(room._Repair, "run", lambda self: 1 / 0)
    result = sanitize([HI, HI])
    assert result.messages == []
    assert types(result) == ["fallback"]
    assert "ZeroDivisionError" in result.issues[0].detail
