"""What people see of the chat: whole conversations at a pty, drawn by a terminal emulator and looked at.

``CHAT_SCREENS=full`` looks at every width in both themes and kills at fifty moments; ``CHAT_SCREENS=write`` writes the
screens anew, to be looked at by a person before they are kept.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pexpect
import pytest
from tests.chat.conftest import COMMAND, WAIT_S
from tests.chat.drawn import Drawn

from holdfast.testing.model_server import AskForTool, Fail, Say

SCREENS = Path(__file__).with_name("screens")
WISH = os.environ.get("CHAT_SCREENS", "")
ALL = [(columns, theme) for columns in (60, 80, 120, 200) for theme in ("dark", "light")]
SOME = [(60, "dark"), (120, "light")]
MARKDOWN = """## Plan

Here is the **plan**, with `code` in it, and one sentence that is too long for a narrow terminal:

1. read the file
2. change it

```python
def greet(name: str) -> str:
    return f"Hello {name}"
```

| name | size |
|------|-----:|
| a    | 1    |

> That is all.
"""
VARIES = (
    (r"\d\d:\d\d:\d\d(\s)on(\s)\d{4}-\d\d-\d\d", r"12:00:00\1on\g<2>2026-01-01"),
    (r"127\.0\.0\.1:\d{5}", "127.0.0.1:40000"),
    (r"\b[0-9a-z]{26}\b", "0" * 26),
    (r"[\d.]+k? tokens( +)·( +)context [\d.]+k?", r"1.0k tokens\1·\2context 1.0k"),
    (r"\d+\.\d s$", "0.1 s"),
    (r"^holdfast \S+", "holdfast 0.0.0"),
)


@pytest.fixture
def start(store_root, model, own_place):
    """Start the chat on a screen; more of them may be started, one after the other."""
    begun = []
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NO_COLOR", "COLUMNS", "PYTHONDONTWRITEBYTECODE")
    }
    environment |= {
        "HOLDFAST_STORE": str(store_root),
        "HOLDFAST_MODEL_SERVERS": "false",
        "HOLDFAST_GUIDE_WORD_MS": "0",
        "OPENAI_BASE_URL": model.openai_url,
        "TERM": "xterm-256color",
        "PYTHONWARNINGS": "error",
        "LC_ALL": "C.UTF-8",
    }

    def start(*arguments, columns=80, rows=30, env=None):
        begun.append(Drawn([COMMAND, "chat", "--model", "guide", *arguments], environment | (env or {}), columns, rows))
        begun[-1].wait_for_prompt()
        return begun[-1]

    start.environment = environment
    yield start
    for one in begun:
        one.close()


def scripted(request):
    """The model of the conversations: Markdown, a tool, a failure."""
    last = request.messages[-1]
    text = str(last.get("content"))
    if last["role"] == "tool":
        return Say("It has **one** line.")
    if "notes" in text:
        return AskForTool("read_file", {"path": "notes.txt"})
    return Fail(529, "Overloaded") if "fail" in text else Say(MARKDOWN, thinking="I think.")


@pytest.mark.parametrize(("columns", "theme"), ALL if WISH else SOME)
def test_conversations_look_as_they_should(start, model, own_place, columns, theme):
    """The guide, then a model: Markdown, a tool that asks, a failure in words, what it cost, on every width."""
    (own_place / "notes.txt").write_text("one line\n")
    model.follow(scripted)
    chat = start(*(["--light"] if theme == "light" else []), columns=columns, rows=50)
    for text in ("My name is Alice", "What is my name?", "/model openai:scripted", "show the plan"):
        chat.say(text)
    chat.wait_for_prompt()
    chat.send("read notes\r")
    chat.wait("(Enter: later):")
    chat.send("y\r")
    chat.wait("has one line")
    chat.say("fail")
    found = re.sub(r"(?m)^New session.*(\n(?!›).*)*\n", "", chat.text)
    for pattern, instead in VARIES:
        found = re.sub(pattern, instead, found, flags=re.MULTILINE)
    assert max(map(len, chat.lines)) <= columns
    found += "\n" + " ".join(sorted(chat.colours())) + "\n"
    kept = SCREENS / f"{columns}-{theme}.txt"
    if WISH == "write":
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(found, encoding="utf-8")
    assert found == kept.read_text(encoding="utf-8")


def answer_of(chat, question):
    """The words below the last time that a question was asked, without what goes on below them."""
    # Between the prompt that is left and the line that stays there is none of it.
    _, is_there, said = chat.text.rpartition(f"› {question}")
    if not is_there:
        return []
    body = re.split(r"\n(?:. working|⟲|› ?\n|─|Session )", said)[0]
    # What is bold or code is known when it ends: until then its signs are shown.
    return re.sub(r"[*`]", "", body).split()


def test_killed_at_any_moment_the_screen_comes_back(start, hf):
    """After kill -9 in mid answer the next start shows the whole question and every word that was on the screen."""
    moments = range(1, 51) if WISH == "full" else (1, 17, 40)
    question = "What can you do?"
    # The last moments are a few words before the end: slowly enough for whoever looks on a loaded machine.
    pace = {"HOLDFAST_GUIDE_WORD_MS": "20" if WISH == "full" else "8"}
    chat = start(env=pace)
    for moment in moments:
        chat.send(question + "\r")
        before = chat.text.count(f"› {question}")
        chat.wait(f"› {question}", before + 1)
        while len(answer_of(chat, question)) < 2 * moment:
            chat.look(0.001)
        chat.kill()
        seen = answer_of(chat, question)
        chat = start(env=pace)
        assert "⟲ interrupted just now: Enter goes on" in chat.text
        shown = answer_of(chat, question)
        assert shown[: len(seen)] == seen, moment
    [row] = hf.list()
    assert hf.verify(row.session_id).ok


def test_pasted_resized_stopped_and_hung_up(start, hf):
    """A paste and Alt-Enter make one message; another width, Ctrl-C and a terminal that goes away lose nothing."""
    chat = start(env={"HOLDFAST_GUIDE_WORD_MS": "20"})
    chat.send("\x1b[200~one\ntwo\nthree\x1b[201~")
    chat.send("\x1b\rfour")
    chat.look(0.3)
    chat.send("\r")
    chat.wait("shows")
    chat.wait_for_prompt()
    chat.send("/help")
    chat.resize(60, 20)
    chat.look(0.5)
    chat.send("\r")
    chat.wait("/exit")
    chat.wait_for_prompt()
    chat.send("kill\r")
    chat.wait("two, three")
    chat.resize(50, 20)
    chat.wait("five")
    chat.send("\x03")
    chat.wait("(stopped; what was said is kept)")
    assert chat.text.count("Kill me while I count") == 1  # what was drawn on the wider screen is gone
    chat.wait_for_prompt()
    chat.send("kill\r")
    chat.wait("two, three", 2)
    chat.child.close(force=False)  # the terminal goes away
    [row] = hf.list()
    events = list(hf.events(row.session_id))
    assert [event.data["content"] for event in events if event.type == "user"] == [
        "one\ntwo\nthree\nfour",
        "kill",
        "kill",
    ]
    assert [event.data["reason"] for event in events if event.type == "turn_end"][1] == "cancelled"
    again = start(columns=60)
    assert "interrupted just now: Enter goes on" in again.text
    again.send("\r")
    again.wait("nobody killed me this time")


def test_a_session_is_chosen_by_typing(start, hf):
    """The picker shows the newest sessions with their last words and narrows as one types; a kill keeps the choice."""
    for name in ("planner", "butcher"):
        with hf.session(name, agent_id="assistant") as session:
            session.user(f"I am the {name}")
            session.assistant(f"Good day, {name}.")
    chat = start("--new")
    chat.send("/sessions\r")
    assert "Good day, butcher." in chat.wait("↑↓")
    chat.send("plan")
    chat.wait("Good day, planner.")
    chat.send("\r")
    assert "Restored session planner" in chat.wait("Restored session")
    chat.wait_for_prompt()
    chat.send("/sessions\r")
    chat.wait("↑↓")
    chat.send("\x1b")
    assert "↑↓" not in chat.wait_for_prompt()
    chat.kill()
    assert "Restored session planner" in start().text


def test_words_said_while_it_worked_are_there_after_a_crash(start, hf):
    """The question is shown from its beginning, with what was said meanwhile, heard or not, and a call that was cut."""
    with hf.session("mine", agent_id="assistant") as session:
        session.user("the first question")
        session.assistant("the first answer")
        session.user("the question")
        heard = session.append("steer", {"content": "in French"})
        session.append("user", {"role": "user", "content": "in French", "steer": heard.seq})
        session.append("delta", {"content": "Je dis"})
        session.append("steer", {"content": "shorter"})
        session.tool_call("read_file", {"path": "a.txt"}, id="call_1")
    shown = start("--session", "mine").text.partition("earlier: /history")[2]
    said = [
        "› the question",
        "› in French",
        "Je dis",
        "not heard yet: shorter",
        "● read_file a.txt  …",
        "Enter goes on",
    ]
    places = [shown.find(text) for text in said]
    assert -1 not in places, shown
    assert places == sorted(places)
    assert "the first answer" not in shown


def test_a_terminal_that_can_only_show_lines_is_talked_to_all_the_same(start, own_place):
    """With ``TERM=dumb`` there is a prompt, and whoever types is asked; nothing is drawn."""
    (own_place / "notes.txt").write_text("one line\n")
    environment = {**start.environment, "TERM": "dumb"}
    chat = pexpect.spawn(COMMAND, ["chat", "--model", "guide"], env=environment, timeout=WAIT_S)
    written = []
    for expected, typed in (
        ("you> ", "read notes.txt"),
        (r"\(Enter: later\): ", "y"),
        ("has 1 line, 2 words", "exit"),
        (pexpect.EOF, ""),
    ):
        chat.expect(expected)
        written.append(chat.before)
        chat.sendline(typed) if typed else chat.close()
    assert b"\x1b" not in b"".join(written)
    assert "→ read_file notes.txt\r\n" in b"".join(written).decode()
    assert "✓ 1 line\r\n" in b"".join(written).decode()
