"""Conversations with the guide: it keeps, finds, counts and asks, and says that it is no language model."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from holdfast.agent import Agent, Kit, builtin_tools
from holdfast.agent.commands import COMMANDS
from holdfast.errors import UsageError

MOMENT = r"at \d\d:\d\d:\d\d on \d{4}-\d\d-\d\d"


class Conversation:
    """One session with the guide, in a folder with a file."""

    def __init__(self, hf, folder, permission=lambda _: True, session=None):
        self.hf, self.folder, self.permission = hf, folder, permission
        self.session = session or hf.session(agent_id="assistant")

    def say(self, *texts):
        """Say each text in turn; the last answer."""
        for text in texts:
            agent = Agent("guide", tools=builtin_tools(str(self.folder)), hf=self.hf, permission=self.permission)
            answer = agent.run_sync(text, session=self.session).output
        return answer

    def calls(self):
        """The names of the tools that were used."""
        return [event.data["tool"] for event in self.session.events() if event.type == "tool_call"]


@pytest.fixture
def talk(hf, tmp_path):
    """A conversation that allows everything."""
    (tmp_path / "notes.txt").write_text("one two three\nfour\n")
    with (conversation := Conversation(hf, tmp_path)).session:
        yield conversation


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("what is this?", "a chat whose session stays"),
        ("whats my name", "have not told me your name"),
        ("can you write python code?", "takes a language model"),
        ("2+2", "takes a language model"),
        ("what happens if I pull the plug", "Kill me while I count"),
        ("whats in this folder", "Here I see"),
        ("how can I use Claude", "`/model [NAME]`"),
        ("where is my data stored", "`holdfast doctor`"),
        ("forget my name", "`holdfast redact ID`"),
        ("this is stupid", "survives a crash"),
        ("where is my data", "`holdfast doctor`"),
        ("I love pizza", "word for word, as your message 2"),
        ("can you run commands?", "I only read"),
        ("are you alive", "not a language model"),
        ("what model are you?", "not a language model"),
        ("who made you?", "part of Holdfast"),
        ("is this free?", "costs nothing"),
        ("how many lines does notes.txt have?", "has 2 lines, 4 words"),
        ("cat notes.txt", "has 2 lines, 4 words"),
        ("could you please read notes.txt?", "has 2 lines, 4 words"),
        ("what is 2 + 2?", "takes a language model"),
        ("what is the weather?", "takes a language model"),
        ("I don't get it", "Here is what I can do"),
        ("test", "It works"),
        ("مرحبا", "نموذج"),
        ("how do i quit", "Ctrl-D leaves"),
        ("share this chat", "`/export [FILE]`"),
        ("👍", "Then let us go on"),
        ("what did I say first?", "The first thing you said here:\n\n- “hello”"),
        ("what do i need to do", "no tasks"),
    ],
)
def test_what_newcomers_say(talk, text, answer):
    """Words of every kind, also misspelt ones, get an answer of their own, and not that they are not understood."""
    assert answer in talk.say("hello", text)


def test_what_is_not_understood_is_not_told_in_the_same_words_again(talk):
    """Who knows that it is no language model is led on instead."""
    answers = [talk.say(text) for text in ("brumm", "brumm brumm", "brumm brumm brumm")]
    assert len(set(answers)) == 3
    assert ["not a language model" in answer for answer in answers] == [True, False, False]


def test_it_says_nothing_twice_in_a_row(talk):
    """Small talk is led to another thing each time, and to nothing once everything was tried."""
    steps = [talk.say("thanks").partition(". ")[2] for _ in range(3)]
    assert len(set(steps)) == 3
    talk.say("my name is Al", "what is my name", "kill", "count", "todo: rest", "read notes.txt", "fork", "search y")
    assert "You have seen it all" in talk.say("title x")
    assert talk.say("thanks") == "You are welcome."


def test_a_search_finds_this_session_too(talk):
    """What was said a minute ago is found, and not the search itself."""
    assert "you said “Remind me to buy milk”" in talk.say("Remind me to buy milk", "find milk")


def test_it_says_that_it_is_no_language_model(talk):
    """The first word, the question who it is, and what it cannot understand: it never pretends."""
    for text in ("hi", "Who are you?", "Are you an AI?", "Write a poem on rust", "asdf qwer"):
        assert re.search("not a language model|takes a language model, and I am not one", talk.say(text)), text


@pytest.mark.parametrize(
    ("told", "asked", "value"),
    [
        ("My name is Alice", "What is my name?", "Your name is Alice"),
        ("Hello, I'm Bob.", "who am I?", "Your name is Bob"),
        ("call me Dr. Who, please", "do you know my name", "Your name is Dr. Who"),
        ("Ich heiße Jürgen", "Wie heiße ich?", "Your name is Jürgen"),
        ("我叫李雷", "我叫什么", "Your name is 李雷"),
        ("I live in São Paulo and work there", "Where do I live?", "You live in São Paulo"),
        ("I would like to travel to Kyoto.", "where do I want to go", "You want to go to Kyoto"),
        ("My train is at 9:11.", "what is my train?", "Your train is at 9:11"),
        ("I have a dog called Rex", "what is my dog called", "Your dog's name is Rex"),
        ("my nam is Alice", "waht is my name", "Your name is Alice"),
        ("My favorite color is blue", "what's my favourite colour?", "Your favourite colour is blue"),
        ("my dog's name is Rex", "What's my dog's name?", "Your dog's name is Rex"),
        ("My dog is called Rex", "what is the name of my dog?", "Your dog's name is Rex"),
        ("I come from Peru", "Where am I from?", "You are from Peru"),
        ("remember that the door code is 4711", "what is the door code?", "Your door code is 4711"),
    ],
)
def test_it_keeps_what_it_is_told(talk, told, asked, value):
    """Names, places and what else is mine come back with the words in which they were told, and the moment."""
    answer = talk.say(told, "count", asked)
    event = next(event for event in talk.session.events() if event.type == "user")
    assert answer.startswith(f"{value}. You said “{told}” ")
    assert re.search(rf"{MOMENT} \(event {event.seq} of this session\)\.", answer)


def test_the_later_word_counts(talk):
    """What is told anew replaces what was told; questions and denials tell nothing."""
    assert "Your name is Eve" in talk.say("My name is Alice", "My name is Eve", "Is my name Carol?", "What is my name?")
    assert "have not told me where you live" in talk.say("Where do I live?")


def test_it_remembers_over_sessions(talk, hf, tmp_path):
    """Another session of the same agent knows the name, and in which session it was said."""
    talk.say("My name is Alice")
    with (other := Conversation(hf, tmp_path)).session:
        assert f"(in the session {talk.session.id})" in other.say("What is my name?")
    with (third := Conversation(hf, tmp_path, session=hf.session(agent_id="stranger"))).session:
        assert "have not told me your name" in third.say("What is my name?")


def test_everything_that_was_told(talk):
    """A list of all that was told, each with its words."""
    assert "have not told me anything" in talk.say("What do you know about me?")
    answer = talk.say(
        "My name is Alice",
        "remember that the key is under the mat",
        "note: stamps from Lisbon",
        "What do you remember?",
    )
    assert "- name: Alice (“My name is Alice”" in answer
    assert "- key: under the mat" in answer
    assert "- note: stamps from Lisbon" in answer


def test_what_was_said_is_found_by_its_words(talk):
    """A question that is nobody's subject finds the message that has its words."""
    answer = talk.say("The boiler was repaired by Smith on Tuesday", "Who repaired the boiler?")
    assert "You said “The boiler was repaired by Smith on Tuesday”" in answer
    assert "do not understand" in talk.say("Who painted the fence?")


def test_tasks(talk):
    """Tasks are kept as todos of the session, once each, and are done when one says so."""
    assert "There are no tasks" in talk.say("What are my tasks?")
    assert "number 1" in talk.say("Remind me to call Bob")
    assert "number 2" in talk.say("I need to buy milk.")
    assert "already" in talk.say("todo: call Bob")
    assert "“call Bob” is done" in talk.say("done with call Bob")
    assert "no such task" in talk.say("finished the cathedral")
    assert "- [x] call Bob\n- [ ] buy milk" in talk.say("my tasks")
    assert [todo["status"] for todo in talk.session.todos] == ["completed", "pending"]


def test_it_reads_files(talk):
    """A file is read with the tool of the place, counted and shown; a folder is listed."""
    answer = talk.say("read notes.txt")
    assert "`notes.txt` has 2 lines, 4 words and 19 characters" in answer
    assert "one two three\nfour" in answer
    assert "`notes.txt`" in talk.say("list files")
    assert "could not read `gone.txt`" in talk.say("please open gone.txt")
    assert "Tell me which file" in talk.say("read")
    assert talk.calls() == ["read_file", "list_directory", "read_file"]


def test_what_is_refused_is_told(hf, tmp_path):
    """Without a permission no file is read and no title given, and the guide says why."""
    with (talk := Conversation(hf, tmp_path, permission=lambda _: False)).session:
        assert "could not read `notes.txt`: Permission denied" in talk.say("read notes.txt")
        assert "could not list" in talk.say("list files")
        assert "The title stays as it was" in talk.say("call this session My trip")
        assert talk.session.title != "My trip"


def test_it_asks_for_permission(talk):
    """A title is given after a person allowed it."""
    asked = []
    talk.permission = lambda request: asked.append((request.tool, request.args)) or True
    assert "is now called “My trip”" in talk.say("call this session My trip.")
    assert asked == [("set_title", {"title": "My trip"})]
    assert talk.session.title == "My trip"
    assert "Tell me the title" in talk.say("title")


def test_it_searches_earlier_sessions(talk, hf, tmp_path):
    """A search finds the words of other sessions and names them; of none it says so."""
    talk.say("The Zanzibar ferry leaves at noon")
    talk.session.flush()
    with (other := Conversation(hf, tmp_path)).session:
        assert f"- `{talk.session.id}`: The Zanzibar ferry" in other.say("search my sessions for zanzibar")
        assert "Nothing about “xylophone”" in other.say("search xylophone")


def test_it_counts_the_log(talk):
    """The figures are those of the log at that moment."""
    talk.say("My name is Alice")
    answer = talk.say("count")
    kinds = [event.type for event in talk.session.events()]
    last_call = len(kinds) - kinds[::-1].index("tool_call")
    assert int(re.search(r"has (\d+) events", answer)[1]) == last_call
    assert "Tool calls: 2." in answer


@pytest.mark.parametrize("text", ["fork", "How do I go back?", "export this", "another model", "delete it", "sessions"])
def test_it_knows_the_commands(talk, text):
    """What it names exists: slash commands are those of the table, verbs those of the command."""
    from holdfast.apps.cli import cli

    answer = talk.say(text)
    assert "On the command line: `holdfast " in answer
    slashes = re.findall(r"`/(\w+)", answer)
    verbs = re.findall(r"`holdfast (\w+)", answer)
    assert slashes
    assert set(slashes) <= COMMANDS.keys()
    assert all(cli.get_command(None, verb) for verb in verbs)


def test_it_shows_what_it_can(talk):
    """Every example of its list is understood, and so is every step to which it leads."""
    listed = re.findall(r"`([^`]+)`", talk.say("What can you do?"))
    assert len(listed) > 10
    for text in listed:
        assert "do not understand" not in talk.say(text), text


def test_it_leads_through_everything_once(talk):
    """Who does what it proposes is led to the end, and nothing is proposed twice."""
    text, seen = "hi", []
    while steps := re.findall(r"(?:Tell|Ask|Say|Give|Let|Search)[^`]*`([^`]+)`", talk.say(text)):
        text = steps[-1] if steps[-1] not in seen else "thanks"
        seen.append(text)
        assert len(seen) < 25, seen
    assert {"My name is Alice", "What is my name?", "kill", "count"} <= set(seen)


def test_the_same_conversation_gets_the_same_answer(hf, tmp_path):
    """It is deterministic: two sessions with the same words differ in nothing that was said."""
    words = ("hi", "My name is Alice", "Remind me to call Bob", "fork", "was?", "thanks", "What are my tasks?")
    both = []
    for agent in ("a", "b"):
        with (talk := Conversation(hf, tmp_path, session=hf.session(agent_id=agent))).session:
            both.append([talk.say(text) for text in words])
    assert both[0] == both[1]


async def test_an_answer_comes_in_pieces(talk):
    """A stream has the words of the whole answer, one by one."""
    async with Agent("guide", hf=talk.hf).run_stream("fork", session=talk.session) as stream:
        pieces = [piece async for piece in stream]
    assert "".join(pieces).startswith("A fork is a copy")


def test_a_kit_knows_the_tools_of_the_guide():
    """A server or page that runs the guide goes on with an approved call of a tool that the guide brings."""
    kit = Kit.configured(None, model="guide", agent=None)
    assert {"set_title", "read_file"} <= kit.tool_names(lambda: builtin_tools("."))


def test_only_one_guide():
    """There is one, and no other by that name."""
    with pytest.raises(UsageError, match="guide:large"):
        Agent("guide:large")


def test_it_answers_an_empty_conversation_and_noise(talk):
    """Long, strange and empty messages get an answer, soon."""
    for text in ("x" * 100_000, "my " * 5_000, "???", "\u202eabc", "`", "my name is", "call me", "i am " * 1_000):
        assert talk.say(text)


def chat(store, folder, word_ms):
    """The chat as a process that is talked to by pipes."""
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", "chat", "--store", str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, "HOLDFAST_GUIDE_WORD_MS": str(word_ms)},
    )


def test_a_killed_answer_goes_on(store_root, tmp_path):
    """Killed with -9 while it counts, it goes on after the last word that was seen, and says all others."""
    first = chat(store_root, tmp_path, 4)
    first.stdin.write(b"kill\n")
    first.stdin.flush()
    seen = b""
    while b"four," not in seen:
        piece = os.read(first.stdout.fileno(), 4096)
        assert piece, seen
        seen += piece
    assert f"`kill -9 {first.pid}`".encode() in seen
    first.kill()
    first.wait()
    seen = (seen + first.stdout.read()).decode()
    first.stdin.close()
    first.stdout.close()
    second, _ = chat(store_root, tmp_path, 0).communicate(b"go on\n", timeout=60)
    answer = second.decode()
    last = re.findall(r"\w+(?=,)", seen)[-1]
    kept = re.search(r"after “…(.*)”", answer)[1]
    assert last in kept, (seen[-60:], kept)
    rest = answer.partition("Going on:")[2]
    counted = re.findall(r"\w+", kept.partition("slowly: ")[2] or kept) + re.findall(r"\w+", rest)
    assert counted[counted.index("four") :][:4] == ["four", "five", "six", "seven"]
    assert "nobody killed me" in rest


def test_what_was_cut_off_is_offered(talk):
    """After a cut answer, another question is answered with a word on the one before."""
    talk.session.user("fork")
    talk.session.append("delta", {"content": "A fork is a copy of a session"})
    answer = talk.say("who are you")
    assert answer.startswith(
        "(My last answer was cut off after “…A fork is a copy of a session”. `go on` gives the rest.)"
    )
    assert "nothing left to finish" in talk.say("go on")
