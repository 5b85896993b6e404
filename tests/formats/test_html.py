"""The HTML page: complete in itself, folding, and unable to run anything."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

import holdfast

PIXEL = base64.b64encode(b"\x89PNG\r\n").decode()


@pytest.fixture
def library():
    with holdfast.open("memory:") as found:
        yield found


@pytest.fixture
def page(library):
    with library.session("s", title="Trip <1>") as session:
        session.tag("travel")
        session.user("Look:\n```py\nx < 1\n```\ndone")
        session.append("thinking", {"content": "Hm."})
        session.assistant("I will look.")
        call = session.tool_call("Read", {"path": "a" * 200})
        session.tool_result(call, {"content": "first\nsecond"})
        other = session.tool_call("Bash", {"cmd": "false"})
        session.append("tool_result", {"toolCallId": other.id, "result": "no", "is_error": True})
        session.append("interrupted", {"reason": "power"})
    return library.export("s", "html")


def test_nothing_is_loaded_and_nothing_runs(page):
    """No script, no link, no address; the policy would forbid them as well."""
    assert not re.search(r"<script|<link|<iframe|https?://|@import|url\(", page)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_the_policy_allows_the_style_of_the_page(page):
    """The one style sheet is the one whose digest the policy names."""
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in page
    assert "prefers-color-scheme: dark" in style


def test_calls_and_results_fold(page):
    """A call shows its tool and a few words; all of it unfolds."""
    calls = re.findall(r"<details[^>]*><summary><b>(\w+)</b> ([^<]*)</summary>", page)
    assert [name for name, _ in calls] == ["Read", "Read", "Bash", "Bash"]
    assert all(len(words) < 120 for _, words in calls)
    assert "a" * 200 in page
    assert '<details class="failed"><summary><b>Bash</b> no</summary>' in page
    assert "<details><summary>Thinking</summary>" in page


def test_text_and_code(page):
    """Words keep their lines, fenced code looks like code, everything is escaped."""
    assert '<div class="text">Look:</div>' in page
    assert '<pre title="py">x &lt; 1</pre>' in page
    assert "<h1>Trip &lt;1&gt;</h1>" in page
    assert "<dd>travel</dd>" in page
    assert "interrupted: power" in page


def test_marks_within_a_line_look_like_it(library):
    """Code, strong words and headings look like it, with every character that was written."""
    with library.session("s") as session:
        session.user("## Plan\nUse `ls <x>` and **all <b>**, not `a\nb` or ** c ** or #d &")
    page = library.export("s", "html")
    assert (
        '<div class="text"><b>## Plan</b>\nUse <code>`ls &lt;x&gt;`</code> and'
        " <b>**all &lt;b&gt;**</b>, not `a\nb` or ** c ** or #d &amp;</div>"
    ) in page


def test_nothing_gets_lost_between_fences(library):
    """What looks like a fence and is none stays text; a block that never ends is still one."""
    with library.session("s") as session:
        session.user("```one line```\n~~~ a b c\n```\nopen\n~~~\n``` py")
    page = library.export("s", "html")
    assert '<div class="text">```one line```\n~~~ a b c</div>' in page
    assert "<pre>open\n~~~\n``` py</pre>" in page


def _blocks(media, data):
    source = {"type": "base64", "media_type": media, "data": data}
    return [{"type": "image", "source": source}]


@pytest.mark.parametrize(
    ("media", "data", "shown"),
    [
        ("image/png", PIXEL, True),
        ("image/svg+xml", PIXEL, False),
        ("text/html", PIXEL, False),
        ("image/png", 'x" onerror="y', False),
    ],
)
def test_pictures(library, media, data, shown):
    """Pictures are in the page; what could hold a script, or is none, is only named."""
    with library.session("s") as session:
        session.append("user", {"content": _blocks(media, data)})
    page = library.export("s", "html")
    assert (f'<img alt="image" src="data:image/png;base64,{PIXEL}">' in page) == shown
    assert ("<img" in page) == shown


def test_foreign_content(library):
    """Content of any shape is shown in some way."""
    odd = [
        5,
        None,
        {"type": "tool_use", "name": "Read", "input": [1]},
        {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "out"}]},
        {"type": "thinking", "thinking": "why"},
        {"type": "unknown", "x": 1},
        {"no": "type"},
        "words",
    ]
    with library.session("s") as session:
        session.append("user", {"content": odd})
        session.append("assistant", {"content": {"$half": True}})
        session.append("tool_result", {"toolCallId": 3, "result": [{"type": "image"}, "text"]})
    for format in ("html", "markdown", "text"):
        document = library.export("s", format)
        for word in ("5", "out", "why", "unknown", "words", "$half"):
            assert word in document
