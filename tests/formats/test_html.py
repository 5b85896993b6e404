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


def test_nothing_is_loaded_and_no_other_script_runs(page):
    """No address is asked for; the one script is that whose digest the policy names."""
    assert not re.search(r"<link|<iframe|https?://|@import|url\(", page)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy


def test_the_policy_allows_the_style_of_the_page(page):
    """The one style sheet is the one whose digest the policy names."""
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in page
    assert "prefers-color-scheme: dark" in style


def test_a_call_folds_with_its_result(page):
    """A call shows its tool and a few words; unfolded also what it was given and what came of it."""
    calls = re.findall(r"<details[^>]*><summary><b>(\w+)</b> ([^<]*)", page)
    assert [name for name, _ in calls] == ["Read", "Bash"]
    assert all(len(words) < 120 for _, words in calls)
    assert "a" * 200 in page
    failed = re.search(r'<details class="failed"><summary><b>Bash</b>.*?</details>', page, re.DOTALL)[0]
    assert "<h3>Failed</h3>\n<pre>no</pre>" in failed
    assert "<details><summary>Thinking</summary>" in page


def test_text_and_code(page):
    """Fenced code looks like code, everything is escaped."""
    assert '<div class="words"><p>Look:</p>' in page
    assert "<figcaption>py</figcaption>" in page
    assert "x &lt; 1\n</pre>" in page
    assert "<h1>Trip &lt;1&gt;</h1>" in page
    assert "<dd>travel</dd>" in page
    assert "interrupted: power" in page


def test_markdown_is_laid_out(library):
    """Headings, tables and strong words look like it; HTML stays text."""
    with library.session("s") as session:
        session.assistant(
            "## Plan\nUse `ls <x>` and **all <b>**\n\n| a |\n|---|\n| 1 |\n\n[docs](https://example.com/a)"
        )
    page = library.export("s", "html")
    assert '<h4 class="said">Plan</h4>' in page
    assert "<code>ls &lt;x&gt;</code> and <strong>all &lt;b&gt;</strong>" in page
    assert "<td>1</td>" in page
    assert 'href="https://example.com/a" target="_blank" rel="noopener noreferrer nofollow"' in page


def test_turns_are_listed_and_lead_to_their_place(library):
    """The index has a line for each question, with how long it took, its calls, and whether something failed."""
    with library.session("s") as session:
        session.user("First <question>")
        session.assistant("Yes")
        asked = session.user("Second").seq
        call = session.tool_call("Bash", {"cmd": "false"})
        session.append("tool_result", {"toolCallId": call.id, "result": "no", "is_error": True})
    index = re.search(r"<nav.*?</nav>", library.export("s", "html"), re.DOTALL)[0]
    assert re.findall(r">([^<]+)</a>", index) == ["First &lt;question&gt;", "Second"]
    assert f'<li class=wrong><a href="#e{asked}">Second</a>' in index
    assert "1 call, something failed" in index


def test_an_interrupted_turn_is_told_in_the_index(library):
    """A turn with a call that never got its result, which was interrupted, says so."""
    with library.session("s") as session:
        session.user("Deploy it")
        session.tool_call("Bash", {"cmd": "deploy"})
        session.user("And?")
        session.assistant("I do not know.")
    first, second = re.findall(r"<li.*?</li>", library.export("s", "html"), re.DOTALL)
    assert "1 call, interrupted" in first
    assert "interrupted" not in second


def test_an_edit_is_a_difference(library):
    """A call that changes a text shows the lines that differ."""
    with library.session("s") as session:
        session.tool_call("Edit", {"path": "a.py", "old_string": "x = 1\ny = 2", "new_string": "x = 1\ny = <3>"})
    page = library.export("s", "html")
    assert "<del>-y = 2</del>\n<ins>+y = &lt;3&gt;</ins>" in page
    assert "No result was recorded" in page


def test_the_head_says_how_it_ended(library):
    """A turn that never ended, or failed, is told above and below the conversation, with model and cost."""
    with library.session("s", agent_id="helper") as session:
        session.user("go")
        session.append("agent_error", {"agent": "helper", "error": "the provider is overloaded"})
        session.append("turn_end", {"outcome": "failed"})
        session.assistant("so", model="claude-sonnet-4-5", usage={"input_tokens": 1000, "output_tokens": 1000})
    page = library.export("s", "html")
    assert "<dt>Model</dt><dd>claude-sonnet-4-5</dd>" in page
    assert "<dt>Agent</dt><dd>helper</dd>" in page
    assert "<dt>Cost</dt><dd>$0.0180</dd>" in page
    assert re.search(r'<p class="note wrong"[^>]*>[^<]*the provider is overloaded', page)


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
