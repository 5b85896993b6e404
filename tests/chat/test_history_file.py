"""The file of what was typed: private, ordered, never in the way."""

from __future__ import annotations

import stat
import threading

import pytest

from holdfast.apps.history import InputHistory


@pytest.mark.req("S2-53")
def test_lines_are_kept_in_a_private_file(tmp_path):
    """A later chat finds the lines; nobody else can read the file."""
    InputHistory(str(tmp_path / "state")).add("hello")
    InputHistory(str(tmp_path / "state")).add("wörld")
    assert InputHistory(str(tmp_path / "state")).lines() == ["hello", "wörld"]
    path = tmp_path / "state" / "history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_is_not_kept(tmp_path):
    """A line with a blank before it, an empty one and a repetition are not stored."""
    history = InputHistory(str(tmp_path))
    assert [history.add(line) for line in ("one", " secret", "\tsecret", "", "one", "two")] == [
        True,
        False,
        False,
        False,
        False,
        True,
    ]
    assert history.lines() == ["one", "two"]


def test_it_does_not_grow_without_end(tmp_path):
    """The newest thousand lines stay."""
    history = InputHistory(str(tmp_path))
    (tmp_path / "history").write_text("".join(f"{n}\n" for n in range(1000)))
    history.add("last")
    lines = history.lines()
    assert (len(lines), lines[0], lines[-1]) == (1000, "1", "last")


def test_two_chats_lose_no_line(tmp_path):
    """Chats that write at the same time keep each other's lines."""

    def write(name):
        history = InputHistory(str(tmp_path))
        for number in range(10):
            history.add(f"{name}{number}")

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(InputHistory(str(tmp_path)).lines()) == sorted(f"{n}{i}" for n in "ab" for i in range(10))


def test_a_place_that_cannot_be_used_disturbs_nobody(tmp_path):
    """Without a history there is simply none."""
    (tmp_path / "file").write_text("")
    history = InputHistory(str(tmp_path / "file"))
    assert history.add("one") is False
    assert history.lines() == []
