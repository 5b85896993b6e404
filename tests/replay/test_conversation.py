"""The conversation kept live: what each event does to it, and how its lists are handed out."""

from __future__ import annotations

import pytest

from holdfast.errors import UsageError
from holdfast.model import Event
from holdfast.replay import Conversation, Issue, validate


def feed(*steps, **options):
    """A conversation of these (type, data) steps, numbered from 0."""
    conversation = Conversation(**options)
    for seq, (type, data) in enumerate(steps):
        conversation.feed(Event.make(type, data, seq=seq))
    return conversation


def user(content):
    return "user", {"role": "user", "content": content}


def assistant(content, **more):
    return "assistant", {"role": "assistant", "content": content, **more}


def call(identity, tool="Read", **params):
    return "tool_call", {"id": identity, "tool": tool, "params": params}


def result(identity, value="done", **more):
    return "tool_result", {"toolCallId": identity, "result": value, **more}


def text(value):
    return {"type": "text", "text": value}


def types(conversation):
    return [issue.type for issue in conversation.issues]


@pytest.mark.req("S3-38")
def test_events_become_turns():
    """User, assistant, call and result become turns of the neutral form."""
    conversation = feed(user("hi"), assistant("I look"), call("c1", path="a"), result("c1", "text"), assistant("so"))
    use = {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a"}}
    answer = {"type": "tool_result", "tool_use_id": "c1", "content": "text"}
    assert conversation.messages() == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [text("I look"), use]},
        {"role": "user", "content": [answer]},
        {"role": "assistant", "content": "so"},
    ]
    assert conversation.issues == []


def test_an_empty_log_is_a_fresh_start():
    """Without events there are no messages, no system prompt and no issues."""
    conversation = Conversation()
    assert conversation.messages() == []
    assert conversation.system is None
    assert conversation.issues == []


def test_system_events_are_kept_apart():
    """System prompts are joined, each once, and never become turns."""
    conversation = feed(
        ("system", {"content": "be kind"}),
        user("hi"),
        ("system", {"content": [text("be brief"), {"type": "image"}]}),
        ("system", {"content": "be kind"}),
    )
    assert conversation.system == "be kind\n\nbe brief"
    assert conversation.messages() == [{"role": "user", "content": "hi"}]


def test_parallel_calls_share_a_turn():
    """Calls without a result in between are one turn; their results stand in the order of calls."""
    conversation = feed(user("go"), call("a"), call("b"), result("b", "2"), result("a", "1"))
    use, answers = conversation.messages()[1:]
    assert [block["id"] for block in use["content"]] == ["a", "b"]
    assert [block["content"] for block in answers["content"]] == ["1", "2"]


def test_a_call_after_a_result_is_a_new_turn():
    """A call that follows a result opens the next turn, also while another call is still open."""
    conversation = feed(user("go"), call("a"), call("b"), result("a"), call("c"), result("b"), result("c"))
    turns = [m["content"] for m in conversation.messages() if m["role"] == "assistant"]
    assert [[block["id"] for block in turn] for turn in turns] == [["a", "b"], ["c"]]


def test_words_after_a_call_open_a_new_turn():
    """Words follow the results of calls made before them; calls come last in a turn."""
    conversation = feed(user("go"), call("a"), assistant("and"), result("a"), call("b"), result("b"))
    roles = [message["role"] for message in conversation.messages()]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert conversation.messages()[3]["content"][0] == text("and")


@pytest.mark.req("S3-46")
def test_a_late_result_comes_to_its_call():
    """A result that comes after later words stands right after its call, before those words."""
    conversation = feed(user("go"), call("a"), user("wait"), assistant("yes"), result("a", "late"))
    messages = conversation.messages()
    assert messages[2]["content"][0]["content"] == "late"
    assert messages[2]["content"][1] == text("wait")
    assert messages[3] == {"role": "assistant", "content": "yes"}


def test_a_result_recorded_before_its_call_is_paired():
    """Writers that do not wait may record a result first; the pair survives."""
    conversation = feed(user("go"), result("a", "early"), call("a"))
    assert conversation.messages()[2]["content"][0]["content"] == "early"
    assert conversation.issues == []


@pytest.mark.parametrize(("incomplete", "roles"), [("drop", "u"), ("mark", "uau"), ("keep", "ua")])
@pytest.mark.req("S3-46")
def test_a_call_without_result_is_dropped_marked_or_kept(incomplete, roles):
    """The three ways with an incomplete call; each of them is reported."""
    conversation = feed(user("go"), call("a"), incomplete=incomplete)
    messages = conversation.messages()
    assert "".join(message["role"][0] for message in messages) == roles
    assert types(conversation) == ["incomplete_tool_call"]
    if incomplete == "mark":
        assert messages[2]["content"][0]["is_error"] is True
        assert "interrupted" in messages[2]["content"][0]["content"]


def test_a_marked_call_takes_its_result_when_it_comes():
    """The stand-in gives way to the real result, and parallel calls still join the turn."""
    conversation = feed(user("go"), call("a"), incomplete="mark")
    conversation.messages()
    for seq, (type, data) in enumerate([call("b"), result("a", "1"), result("b", "2")], 2):
        conversation.feed(Event.make(type, data, seq=seq))
        assert validate(conversation.messages(), "neutral").valid
    answers = conversation.messages()[2]["content"]
    assert [answer["content"] for answer in answers] == ["1", "2"]
    assert conversation.issues == []


def test_an_unknown_way_with_incomplete_calls_is_refused():
    """A misspelt word is the caller's error."""
    with pytest.raises(UsageError, match="mark, drop, keep"):
        Conversation(incomplete="forget")


@pytest.mark.req("S3-47")
def test_orphaned_and_repeated_results_are_reported():
    """A result without a call and a second result are left out and kept in the issues."""
    conversation = feed(user("go"), call("a"), result("a", "1"), result("a", "2"), result("z", "3"), result(None))
    found = {issue.type: issue.content for issue in conversation.issues}
    assert found["duplicate_tool_result"]["content"] == "2"
    assert types(conversation).count("orphaned_tool_result") == 2
    assert validate(conversation.messages(), "neutral").valid


def test_a_reused_id_gets_a_variation():
    """A second call with the same id is renamed, together with its result."""
    conversation = feed(user("go"), call("a"), result("a", "1"), call("a"), result("a", "2"))
    assert conversation.messages()[3]["content"][0]["id"] == "a-2"
    assert conversation.messages()[4]["content"][0]["tool_use_id"] == "a-2"
    assert conversation.messages()[4]["content"][0]["content"] == "2"
    assert types(conversation) == ["invalid_id"]


def test_malformed_ids_and_names_are_made_well_formed():
    """Ids and names get the letters that providers allow, always the same ones."""
    conversation = feed(user("go"), call("a b/ç", "my.tool"), result("a b/ç"), call("", ""), call("x" * 99))
    use = conversation.messages()[1]["content"][0]
    assert (use["id"], use["name"]) == ("a_b__", "my_tool")
    assert validate(conversation.messages(), "anthropic").valid


def test_the_first_words_are_the_users():
    """An assistant who speaks first is preceded by a user turn that says so."""
    conversation = feed(assistant("hello"))
    assert [message["role"] for message in conversation.messages()] == ["user", "assistant"]
    assert types(conversation) == ["leading_assistant"]


def test_neighbouring_turns_of_one_side_are_one():
    """Two user events in a row are one message with two blocks."""
    conversation = feed(user("a"), user("b"), assistant("c"), assistant("d"))
    assert conversation.messages() == [
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "assistant", "content": [text("c"), text("d")]},
    ]


def test_empty_content_says_nothing():
    """Empty texts, as agents record them beside calls, make no message and no issue."""
    conversation = feed(user("a"), assistant(""), assistant(None), assistant([]), call("c"), result("c"))
    assert [m["role"] for m in conversation.messages()] == ["user", "assistant", "user"]
    assert conversation.issues == []


# --- thinking and what belongs to one provider


def test_thinking_is_kept_with_its_signature():
    """A thinking event stands before what it led to, with the signature that Anthropic demands."""
    conversation = feed(user("go"), ("thinking", {"content": "hm", "signature": "s"}), assistant("so"))
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    assert conversation.messages("anthropic")[1]["content"] == [block, text("so")]
    assert conversation.messages("openai")[1] == {"role": "assistant", "content": "so"}


def test_unsigned_thinking_is_left_out_for_anthropic():
    """Thinking without a signature is refused by Anthropic's API and is not sent to it."""
    conversation = feed(user("go"), ("thinking", {"content": "hm"}), assistant("so"))
    assert conversation.messages()[1]["content"][0]["thinking"] == "hm"
    assert conversation.messages("anthropic")[1]["content"] == "so"


def test_thinking_may_be_recorded_as_blocks():
    """A thinking event may hold blocks, also redacted ones."""
    redacted = {"type": "redacted_thinking", "data": "x"}
    conversation = feed(user("go"), ("thinking", {"content": [redacted]}), assistant("so"))
    assert conversation.messages("anthropic")[1]["content"] == [redacted, text("so")]
    assert conversation.messages("gemini")[1]["parts"] == [{"text": "so"}]


def test_thinking_that_led_to_nothing_is_reported():
    """A message cannot end with thinking: it is reported until something follows."""
    conversation = feed(user("go"), ("thinking", {"content": "hm", "signature": "s"}))
    assert conversation.messages() == [{"role": "user", "content": "go"}]
    assert types(conversation) == ["incomplete_block"]
    conversation.feed(Event.make(*assistant("so"), seq=2))
    assert len(conversation.messages()[1]["content"]) == 2
    assert conversation.issues == []


def test_what_belongs_to_one_provider_is_kept_for_it():
    """Encrypted reasoning goes to the Responses API only, thought signatures to Gemini only."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    signed = {"type": "text", "text": "so", "thought_signature": "c2ln"}
    conversation = feed(user("go"), assistant([reasoning, signed]))
    call_data = {"id": "c", "tool": "T", "params": {}, "thought_signature": "c2ln"}
    conversation.feed(Event.make("tool_call", call_data, seq=2))
    conversation.feed(Event.make(*result("c"), seq=3))
    assert conversation.messages("openai-responses")[1] == reasoning
    assert conversation.messages("gemini")[1]["parts"][0]["thoughtSignature"] == "c2ln"
    assert conversation.messages("gemini")[1]["parts"][1]["thoughtSignature"] == "c2ln"
    anthropic = str(conversation.messages("anthropic"))
    assert "reasoning" not in anthropic
    assert "thought_signature" not in anthropic


def test_a_servers_tool_use_is_kept_only_with_its_result():
    """Anthropic's own tools: use and result stay together, one alone is left out."""
    use = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    whole = feed(user("go"), assistant([use, found, text("so")]))
    assert whole.messages("anthropic")[1]["content"] == [use, found, text("so")]
    assert whole.messages("openai")[1]["content"] == "so"
    half = feed(user("go"), assistant([use, {**found, "tool_use_id": "s2"}, text("so")]))
    assert half.messages("anthropic")[1]["content"] == "so"
    assert types(half) == ["incomplete_block", "incomplete_block"]


# --- media and payloads


def test_images_and_documents_are_kept():
    """Images and documents of a user stay blocks; an assistant's are put into words."""
    image = {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}
    document = {"type": "document", "source": {"type": "file", "file_id": "f1"}, "title": "Plan"}
    conversation = feed(user([image, document]), assistant([image, text("nice")]))
    assert conversation.messages()[0]["content"] == [image, document]
    assert conversation.messages()[1]["content"][0] == text("(image at https://x/y.png)")


def test_a_payload_kept_apart_is_named():
    """A blob that was not loaded is shown as words, wherever it stands."""
    blob = {"$blob": "0" * 64, "bytes": 5, "media": "text/plain"}
    conversation = Conversation()
    for seq, (type, data) in enumerate([user([blob]), call("a"), result("a", blob)]):
        event = Event(type, seq)
        event.__dict__["data"] = data
        conversation.feed(event)
    assert conversation.messages()[0]["content"].startswith("(text/plain kept apart as 000")
    assert "kept apart" in conversation.messages()[2]["content"][0]["content"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ({"content": "wrapped"}, "wrapped"),
        ({"content": {"a": 1}}, '{"a":1}'),
        ({"a": "é"}, '{"a":"é"}'),
        ([1, 2], "[1,2]"),
        (7, "7"),
        ("", "(no output)"),
        (None, "(no output)"),
        ([], "(no output)"),
        ([{"type": "text", "text": "part"}], [text("part")]),
        ([{"type": "text", "text": ""}], "(no output)"),
    ],
)
def test_a_result_becomes_text_or_blocks(value, shown):
    """What a tool gave back is shown as it is if it is text, else as JSON, never as nothing."""
    conversation = feed(user("go"), call("a"), result("a", value))
    assert conversation.messages()[2]["content"][0]["content"] == shown
    assert conversation.issues == []


def test_a_failed_result_says_so():
    """Errors are marked, whether by the event or by the recorded form of tool errors."""
    conversation = feed(
        user("go"),
        call("a"),
        result("a", "bad", is_error=True),
        call("b"),
        result("b", {"error": True, "message": "worse"}),
    )
    answers = [m["content"][0] for m in conversation.messages() if m["role"] == "user"][1:]
    assert [answer["is_error"] for answer in answers] == [True, True]
    assert "worse" in answers[1]["content"]


# --- streams


def delta(value, kind="text"):
    return "delta", {"content": value, "kind": kind}


def test_streamed_text_is_what_an_interrupted_user_saw():
    """Deltas that nothing covers are the assistant's words; asking in between shows them grow."""
    conversation = feed(user("go"), delta("Hel"), delta("lo"))
    assert conversation.messages()[1] == {"role": "assistant", "content": "Hello"}
    conversation.feed(Event.make(*delta(" you"), seq=3))
    assert conversation.messages()[1] == {"role": "assistant", "content": "Hello you"}
    conversation.feed(Event.make("interrupted", {}, seq=4))
    conversation.feed(Event.make(*user("again"), seq=5))
    assert [m["role"] for m in conversation.messages()] == ["user", "assistant", "user"]


def test_a_final_event_covers_its_deltas():
    """The final text stands in place of what was streamed for it, and of nothing before."""
    conversation = feed(user("go"), delta("old "), delta("new"))
    conversation.feed(Event.make(*assistant("new!", covers_from=2), seq=3))
    assert conversation.messages()[1]["content"] == [text("old "), text("new!")]


def test_thinking_and_text_are_streamed_side_by_side():
    """A final thinking event covers streamed thinking only; the final text covers the rest."""
    conversation = feed(
        user("go"),
        delta("hm", "thinking"),
        delta("Hel"),
        ("thinking", {"content": "hmm", "signature": "s", "covers_from": 1}),
    )
    assert conversation.messages()[1]["content"] == "Hel"
    conversation.feed(Event.make(*assistant("Hello", covers_from=2), seq=4))
    assert [b["type"] for b in conversation.messages()[1]["content"]] == ["thinking", "text"]


def test_streamed_thinking_is_shown_before_what_it_led_to():
    """Interrupted thinking stands before the words that were streamed after it."""
    conversation = feed(user("go"), delta("hm", "thinking"), delta("Hel"))
    thought = {"type": "thinking", "thinking": "hm"}
    assert conversation.messages()[1]["content"] == [thought, text("Hel")]
    assert conversation.messages("anthropic")[1]["content"] == "Hel"


def test_blank_deltas_are_no_words():
    """A stream of nothing but space shows nothing."""
    conversation = feed(user("go"), delta(" "), delta("\n"), delta(""), delta(None))
    assert len(conversation.messages()) == 1


# --- retraction and compaction


def test_what_is_retracted_is_not_shown():
    """Retracted events leave the conversation and are told of; a replacement takes their place."""
    conversation = feed(user("secret"), assistant("ok"), ("retracted", {"seqs": [0], "replacement": "(removed)"}))
    assert conversation.messages()[0] == {"role": "user", "content": "(removed)"}
    assert conversation.issues == [Issue("retracted", "event 0", "event 0 was retracted")]
    assert conversation.issues[0].content == text("secret")


def test_retraction_without_replacement():
    """Without a replacement the words are simply gone; unknown and odd numbers are passed over."""
    conversation = feed(user("a"), assistant("b"), ("retracted", {"seqs": [1, 99, "x"]}), ("retracted", {"seqs": 5}))
    assert conversation.messages() == [{"role": "user", "content": "a"}]
    conversation.feed(Event.make("retracted", {"seqs": [1]}, seq=4))
    assert types(conversation) == ["retracted"]


def test_retracting_a_result_opens_its_call():
    """A call whose result is retracted is incomplete again, and takes the next result."""
    conversation = feed(user("go"), call("a"), result("a", "1"), ("retracted", {"seqs": [2]}))
    assert "interrupted" in conversation.messages()[2]["content"][0]["content"]
    assert types(conversation) == ["retracted", "incomplete_tool_call"]
    conversation.feed(Event.make(*result("a", "2"), seq=4))
    assert conversation.messages()[2]["content"][0]["content"] == "2"


def test_retracting_a_call_takes_its_result_along():
    """A retracted call is gone with its result, which is reported; later results find no call."""
    conversation = feed(user("go"), call("a"), result("a"), ("retracted", {"seqs": [1]}))
    assert len(conversation.messages()) == 1
    assert types(conversation) == ["retracted", "orphaned_tool_result"]
    waiting = feed(user("go"), call("a"), ("retracted", {"seqs": [1]}), result("a"))
    assert len(waiting.messages()) == 1
    orphan = feed(user("go"), result("z"), call("z2"), ("retracted", {"seqs": [1]}))
    assert "orphaned_tool_result" in types(orphan)


def test_replacements_may_be_blocks():
    """A replacement may be a message or blocks; only its words are taken."""
    new = {"role": "user", "content": [text("new"), {"type": "image"}]}
    conversation = feed(user("old"), ("retracted", {"seqs": [0], "replacement": new}))
    assert conversation.messages() == [{"role": "user", "content": "new"}]


def test_a_summary_stands_for_what_it_covers():
    """Compaction puts a summary in place of events; what follows it stays."""
    conversation = feed(
        user("a"),
        assistant("b"),
        call("c"),
        result("c"),
        ("compaction", {"summary": "they talked", "covers": [0, 3]}),
        user("go on"),
    )
    assert conversation.messages() == [{"role": "user", "content": [text("they talked"), text("go on")]}]
    assert types(conversation) == ["compacted"]


def test_summaries_may_be_summarised():
    """A later compaction replaces an earlier one, also after the list was asked for."""
    conversation = feed(user("a"), assistant("b"))
    conversation.messages()
    for seq, (type, data) in enumerate(
        [
            ("compaction", {"summary": "one", "covers": [0, 1]}),
            user("c"),
            delta("d"),
            ("compaction", {"summary": "two", "covers": [0, 4]}),
        ],
        2,
    ):
        conversation.feed(Event.make(type, data, seq=seq))
    assert conversation.messages() == [{"role": "user", "content": "two"}]


def test_a_pair_is_never_split_by_a_summary():
    """A call whose result is not covered, or has not come, stays beside the summary."""
    conversation = feed(
        user("a"),
        call("open"),
        call("late"),
        ("compaction", {"summary": "sum", "covers": [0, 2]}),
        result("late", "there"),
    )
    assert [m["role"] for m in conversation.messages()] == ["user", "assistant", "user"]
    assert conversation.messages()[2]["content"][1]["content"] == "there"
    before = feed(user("a"), call("c"), user("b"), result("c"), ("compaction", {"summary": "s", "covers": [2, 3]}))
    assert before.messages()[2]["content"][0]["type"] == "tool_result"


@pytest.mark.parametrize("data", [{}, {"summary": "s"}, {"summary": " ", "covers": [0, 0]}])
def test_a_compaction_that_says_nothing_is_ignored(data):
    """Without a summary or a range nothing is replaced."""
    conversation = feed(user("a"), ("compaction", data))
    assert conversation.messages() == [{"role": "user", "content": "a"}]
    assert types(conversation) == ["invalid_structure"]


@pytest.mark.parametrize("covers", [[0], [1, 0], ["a", "b"], 5, [0, 1, 2]])
def test_a_compaction_with_a_bad_range_is_ignored(covers):
    """A range that is none covers nothing."""
    conversation = feed(user("a"), ("compaction", {"summary": "s", "covers": covers}))
    assert conversation.messages() == [{"role": "user", "content": "a"}]


def test_calls_and_results_may_be_recorded_as_blocks():
    """Content in blocks may hold calls, results and thinking; each goes where it may stand."""
    use = {"type": "tool_use", "id": "a", "name": "Read", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "a", "content": "ok"}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    cited = {**text("so"), "citations": [{"type": "page", "n": 1}]}
    conversation = feed(user([thought, text("go")]), assistant([cited, use]), user([answer, text("and?")]))
    assert conversation.messages() == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [cited, use]},
        {"role": "user", "content": [answer, text("and?")]},
    ]
    beside = feed(user("go"), result("b", "early"), assistant([{**use, "id": "b"}, use]), result("a"))
    assert [b["content"] for b in beside.messages()[2]["content"]] == ["early", "done"]


def test_odd_values_in_events_are_made_plain():
    """Broken characters in results and words of other types are replaced and reported."""

    class Name(str):
        __slots__ = ()

    conversation = Conversation()
    steps = [user(Name("go")), call("a"), result("a", "half \ud800")]
    steps.append(("system", {"content": [{"type": "image"}, {"type": "document"}, use_block()]}))
    for seq, (type, data) in enumerate(steps):
        event = Event(type, seq)
        event.__dict__["data"] = data
        conversation.feed(event)
    assert conversation.messages()[0] == {"role": "user", "content": "go"}
    assert conversation.messages()[2]["content"][0]["content"] == "half \ufffd"
    assert conversation.system is None
    assert "invalid_text" in types(conversation)


def use_block():
    return {"type": "tool_use", "id": "z", "name": "Read", "input": {}}


# --- what cannot be read


@pytest.mark.req("S3-49")
def test_an_unreadable_event_is_reported_and_passed_over():
    """Whatever an event holds, the conversation goes on and says what it left out."""
    conversation = feed(user("a"))
    conversation.feed(Event("user", 1, 0, b"[1]"))
    conversation.feed(None)
    conversation.feed(Event.make(*assistant("b"), seq=3))
    assert len(conversation.messages()) == 2
    assert types(conversation) == ["unreadable_event", "unreadable_event"]
    assert "InvalidData" in conversation.issues[0].detail


def test_other_events_say_nothing():
    """State, session and unknown events make no message."""
    conversation = feed(("session_start", {}), user("a"), ("title", {"title": "t"}), ("from_the_future", {"x": 1}))
    assert conversation.messages() == [{"role": "user", "content": "a"}]


def test_events_without_numbers_are_numbered_by_place():
    """Events that are in no log yet can be fed and retracted by their place."""
    conversation = Conversation()
    for type, data in [user("a"), assistant("b"), ("retracted", {"seqs": [1]})]:
        conversation.feed(Event.make(type, data))
    assert conversation.messages() == [{"role": "user", "content": "a"}]


def test_numbers_that_go_backwards_do_no_harm():
    """Events whose numbers are out of order are taken in the order in which they come."""
    conversation = Conversation()
    for seq, step in zip([5, 3, 9], [user("a"), assistant("b"), user("c")], strict=True):
        conversation.feed(Event.make(*step, seq=seq))
    assert [m["content"] for m in conversation.messages()] == ["a", "b", "c"]


def test_sources_tell_which_events_a_message_comes_from():
    """Each block has the event that it came from; what was put in has none."""
    conversation = feed(assistant("first"), call("1"), result("1"), user("next"))
    roles = [message["role"] for message in conversation.messages("neutral")]
    assert roles == ["user", "assistant", "user"]
    assert conversation.sources == [[-1], [0, 1], [2, 3]]
