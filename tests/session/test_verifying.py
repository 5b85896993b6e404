"""Looking at every byte while somebody else writes."""

from __future__ import annotations

import pytest

from holdfast.library import Holdfast
from holdfast.storage._file_log import FileLog


@pytest.fixture
def hf(store_root):
    """A library on files."""
    with Holdfast(store_root, timers=False) as library:
        yield library


def test_what_is_cut_while_it_is_read_is_no_damage(hf, monkeypatch):
    """Half a batch was read, cut off by the next writer, and other lines are in its place now."""
    with hf.session("a") as session:
        for number in range(4):
            session.user(f"number {number}")
    read, looks = FileLog.read, []

    def mixed(log, start=0):
        looks.append(start)
        data = b"".join(read(log, start))
        if len(looks) == 1:
            at = data.index(b'{"seq":3')
            data = data[:at] + b'ber 9"},"crc":"00000000"}\n' + data[at:]
        return iter([data])

    monkeypatch.setattr(FileLog, "read", mixed)
    assert hf.verify("a").gaps == []
    assert len(looks) > 1
