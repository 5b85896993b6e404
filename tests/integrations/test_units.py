"""What all adapters stand on: differences, units, and a place that is held and given back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.errors import Locked, UsageError
from holdfast.integrations._place import AdapterSession, library_of, own_id
from holdfast.integrations._units import Form, Units, apply, difference, spoken

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_a_difference_makes_the_given_value_again(base, given_value):
    """Whatever two values are, the difference applied to the first gives the second."""
    assert apply(base, difference(base, given_value)) == given_value


@given(VALUES)
def test_equal_values_differ_by_nothing(value):
    """Nothing is kept beside words that say it all."""
    assert difference(value, value) is None


def test_true_is_not_one():
    """Python calls them equal, JSON does not."""
    assert apply([1], difference([1], [True]))[0] is True


def _form() -> Form:
    return Form("test/1", lambda item: spoken(item, "neutral"), lambda words: {"role": words[0][0]})


def test_units_leave_out_what_was_retracted(store_root):
    """A unit of several events goes as a whole, whichever of them is named."""
    with holdfast.open(store_root) as hf:
        place = AdapterSession(hf, "test", "a")
        many = {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "1", "name": "f", "input": {}}],
        }
        with place.writing() as session:
            session.extend(_form().record(many))
            last = session.extend(_form().record({"role": "user", "content": "b"}))[-1]
            units = Units(place, _form())
            assert [unit.item for unit in units.read()] == [many, {"role": "user", "content": "b"}]
            session.append("retracted", {"seqs": [last.seq - 1]})
        assert [unit.item for unit in units.read()] == [{"role": "user", "content": "b"}]


def test_units_are_read_again_when_the_log_was_made_anew(store_root):
    """A session that was erased and begun again shows nothing of the old one."""
    with holdfast.open(store_root) as hf:
        place = AdapterSession(hf, "test", "a")
        units = Units(place, _form())
        for text in ("old", "new"):
            with place.writing() as session:
                session.extend(_form().record({"role": "user", "content": text}))
            assert [unit.item["content"] for unit in units.read()] == [text]
            place.close()
            hf.delete("a")
        assert units.read() == []


def test_an_id_that_cannot_be_ours_is_kept_in_a_link(store_root):
    """A foreign id is mapped the same way every time, and can be read in the session."""
    foreign = "user:42/Größe"
    assert own_id("test", foreign) == own_id("test", foreign) != own_id("other", foreign)
    with holdfast.open(store_root) as hf:
        place = AdapterSession(hf, "test", foreign)
        with place.writing() as session:
            session.user("hi")
        links = [event.data for event in hf.events(place.id, types={"link"})]
    assert links == [{"kind": "test", "id": foreign}]


def test_a_place_is_given_back_after_a_rest(store_root):
    """Another process can go on without the first one saying anything."""
    with holdfast.open(store_root) as hf:
        place = AdapterSession(hf, "test", "a", idle_ms=20)
        with place.writing() as session:
            session.user("hi")
        deadline = time.monotonic() + 20
        while not session.closed and time.monotonic() < deadline:
            time.sleep(0.01)
        assert session.closed
        with place.writing() as again:
            again.user("and on")
        assert [e.data["content"] for e in hf.events("a", types={"user"})] == ["hi", "and on"]


def test_who_comes_when_a_session_is_given_back_gets_another(store_root, monkeypatch):
    """A session that rested is either taken again, or closed; never both."""
    place = AdapterSession(store_root, "any", "trip", idle_ms=0)
    found = []
    with place.writing() as session:
        session.user("one")
    close = session.close
    monkeypatch.setattr(session, "close", lambda: (found.append(place.held()), close()))
    place.close()
    assert found == [None]
    with place.writing() as again:
        assert again is not session


async def test_a_place_waits_for_another_process_and_says_who_has_it(store_root):
    """A writer elsewhere is waited for; one that stays is named in the error."""
    program = """
        import holdfast, sys
        with holdfast.open(sys.argv[1]).session("a") as s:
            s.user("mine")
            print("held", flush=True)
            sys.stdin.readline()
    """
    holder = subprocess.Popen(  # noqa: ASYNC220 - starting it is not what is measured
        [sys.executable, "-c", textwrap.dedent(program), str(store_root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        impatient = AdapterSession(store_root, "test", "a", wait_ms=50)
        with pytest.raises(Locked):
            async with impatient.awriting():
                pass
        patient = AdapterSession(store_root, "test", "a")

        async def write():
            async with patient.awriting() as session:
                session.user("yours")

        writing = asyncio.create_task(write())
        await asyncio.sleep(0.05)
        holder.stdin.write("\n")
        holder.stdin.flush()
        await writing
    texts = [e.data["content"] for e in library_of(store_root).events("a", types={"user"})]
    assert texts == ["mine", "yours"]


def test_one_library_is_opened_for_each_address(store_root):
    """Adapters that are given the same address share one store and its sessions."""
    assert library_of(store_root) is library_of(str(store_root))
    library_of(store_root).close()
    assert not library_of(store_root).closed


def test_what_an_adapter_cannot_use_is_refused_in_our_words():
    """A library that is none, and an id that is no text."""
    with pytest.raises(UsageError, match="not int"):
        library_of(5)
    with pytest.raises(UsageError, match="not int"):
        own_id("openai-agents", 5)
