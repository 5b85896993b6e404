"""Thousands of sessions full of what breaks documents, through markdown and HTML."""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from holdfast.formats import ExportOptions, Recorded, format_of
from holdfast.model import Event, SessionMetadata
from holdfast.replay import State

SESSIONS, CHUNKS = 5_000, 20
PIECES = [
    "# heading", "###### six", "#", "## 👤 User [00:00:00]", "title\n=====", "title\n-", "a\n- ",
    "> quote\n> ===", "> # deep", "- # item", "1. ## item", "* * *", "---", "___", "```", "````",
    "~~~", "```python\nx < 1", "   ```\n# inside", "     ~~~ info", "- ```\n  code", "> ~~~\n> x",
    "1. a\n   ```sh\n   ls\nout", "`open", "``two`` `one", "`a\n<b>`", "\\`<i>`", "`|<s>|`",
    "| a | b |\n|---|---|\n| `x | <u>` |", "<script>alert(1)</script>", "<!-- comment", "<![CDATA[",
    "<details><summary>x", "</article></main>", "<img src=x onerror=alert(1)>", "<style>*{}",
    "<?php", "<a href='javascript:x'>", "[x](javascript:alert(1))", "[x]: http://e.example/ 'y'",
    "[^1]: note", "[open\nlabel]: /url", "![p](http://e.example/p.png)", "[10:00:00]: /hijack",
    "&lt;script&gt;", "&#60;b&#62;", "&amp;lt;", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b2J",
    "\u202eright to left", "\u2066isolate", "\u200b", "\ufeff", "\U000e0041", "nul\x00byte", "\x08",
    "half \ud800 pair", "\udfff", "cr\ronly", "crlf\r\nline", "\u2028", "\x0c", "\x85", "tab\t# x",
    "    # indented", "\t```", "*emph", "**bold", "_u_", "~~s", "end\\", "\\", "]]>", "''", "$$",
    "|", "+++", "===", "=", "-", "+ \n- \n* ", "1) x", "#\t", "&#0;", "plain words", "", "\n\n\n",
]  # fmt: skip
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
HEADING = re.compile(r"(👤 User|🤖 Assistant|⚙️ System|🔧 Tool) \[\d\d:\d\d:\d\d\]\Z")
PAGE = "html head meta title style body header h1 h2 dl dt dd search label input output main article nav ol li a small"
SHOWN = "time span div pre details summary b i p img h3 ins del script"
MARKDOWN = "h4 h5 h6 ul blockquote strong em s code figure figcaption hr br table thead tbody tr th td"
VOID = {"meta", "img", "input", "br", "hr"}
TAGS = {*PAGE.split(), *SHOWN.split(), *MARKDOWN.split()}


def hostile(rng: random.Random) -> str:
    joints = ("\n", "\n", "\n\n", " ", "")
    return "".join(rng.choice(PIECES) + rng.choice(joints) for _ in range(rng.randint(0, 6)))


def session(rng: random.Random, text=hostile):
    """Events of one session, and the words that each message must end up with."""
    events, marks = [], []
    for number in range(rng.randint(0, 5)):
        mark = f"mark{number}end"
        kind = rng.choice(("user", "assistant", "system", "call", "blocks", "thinking"))
        content = f"{text(rng)}\n\n{mark}"
        if kind == "call":
            call = {"id": f"c{number}", "tool": text(rng) or "t", "params": {text(rng): content}}
            events += [("user", {"content": mark}), ("tool_call", call)]
            result = {"toolCallId": f"c{number}", "result": content, "is_error": rng.random() < 0.5}
            events += [("tool_result", result)]
            marks += [mark, mark, mark]
        elif kind == "thinking":
            events += [("thinking", {"content": content}), ("user", {"content": mark})]
            marks += [mark, mark]
        elif kind == "blocks":
            source = {"type": "base64", "media_type": text(rng), "data": text(rng)}
            blocks = [{"type": "image", "source": source}, {"type": "text", "text": content}]
            events += [("user", {"content": blocks, "agent": text(rng)})]
            marks += [mark]
        else:
            events += [(kind, {"content": content, "agent": text(rng)})]
            marks += [mark]
        if rng.random() < 0.2:
            events += [("interrupted", {"reason": text(rng)})]
    return [_event(number, *pair) for number, pair in enumerate(events)], marks


def _event(seq, type, data):
    event = Event(type, seq, 1_700_000_000_000 + seq * 1000)
    event.__dict__["data"] = data  # as recorded by a foreign tool: also what JSON cannot say
    return event


def export(events, format, title=None):
    metadata = SessionMetadata(session_id="s", title=title, message_count=len(events))
    recorded = Recorded(
        metadata=metadata, state=State, events=lambda: iter(events), lines=lambda: iter(()), recover=None
    )
    return b"".join(format_of(format).write(recorded, ExportOptions())).decode()


def check_markdown(document, marks):
    """The structure by an independent parser: one title, one rule, a section for each message."""
    assert not FORBIDDEN.search(document)
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(document)
    inner = [child for token in tokens for child in token.children or ()]
    kinds = [token.type for token in tokens] + [child.type for child in inner]
    assert not {"html_block", "html_inline", "image"} & set(kinds)
    assert kinds.count("hr") == 1
    for child in inner:
        assert not str(child.attrGet("href") or "").lower().startswith(("javascript", "data"))
    sections: list[list[str]] = []
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            name = tokens[number + 1].content
            assert token.level == 0
            assert token.tag == ("h2" if sections else "h1")
            assert not sections or HEADING.match(name)
            sections.append([])
        elif token.content:
            assert sections
            sections[-1].append(token.content)
    assert len(sections) - 1 == len(marks)
    for mark, words in zip(marks, sections[1:], strict=True):
        assert mark in "\n".join(words)


class Page(HTMLParser):
    """Tags and the text of each article; anything unexpected fails."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.articles: list[str] = []

    def handle_starttag(self, tag, attrs):
        assert tag in TAGS
        assert not [name for name, _ in attrs if name.startswith("on") or name == "style"]
        assert all(name != "src" or value.startswith("data:image/") for name, value in attrs)
        assert all(name not in ("action", "formaction") for name, _ in attrs)
        assert all(
            name != "href" or value.startswith(("#e", "http://", "https://", "mailto:")) for name, value in attrs
        )
        if tag not in VOID:
            self.open.append(tag)
        if tag == "article":
            assert self.open[:-1] == ["html", "body", "main"]
            self.articles.append("")

    def handle_endtag(self, tag):
        assert tag in VOID or self.open.pop() == tag

    def handle_data(self, data):
        if "article" in self.open:
            self.articles[-1] += data

    def handle_comment(self, data):
        raise AssertionError(data)

    def handle_pi(self, data):
        raise AssertionError(data)

    unknown_decl = handle_pi


def check_html(document, marks):
    assert not FORBIDDEN.search(document)
    page = Page()
    page.feed(document)
    page.close()
    assert page.open == []
    # A call and its result are one.
    assert len(set(marks)) <= len(page.articles) <= len(marks)
    for words in page.articles:
        assert any(mark in words for mark in marks)
    for mark in marks:
        assert any(mark in words for words in page.articles)


@pytest.mark.req("S2-80")
@pytest.mark.parametrize("chunk", [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, CHUNKS))])
def test_generated_sessions(chunk):
    """5,000 hostile sessions: the structure is intact, nothing runs, no escape sequence is left."""
    rng = random.Random(chunk)
    for _ in range(SESSIONS // CHUNKS):
        events, marks = session(rng)
        title = hostile(rng)
        check_markdown(export(events, "markdown", title), marks)
        check_html(export(events, "html", title), marks)
        assert not FORBIDDEN.search(export(events, "text", title))


REPEATED = [*PIECES, "`a", "`|", "](", "](  ", "[a](  javascript", "\\`", "> ", "- ", "&#x", "~~~~ "]


@pytest.mark.parametrize("piece", REPEATED)
def test_much_of_the_same(piece):
    """A hundred thousand characters of anything take no more than their share of time."""
    text = piece * (100_000 // max(1, len(piece)))
    events = [_event(0, "user", {"content": text}), _event(1, "assistant", {"content": text[::-1]})]
    for format in ("markdown", "text"):
        assert len(export(events, format)) > len(text.strip("\n `~")) // 2
    assert export(events, "html").endswith("</html>\n")  # many rules in a row are one line


def test_a_gap_before_spaces():
    """Many blanks after a bracket are looked at once."""
    text = "](" + " " * 1_000_000 + "x"
    assert export([_event(0, "user", {"content": text})], "markdown")


@given(st.lists(st.text(st.characters(), max_size=60), max_size=6))
def test_any_text(texts):
    """Whatever characters a message is made of, it stays in its own section."""
    events = [_event(seq, "user", {"content": f"{text}\n\nmark{seq}end"}) for seq, text in enumerate(texts)]
    marks = [f"mark{seq}end" for seq in range(len(texts))]
    check_markdown(export(events, "markdown"), marks)
    check_html(export(events, "html"), marks)


@given(st.lists(st.sampled_from("`~#>-=*_+ \n\t1.)|<[]!\\:&;a"), max_size=40).map("".join))
def test_punctuation(text):
    """The same for text of nothing but what markdown is made of."""
    events = [_event(0, "assistant", {"content": f"{text}\n\nmark0end"})]
    events += [_event(1, "user", {"content": "mark1end"})]
    check_markdown(export(events, "markdown"), ["mark0end", "mark1end"])
