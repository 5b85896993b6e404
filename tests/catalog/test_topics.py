"""Automatic tags: what a session is about."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.catalog import Tally
from holdfast.catalog._data import read_topics
from holdfast.catalog._topics import auto_tags, marks_of, topics, vocabulary
from holdfast.model import Event

FIT_MIN = 0.8
LABELLED = runpy.run_path(str(Path(__file__).with_name("labelled_sessions.py")))


def heard(*texts, type="user"):
    """A tally of some messages."""
    return Tally().feed([Event.make(type, {"content": text}) for text in texts])


def fit(sessions):
    """How many of the sessions get a first tag that fits."""
    firsts = [(auto_tags(Tally().feed(one.events)) or [""])[0] for one in sessions]
    return sum(first in one.fitting for first, one in zip(firsts, sessions, strict=True))


@pytest.mark.req("S2-63")
def test_first_tags_of_a_hundred_sessions_fit():
    """Of a hundred sessions that were labelled before, at least eighty get a fitting first tag."""
    sessions = LABELLED["all_labelled"]()
    assert len(sessions) == 100
    assert fit(sessions) >= FIT_MIN * 100


@pytest.mark.req("S2-63")
def test_first_tags_of_sessions_that_were_not_tuned_on_fit():
    """The same share holds for the forty that nobody looked at while tuning."""
    sessions = LABELLED["held_out"]()
    assert len(sessions) == 40
    assert fit(sessions) >= FIT_MIN * 40


def test_the_words_of_the_guide_are_not_the_subject():
    """The guide speaks of crashes and kills in every session, whatever its user speaks of."""

    def tags(model):
        answer = {"content": "Say kill to see what survives a crash; debug the traceback.", "model": model}
        return auto_tags(Tally().feed([Event.make("user", {"content": "I am Alice"}), Event.make("assistant", answer)]))

    assert tags("gpt-5") == ("debugging",)
    assert tags("guide") == ()


def test_labels_name_topics_that_exist():
    """A label that no session could ever get would be a mistake of the labels."""
    wanted = {tag for one in LABELLED["all_labelled"]() for tag in one.fitting}
    languages = {"rust"}
    assert wanted - read_topics("topics.txt").keys() - languages <= {"planning", "news"}


def test_every_tag_says_why():
    """Words, tools and files that spoke for it, with how often, the heaviest first."""
    events = [
        Event.make("user", {"content": "run pytest, then pytest again"}),
        Event.make("tool_call", {"id": "1", "tool": "pytest", "params": {"path": "test_a.py"}}),
        Event.make("tool_call", {"id": "2", "tool": "Bash", "params": {"path": "test_b.py"}}),
    ]
    first = topics(Tally().feed(events))[0]
    assert first.tag == "testing"
    assert first.why.split(", ") == ["2x pytest", "2 files test_*", "1x the tool pytest", "2x test"]


def test_the_tool_that_everyone_has_says_nothing():
    """Whatever is done with a shell is not about shells."""
    events = [Event.make("tool_call", {"id": f"{n}", "tool": "Bash"}) for n in range(50)]
    assert topics(Tally().feed(events)) == []


def test_words_that_stand_out_where_no_topic_is_known():
    """What the user says again and again becomes the tag."""
    tally = heard("my zeppelin model", "the zeppelin again", "a zeppelin, and a gondola")
    assert [(one.tag, one.why) for one in topics(tally)] == [("zeppelin", "3x zeppelin")]


def test_nothing_known_nothing_said():
    """A session that says nothing gets no tag."""
    assert topics(Tally()) == []
    assert auto_tags(heard("hm", "ok", "and then?")) == ()


def test_what_is_far_behind_is_left_out():
    """A side remark does not become a tag."""
    tally = heard("docker kubernetes helm terraform deploy pipeline", "a song")
    assert auto_tags(tally) == ("devops",)


def test_so_many_tags_as_asked_for():
    """Never more than asked for."""
    tally = heard("pytest docker", "sql react", "guitar marathon")
    assert len(topics(tally, 2)) == 2


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("请翻译这段话", "translation"),
        ("レシピを教えて", "cooking"),
        ("우리 강아지가 아파요", "pets"),
        ("Bitte übersetze das", "translation"),
        ("Une recette avec des oignons et du beurre", "cooking"),
        ("¿Cuánto cuesta el vuelo y el equipaje?", "travel"),
    ],
)
def test_other_languages(text, tag):
    """The vocabulary has words of several languages and scripts."""
    assert auto_tags(heard(text))[0] == tag


@given(st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=60)))
def test_any_text(texts):
    """Whatever is said, tags are short words without blanks, and the same every time."""
    tags = auto_tags(heard(*texts))
    assert tags == auto_tags(heard(*texts))
    assert len(tags) <= 3
    assert all(tag and len(tag) <= 24 and not any(c.isspace() for c in tag) for tag in tags)


@pytest.mark.parametrize(
    ("path", "topics_found"),
    [
        ("tests/test_a.py", {"testing", "python"}),
        ("web\\components\\Button.tsx", {"frontend", "typescript"}),
        ("README.md", {"docs"}),
        (".github/workflows/ci.yml", {"devops"}),
        ("db/migrate/1.rb", {"database", "ruby"}),
        ("notes", set()),
    ],
)
def test_what_files_speak_for(path, topics_found):
    """By their name, their place and their kind."""
    assert {topic for topic, _, _ in marks_of(path)} == topics_found


def test_the_vocabulary_is_of_whole_words():
    """Every word is as texts are split: small letters, no blanks, no marks left over."""
    assert all(word == word.lower() and not set(word) & set("!?* ") for word in vocabulary().known)
