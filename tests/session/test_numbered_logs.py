"""A log whose lines have numbers but no checksums: neither plain nor ours."""

from __future__ import annotations

import json

import pytest

from holdfast import Holdfast
from holdfast.errors import Damaged


def lines(count, **more):
    """Lines that another program wrote."""
    return [
        {**dict.fromkeys(more, n), "type": "user", "timestamp": n, "data": {"content": f"m{n}"}} for n in range(count)
    ]


@pytest.fixture
def put(tmp_path):
    """A function that puts a log into the store, by hand; it gives the path."""

    def put(id, found, end="\n"):
        folder = tmp_path / "sessions" / id
        folder.mkdir(mode=0o700, parents=True)
        path = folder / "events.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in found) + end)
        path.chmod(0o600)
        return path

    tmp_path.chmod(0o700)
    (tmp_path / "sessions").mkdir(mode=0o700)
    return put


def test_it_is_refused_and_stays_as_it_is(put, tmp_path):
    """Nothing is set aside; the error says what to do, and doing it opens the log."""
    path = put("theirs", lines(3, seq=True))
    before = path.read_bytes()
    with Holdfast(str(tmp_path)) as hf:
        with pytest.raises(Damaged, match="no checksums") as caught:
            hf.session("theirs")
        assert "`seq`" in caught.value.remedy
        report = hf.verify("theirs")
        assert not report.ok
        assert any("no checksums" in line for line in report.explain())
        assert list(hf.session("theirs", read_only=True).events()) == []
        assert path.read_bytes() == before
        path.write_text("\n".join(json.dumps(line) for line in lines(3)) + "\n")
        with hf.session("theirs") as s:
            s.user("more")
        assert [event.data["content"] for event in hf.events("theirs", types="user")] == ["m0", "m1", "m2", "more"]


def test_who_wants_it_mended_goes_on_without_it(put, tmp_path):
    """With repair="auto" the bytes are set aside, and kept."""
    put("theirs", lines(3, seq=True))
    with Holdfast(str(tmp_path)) as hf:
        with hf.session("theirs", repair="auto") as s:
            s.user("more")
        assert [event.data["content"] for event in hf.events("theirs", types="user")] == ["more"]
        assert hf.store.documents("sessions/theirs").names("quarantine/")


@pytest.mark.parametrize("found", [{"seq": 0}, "x"])
def test_a_whole_line_that_is_none_is_damage(put, tmp_path, found):
    """No crash leaves such a line, so that it is not set aside without a word."""
    put("theirs", [found])
    with Holdfast(str(tmp_path)) as hf:
        with pytest.raises(Damaged):
            hf.session("theirs")
        assert not hf.verify("theirs").ok


def test_what_a_crash_may_have_left_is_set_aside(put, tmp_path):
    """A first line that is not whole stands in nobody's way."""
    put("torn", [{"seq": 0, "type": "user"}], "")
    with Holdfast(str(tmp_path)) as hf:
        with hf.session("torn") as s:
            s.user("hello")
        assert [event.data["content"] for event in hf.events("torn", types="user")] == ["hello"]
