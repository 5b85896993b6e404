"""Markdown: the form that S2 asks for, and text that cannot leave its message."""

from __future__ import annotations

import datetime as dt
import json
import re

import pytest

import holdfast
from holdfast.formats.writers.markdown import fenced, markdown_line, markdown_text
from holdfast.model import Event

T0 = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


@pytest.fixture
def library():
    with holdfast.open("memory:") as found:
        yield found


def record(library, *events, id="s"):
    """A session of these events, one second apart."""
    with library.session(id, clock=_Clock()) as session:
        for type, data in events:
            session.append(Event.make(type, data))
    return id


class _Clock:
    def __init__(self):
        self.now = T0

    def __call__(self):
        self.now += 1000
        return self.now


@pytest.fixture
def conversation(library):
    return record(
        library,
        ("title", {"title": "Trip"}),
        ("system", {"content": "Be brief."}),
        ("user", {"content": "Read a.txt"}),
        ("assistant", {"content": "I read it.", "usage": {"total_tokens": 42}}),
        ("tool_call", {"id": "c1", "tool": "Read", "params": {"path": "a.txt"}}),
        ("tool_result", {"toolCallId": "c1", "result": {"content": "hello"}}),
        ("assistant", {"content": "It says hello."}),
    )


@pytest.mark.req("S2-32", "S2-79")
def test_head(library, conversation):
    """Title, id, times, counts, then a rule."""
    document = library.export(conversation)
    lines = [line for line in document.split("\n") if line]
    assert lines[:7] == [
        "# Trip",
        "**Session ID:** s",
        f"**Created:** {_time(library.info('s').created_at)}",
        f"**Updated:** {_time(library.info('s').updated_at)}",
        "**Messages:** 5",
        "**Total Tokens:** 42",
        "---",
    ]


def _time(stamp):
    return dt.datetime.fromtimestamp(stamp / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.req("S2-33", "S2-34")
@pytest.mark.req("S2-3")
def test_messages(library, conversation):
    """Each role has its own sign, its name and the time of day."""
    headings = re.findall(r"^## (.+) \[\d\d:\d\d:\d\d\]$", library.export(conversation), re.MULTILINE)
    expected = ["⚙️ System", "👤 User", "🤖 Assistant", "🔧 Tool", "🤖 Assistant"]
    assert headings == expected


@pytest.mark.req("S2-33")
def test_tool_calls(library, conversation):
    """Calls are JSON in a code block under their label, with the words they came with."""
    document = library.export(conversation)
    found = re.search(r"I read it\.\n\n\*\*Tool Calls:\*\*\n\n```json\n(.+?)\n```\n", document, re.DOTALL)
    assert json.loads(found[1]) == [{"id": "c1", "tool": "Read", "args": {"path": "a.txt"}}]


def test_result(library, conversation):
    """A result names its tool and is shown as it is."""
    assert "**Read**:\n\n```\nhello\n```\n" in library.export(conversation)


@pytest.mark.req("S2-82")
def test_empty_session(library):
    """A session in which nobody said anything has a head and nothing else."""
    record(library, ("variable_set", {"name": "x", "value": 1}))
    document = library.export("s")
    assert document.startswith("# Untitled Session\n")
    assert "**Messages:** 0" in document
    assert document.endswith("---\n")


@pytest.mark.unmeasured
@pytest.mark.req("S2-81")
def test_large_session(library):
    """Ten thousand messages are all there."""
    with library.session("s") as session:
        for number in range(5_000):
            session.user(f"question {number}")
            session.assistant(f"answer {number}")
    document = library.export("s")
    assert document.count("\n## ") == 10_000
    assert document.rstrip().endswith("answer 4999")


@pytest.mark.req("S2-80")
def test_special_characters(library):
    """Scripts, emoji and symbols stay; what would be HTML is shown as text."""
    record(library, ("user", {"content": "你好 🎉 Ωβ ñ <b>5 > 3</b> & \"'"}))
    assert "你好 🎉 Ωβ ñ &lt;b>5 > 3&lt;/b> & \"'" in library.export("s")


def test_zone(library, conversation):
    """Times are UTC unless another zone is asked for."""
    later = library.export(conversation, zone="Asia/Tokyo")
    assert re.search(r"\*\*Created:\*\* (.+)", later)[1] != _time(library.info("s").created_at)
    fixed = library.export(conversation, zone=dt.timezone(dt.timedelta(hours=9)))
    assert later == fixed
    assert library.export(conversation, zone="utc") == library.export(conversation)


def test_a_stopped_answer(library):
    """What was streamed before an interruption is shown, and that it was cut off."""
    record(
        library,
        ("user", {"content": "Tell me"}),
        ("delta", {"content": "Once upon "}),
        ("delta", {"content": "a time"}),
        ("interrupted", {"reason": "stopped"}),
    )
    document = library.export("s")
    assert "Once upon a time\n\n*(cut off here)*\n" in document
    assert "> interrupted: stopped\n" in document


def test_thinking(library):
    """Thinking is a quotation in the answer that it led to."""
    record(library, ("thinking", {"content": "Hm.\nWell."}), ("assistant", {"content": "Yes."}))
    document = library.export("s")
    assert "> *Thinking:*\n>\n> Hm.\n> Well.\n\nYes.\n" in document
    assert document.count("\n## ") == 1


def test_notes_and_agents(library):
    """Who else took part, and what happened in between, is told."""
    record(
        library,
        ("delegation", {"parent": "main", "child": "scout", "task": "look"}),
        ("assistant", {"content": "Found.", "agent": "scout"}),
        ("delegation_complete", {"child": "scout"}),
        ("agent_error", {"error": "no luck"}),
        ("retracted", {"seqs": [1], "replacement": None}),
        ("compaction", {"covers": [0, 2], "summary": "```\nshort"}),
        ("suspended", {}),
        ("resumed", {}),
        ("redacted", {}),
        ("repaired", {"lost": 3}),
        ("imported", {"tool": "codex"}),
    )
    document = library.export("s")
    for text in ("> main asks scout: look", "*Agent: scout*", "> scout is done", "> error: no luck"):
        assert text in document
    assert "> retracted: events 1\n" in document
    assert "events 0, 2 summarised" in document


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# a", "\\# a"),
        ("  ## a", "  \\## a"),
        ("> # a", "> \\# a"),
        ("- # a", "- \\# a"),
        ("12. # a", "12. \\# a"),
        ("a\n===", "a\n\\==="),
        ("a\n---", "a\n\\---"),
        ("a\n- ", "a\n\\- "),
        ("* * *", "\\* * *"),
        ("a `<b>` <c>", "a `<b>` &lt;c>"),
        ("``a`b``", "``a`b``"),
        ("`a", "\\`a"),
        ("\\``a`", "\\`\\`a\\`"),
        ("\\<", "\\<"),
        ("![a](b)", "!\\[a](b)"),
        ("[a]: b", "\\[a]: b"),
        ("[a](b)", "[a](b)"),
        ("[a](JavaScript:b)", "[a\\](JavaScript:b)"),
        ("&lt; &", "&amp;lt; &"),
        ("> ```", "> \\`\\`\\`"),
        ("- ~~~", "- \\~~~"),
        ("**bold** and *emph*\n- list", "**bold** and *emph*\n- list"),
        ("```\n# a\n<b>\n```", "```\n# a\n<b>\n```"),
        ("   ```py\n   x\n y\n   ```", "```py\nx\ny\n```"),
        ("```\nopen", "```\nopen\n```"),
        ("~~~\n```\n~~~~", "~~~\n```\n~~~"),
        ("a\r\nb", "a\nb"),
    ],
)
def test_escaping(text, shown):
    """Only what could break the document changes."""
    assert markdown_text(text) == shown


def test_fence_is_longer_than_any_in_it():
    """A code block cannot be ended from inside."""
    assert fenced("a ```` b") == "`````\na ```` b\n`````"


@pytest.mark.parametrize(
    ("text", "shown"), [("a_b", "a_b"), ("_a_", "\\_a\\_"), ("a\n# b", "a␊# b"), ("C#", "C\\#"), ("<b>", "\\<b\\>")]
)
def test_titles(text, shown):
    """A title is one line, and nothing in it is markup."""
    assert markdown_line(text) == shown


@pytest.mark.parametrize("format", ["markdown", "text"])
def test_an_interruption_is_said_at_the_end(library, format):
    """The state is in the head; the end says that the last turn was cut off, and which calls have no result."""
    record(
        library,
        ("turn_start", {}),
        ("user", {"content": "go"}),
        ("tool_call", {"id": "c1", "tool": "Read", "params": {}}),
        ("tool_result", {"toolCallId": "c1", "result": "x"}),
        ("tool_call", {"id": "c2", "tool": "Bash", "params": {"command": "make"}}),
    )
    document = library.export("s", format=format)
    assert "interrupted" in document[:400]
    end = document.rstrip("\n").rpartition("\n")[2].strip("*")
    assert end == "Interrupted here: the last turn did not come to its end. No result was recorded for Bash."
