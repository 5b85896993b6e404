"""Format versions: older events are brought up to date step by step, newer ones refused."""

from __future__ import annotations

import pytest

from holdfast.errors import TooNew
from holdfast.model import FORMAT_VERSION, Event
from holdfast.replay import STEPS, Fold, check_format, format_of, upcast, upcast_event

pytestmark = pytest.mark.req("S0-10")


def rename(old, new):
    """A step that renames a member of variable events."""

    def step(event):
        if event.type != "variable_set" or old not in event.data:
            return event
        data = {new if name == old else name: value for name, value in event.data.items()}
        return Event.make(event.type, data, seq=event.seq, timestamp=event.timestamp)

    return step


# Versions 0, 1, 2 and 3: the name was `var`, then `label`; 2 changed nothing; now it is `name`.
CHAIN = (rename("var", "label"), None, rename("label", "name"))


def set_variable(member, value, seq):
    """A variable_set as some version recorded it."""
    return Event.make("variable_set", {member: f"v{seq}", "value": value}, seq=seq)


@pytest.mark.req("S0-62")
@pytest.mark.req("S4-60")
@pytest.mark.parametrize(("version", "member"), [(0, "var"), (1, "label"), (2, "label"), (3, "name")])
def test_each_version_is_brought_up_step_by_step(version, member):
    """From any older version an event passes every step in turn."""
    event = upcast_event(set_variable(member, 1, 0), version, CHAIN)
    assert event.data == {"name": "v0", "value": 1}


@pytest.mark.req("S4-50")
def test_the_fold_sees_events_as_of_today():
    """A log whose version changes on the way folds to the same state as one written today."""
    old = [
        set_variable("var", 1, 0),
        Event.make("opened", {"format": 2}, seq=1),
        set_variable("label", 2, 2),
        Event.make("opened", {}, seq=3),
        set_variable("label", 3, 4),
    ]
    state = Fold(steps=CHAIN).fold(old)
    assert state.variables == {"v0": 1, "v2": 2, "v4": 3}
    assert state.format == 2


def test_a_plain_log_is_version_zero():
    """Without a session_start the first step applies too."""
    fold = Fold(steps=(rename("var", "label"), rename("label", "name")))
    assert fold.fold([set_variable("var", 5, 0)]).variables == {"v0": 5}


def test_a_fold_goes_on_in_the_version_of_its_snapshot():
    """The tail after a snapshot is read in the version the state has reached."""
    start = Event.make("session_start", {"format": 1, "log": "L"}, seq=0)
    steps = (None, rename("label", "name"))
    state = Fold(steps=steps).fold([start, set_variable("label", 1, 1)])
    assert state.format == 1
    tail = Fold(state, steps=steps).fold([set_variable("label", 2, 2)])
    assert tail.variables == {"v1": 1, "v2": 2}


def test_a_log_of_today_costs_nothing():
    """Where no step changes anything the events come back untouched, the very same object."""
    events = [Event.make("user", {"content": "x"})]
    assert upcast(events, 0) is events
    assert upcast(events, FORMAT_VERSION) is events
    assert upcast(events, 3, CHAIN) is events
    assert upcast_event(events[0], 0) is events[0]


def test_there_is_a_step_for_every_version():
    """The chain reaches from version 0 to the version that is written today."""
    assert len(STEPS) == FORMAT_VERSION


@pytest.mark.req("S4-45")
@pytest.mark.req("S0-62")
def test_a_newer_version_is_refused():
    """TooNew names the version, for a number, an event, or a log on the way."""
    with pytest.raises(TooNew, match="format 9") as caught:
        check_format(9)
    assert caught.value.format == 9
    with pytest.raises(TooNew):
        check_format(Event.make("session_start", {"format": FORMAT_VERSION + 1}))
    with pytest.raises(TooNew):
        upcast([], 2)
    with pytest.raises(TooNew):
        list(upcast([Event.make("opened", {"format": 4})], 0, CHAIN))


@pytest.mark.req("S0-61")
@pytest.mark.parametrize(
    ("event", "version"),
    [
        (Event.make("session_start", {"format": 1}), 1),
        (Event.make("opened", {"format": 0}), 0),
        (Event.make("session_start", {}), None),
        (Event.make("session_start", {"format": "1"}), None),
        (Event("session_start", 0, 0, b"[]"), None),
        (Event.make("user", {"content": "x", "format": 1}), None),
    ],
)
def test_an_event_says_which_version_begins(event, version):
    """Only session_start and opened do; a missing or unusable number says nothing."""
    assert format_of(event) == version
    assert check_format(event) == (version or 0)


def test_a_negative_version_counts_as_zero():
    """Nonsense numbers never reach into the chain from behind."""
    assert check_format(-1) == 0
    assert upcast_event(set_variable("var", 1, 0), -1, CHAIN).data["name"] == "v0"
