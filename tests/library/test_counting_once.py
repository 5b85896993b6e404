"""What was spent counts once, however often a session was forked, merged or imported."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast


def spend(hf, id, tokens, *, tool=False):
    with hf.session(id) as s, s.turn():
        s.user(f"spend {tokens}")
        if tool:
            with s.tool("Pay", {"amount": tokens}) as call:
                call.result = "paid"
        s.assistant("spent", model="gpt-5", usage={"input_tokens": tokens, "output_tokens": 1})


def figures(stats):
    return (
        stats.tokens,
        stats.input_tokens,
        stats.requests,
        round(stats.cost or 0.0, 9),
        stats.messages,
        stats.turns,
        [(tool.name, tool.calls) for tool in stats.tools],
        [(share.name, share.tokens) for share in stats.models],
    )


@pytest.mark.parametrize("kind", ["file", "sqlite", "postgres"])
def test_forks_and_merges_add_nothing(request, tmp_path, kind):
    """On every catalogue: the sums stay, what is new in a fork comes on top, rows are whole."""
    places = {"file": f"{tmp_path}/store", "sqlite": f"sqlite://{tmp_path}/store.db"}
    url = places.get(kind) or request.getfixturevalue("postgres_url")
    with holdfast.open(url) as hf:
        spend(hf, "a", 1_000_000, tool=True)
        before = figures(hf.stats(tz="UTC"))
        for number in range(3):
            hf.fork("a", new_id=f"f{number}")
        assert figures(hf.stats(tz="UTC")) == before
        assert hf.stats(tz="UTC").sessions == 4
        spend(hf, "f0", 7)
        merged = hf.merge("a", "f0")
        after = hf.stats(tz="UTC")
        assert (after.tokens, after.requests, after.turns) == (1_000_009, 2, 2)
        rows = {row.session_id: row.total_tokens for row in hf.list()}
        assert rows == {"a": 1_000_001, "f0": 1_000_009, "f1": 1_000_001, "f2": 1_000_001} | {merged: 1_000_009}
        assert hf.info(merged).cost == pytest.approx(hf.info("f0").cost)
        spend(hf, merged, 100)
        assert hf.stats(tz="UTC").tokens == 1_000_110
        incremental = figures(hf.stats(tz="UTC"))
        hf.reindex()
        assert figures(hf.stats(tz="UTC")) == incremental


def test_a_fork_of_a_fork_and_a_step_back(tmp_path):
    """Every generation counts its own; going back to an earlier event spends nothing."""
    with holdfast.open(tmp_path / "store") as hf:
        spend(hf, "a", 10)
        b = hf.fork("a")
        spend(hf, b, 20)
        c = hf.fork(b)
        spend(hf, c, 30)
        hf.restore(c, 3)
        assert hf.stats(tz="UTC").tokens == 63
        assert hf.info(c).total_tokens == 63


@pytest.mark.parametrize("way", ["bytes", "a file of its name", "a file of any name"])
@pytest.mark.parametrize("form", ["bundle", "json", "jsonl"])
def test_an_import_of_what_is_there_adds_nothing(tmp_path, form, way):
    """A session that comes back is itself, however its file is called, and counts once."""
    with holdfast.open(tmp_path / "store") as hf:
        spend(hf, "a", 10)
        hf.fork("a", new_id="b")
        data = hf.export("a", form)
        given = data if isinstance(data, bytes) else data.encode()
        if way != "bytes":
            path = tmp_path / f"{'a' if way == 'a file of its name' else 'kept'}.{form}"
            path.write_bytes(given)
            given = path
        for _ in range(2):
            assert hf.import_(given) == ["a"]
        assert hf.stats(tz="UTC").tokens == 11
        spend(hf, "a", 20)
        assert hf.import_(given) == ["a"]
        assert (hf.stats(tz="UTC").tokens, len(hf.list())) == (32, 2)


@pytest.mark.parametrize("kind", ["file", "sqlite", "postgres"])
def test_an_export_under_another_name_goes_on(request, tmp_path, kind):
    """In another store too: a later export adds what is new to the session that came before."""
    places = {"file": f"{tmp_path}/other", "sqlite": f"sqlite://{tmp_path}/other.db"}
    url = places.get(kind) or request.getfixturevalue("postgres_url")
    with holdfast.open("memory:") as hf, holdfast.open(url) as other:
        spend(hf, "a", 10)
        spend(hf, hf.fork("a", new_id="b"), 5)
        first = other.import_(hf.export("a", "jsonl").encode())
        spend(hf, "a", 20)
        for form in ("jsonl", "json", "bundle"):
            data = hf.export("a", form)
            assert other.import_(data if isinstance(data, bytes) else data.encode()) == first
        assert other.stats(tz="UTC").tokens == 32
        branch = other.import_(hf.export("b", "jsonl").encode())
        assert branch != first
        assert other.stats(tz="UTC").tokens == 38


def test_a_fork_is_not_what_it_was_forked_from(tmp_path):
    """An export of one comes back as that one, though both logs begin with the same bytes."""
    with holdfast.open(tmp_path / "store") as hf:
        spend(hf, "a", 10)
        hf.fork("a", new_id="b")
        parent, branch = (hf.export(id, "jsonl").encode() for id in "ab")
        hf.delete("b")
        (tmp_path / "a.jsonl").write_bytes(branch)
        [again] = hf.import_(tmp_path / "a.jsonl")
        assert (hf.info(again).parent, hf.info("a").parent) == ("a", None)
        hf.delete("a")
        [back] = hf.import_(parent)
        assert (hf.info(again).parent, hf.info(back).parent) == ("a", None)
        assert len(hf.list()) == 2
        assert hf.stats(tz="UTC").tokens == 11


STEPS = st.lists(
    st.tuples(st.sampled_from(["spend", "fork", "merge", "ask"]), st.integers(0, 9), st.integers(0, 9)), max_size=10
)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_the_sum_is_what_was_spent(steps):
    """Over any family of sessions, whether the index followed each step or is made at the end."""
    with holdfast.open("memory:") as hf:
        spend(hf, "s0", 5)
        ids, spent, requests = ["s0"], 6, 1
        for number, (step, one, two) in enumerate(steps, 1):
            here, there = ids[one % len(ids)], ids[two % len(ids)]
            if step == "spend":
                spend(hf, here, number)
                spent, requests = spent + number + 1, requests + 1
            elif step == "fork":
                ids.append(hf.fork(here))
            elif step == "merge" and here != there:
                ids.append(hf.merge(here, there))
            else:
                hf.stats(tz="UTC")
        found = hf.stats(tz="UTC")
        assert (found.tokens, found.requests, found.turns) == (spent, requests, requests)
        by_hand = figures(found)
        hf.reindex()
        assert figures(hf.stats(tz="UTC")) == by_hand
