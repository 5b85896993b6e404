"""The stores that the bench makes: their sessions are like recorded ones."""

from __future__ import annotations

import pytest

import holdfast


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).parents[2]))
    from bench.crowd import Crowd

    store = str(tmp_path_factory.mktemp("crowd") / "store")
    made = Crowd(6, chars_max=400)
    size = made.fill(store, 120)
    sys.path.pop(0)
    return made, store, size


def test_a_made_session_verifies(crowd):
    """Its checksums are right, and it has what a session has that was recorded."""
    _, store, size = crowd
    with holdfast.open(store) as hf:
        reports = [hf.verify(one.session_id) for one in hf.list(None)]
    assert len(reports) == 120
    assert all(report.ok and report.checksummed for report in reports)
    assert sum(report.size_bytes for report in reports) == size


def test_sessions_of_a_crowd_differ(crowd):
    """Each has its own title and time, so that a list has something to sort."""
    _, store, _ = crowd
    with holdfast.open(store) as hf:
        rows = hf.list(None)
    assert len({row.title for row in rows}) == len({row.updated_at for row in rows}) == 120
    assert [row.session_id for row in rows] == [f"session-{n:07d}" for n in range(119, -1, -1)]


def test_a_rare_word_is_rare(crowd):
    """Ten sessions have it, and every hundredth has the tag."""
    from bench.crowd import RARE, TAG, common_words, paths, phrases, rare_words

    _, store, _ = crowd
    with holdfast.open(store) as hf:
        assert [len(hf.search(word, limit=None)) for word in rare_words(120)] == [10] * 12
        assert RARE in rare_words(120)
        assert len(hf.list(tags=[TAG])) == 2
        assert all(hf.search(f'"{phrase}"') for phrase in phrases(2))
        assert all(hf.search(word) for word in [*common_words(5), *paths(10)])


def test_the_texts_for_others_are_those_of_the_logs(crowd):
    """The floor indexes the same words as ours."""
    made, store, _ = crowd
    texts = list(made.texts(120))
    with holdfast.open(store) as hf:
        said = [event.data["content"] for event in hf.events("session-0000007", types=["user"])]
    assert [text for number, type, text in texts if (number, type) == (7, "user")] == said
    assert len(texts) == 120 * 6
