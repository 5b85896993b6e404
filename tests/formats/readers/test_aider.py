"""aider's histories."""

from __future__ import annotations

import pytest

from holdfast.formats import read_time
from holdfast.formats.readers.aider import READER

NAME = ".aider.chat.history.md"
HISTORY = """
# aider chat started at 2025-10-05 14:00:00

> /usr/bin/aider --model m-1
> Aider v0.80.1
> Main model: openai/m-1 with diff edit format
> Added a.py to the chat.

#### /add b.py
> Added b.py to the chat.

#### Rename the function
#### and its tests

I rename it:

```
# not a heading
def better(): ...
```

> Tokens: 1.2k sent, 3k cache write, 345 received. Cost: $0.01 message, $0.02 session.
> Applied edit to a.py

#### /ask is it good?

#### is it good?

Yes.

# aider chat started at 2025-10-06 09:30:00

> Aider v0.81.0

#### Hello

Hi.
""".lstrip("\n")
INPUTS = """
# 2025-10-05 14:01:02.500000
+Rename the function
+and its tests

# 2025-10-06 09:31:00.000000
+Hello
"""


@pytest.fixture
def read(kit):
    def give(history=HISTORY, beside=None):
        data = history if isinstance(history, bytes) else history.encode()
        return kit.read(READER, kit.source(NAME, data, beside))

    return give


@pytest.mark.req("C11")
def test_each_chat_is_a_session(read):
    """Turns, cost, model, version and the time it was started."""
    first, second = read()
    assert first.said() == ["Rename the function\nand its tests", "is it good?"]
    assert first.said("assistant")[1] == "Yes."
    assert first.said("assistant")[0].endswith("# not a heading\ndef better(): ...\n```")
    usage = first.of("usage")[0].data
    assert (usage["input_tokens"], usage["output_tokens"]) == (1200, 345)
    assert (usage["cost"], usage["model"]) == (0.01, "openai/m-1")
    assert (first.foreign.version, second.foreign.version) == ("0.80.1", "0.81.0")
    assert first.foreign.created_at == read_time("2025-10-05 14:00:00")
    assert second.counts() == (1, 1, 0, 0, 0)


def test_times_come_from_the_inputs(read):
    """It is noted in another file when something was typed."""
    first, second = read(beside={".aider.input.history": INPUTS.encode()})
    assert first.of("user")[0].timestamp == read_time("2025-10-05 14:01:02.5")
    assert second.of("user")[0].timestamp == read_time("2025-10-06 09:31:00")


def test_a_grown_history_gives_the_same_sessions_and_keys(read):
    """A second import can tell what is new."""
    before = read()
    after = read(HISTORY + "\n#### More\n\nOf course.\n")
    assert [t.foreign.foreign_id for t in after] == [t.foreign.foreign_id for t in before]
    keys = [d.key for d in before[1].drafts]
    assert [d.key for d in after[1].drafts][: len(keys)] == keys


def test_chats_started_in_the_same_second_stay_apart(read):
    """Each has an id of its own."""
    ids = [told.foreign.foreign_id for told in read("# aider chat started at 2025-10-05 14:00:00\n" * 3)]
    assert len(set(ids)) == 3


def test_odd_figures_and_broken_bytes(read):
    """What is no number is none; bytes that are no text are replaced, and that is told."""
    odd = "\n> Tokens: 1.2.3 sent, 9" + "9" * 400 + " received.\n#### <blank>\n"
    (told,) = read(b"# aider chat started at 2025-10-05 14:00:00\n#### Hi \xff\n" + odd.encode())
    assert told.of("usage")[0].data["input_tokens"] == 0
    assert told.said() == ["Hi \ufffd"]
    assert "replaced" in told.foreign.problems[0]


def test_other_documents_are_not_claimed(kit):
    """A heading that is not aider's is none."""
    assert not READER.claims(kit.source("README.md", b"# About\n\n#### Use\n"))


def test_a_command_that_is_not_repeated_is_a_turn(read):
    """Earlier versions wrote it only as it was typed."""
    (told,) = read("# aider chat started at 2025-10-05 14:00:00\n\n#### /ask why?\n\nSo.\n")
    assert told.said() == ["/ask why?"]


def test_a_chat_whose_heading_was_cut_off_arrives(read):
    """Without a time, as the first of the sessions."""
    first, *others = read("#### Hi\n\nHello.\n\n" + HISTORY)
    assert (first.said(), first.foreign.created_at) == (["Hi"], None)
    assert len(others) == 2
    assert read("> Aider v0.1\n#### Hi\n")[0].said() == ["Hi"]


def test_headings_and_quotations_in_an_answer(read):
    """What a person typed ends in two blanks there; the like in an answer is part of it."""
    history = (
        "# aider chat started at 2025-10-05 14:00:00\n\n> Aider v0.86.2  \n\n"
        "#### explain it  \n#### in short  \n\nSo:\n\n#### First\n\n> as they say\n\nDone.\n\n"
        "> Tokens: 10 sent, 5 received.  \n\n#### thanks  \n\nWelcome.\n"
    )
    (told,) = read(history.encode())
    assert told.said() == ["explain it\nin short", "thanks"]
    assert told.said("assistant") == ["So:\n\n#### First\n\n> as they say\n\nDone.", "Welcome."]
