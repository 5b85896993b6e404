"""What is going on in a session: counts, turns, calls, streams, and how work ended."""

from __future__ import annotations

import pytest

from holdfast.model import Event
from holdfast.replay import Fold, fold, needs_interruption


def log(*events, first=0, run=None):
    """A log of (type, data) pairs, a second apart; a bare string is an event without data."""
    pairs = [(event, {}) if isinstance(event, str) else event for event in events]
    return [
        Event.make(type, data, seq=first + at, timestamp=1_700_000_000_000 + 1000 * at, run=run)
        for at, (type, data) in enumerate(pairs)
    ]


def state_of(*events, run=None):
    """The state after such a log."""
    return fold(log(*events, run=run))


USER = ("user", {"role": "user", "content": "Hi"})
ANSWER = ("assistant", {"role": "assistant", "content": "Hello"})
CALL = ("tool_call", {"id": "c1", "tool": "Read", "params": {}})
RESULT = ("tool_result", {"toolCallId": "c1", "result": "text"})
DELTA = ("delta", {"content": "Hel"})


@pytest.mark.req("S2-16")
@pytest.mark.req("S2-18")
@pytest.mark.req("S2-40")
def test_messages_are_counted_by_what_was_said():
    """User, assistant and system messages and tool results count; calls and thoughts do not."""
    system = ("system", {"content": "Be brief."})
    thought = ("thinking", {"content": "hm"})
    state = state_of(system, USER, thought, CALL, RESULT, ANSWER)
    assert (state.message_count, state.event_count, state.seq) == (4, 6, 5)


@pytest.mark.req("S1-10")
@pytest.mark.req("S1-12")
def test_times_are_those_of_the_first_and_the_last_event():
    """created_at comes from the first event that has a time, updated_at from the last."""
    events = [Event.make("user", {"content": "a"}, seq=0), *log(USER, ANSWER, first=1)]
    state = fold([*events, Event.make("user", {"content": "b"}, seq=3)])
    assert (state.created_at, state.updated_at) == (1_700_000_000_000, 1_700_000_001_000)


@pytest.mark.req("S1-37")
def test_an_empty_log_gives_an_empty_idle_state():
    """Nothing recorded: nothing counted, nothing pending, status idle."""
    state = fold([])
    assert (state.seq, state.event_count, state.status, state.variables) == (-1, 0, "idle", {})
    assert needs_interruption(state) is None


@pytest.mark.req("B-36")
@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([USER, ANSWER], "idle"),
        (["turn_start", USER], "running"),
        (["turn_start", USER, ANSWER, "turn_end"], "idle"),
        ([USER, CALL], "running"),
        ([USER, CALL, RESULT], "idle"),
        ([USER, DELTA], "running"),
        ([USER, DELTA, ANSWER], "idle"),
        (["turn_start", USER, CALL, "suspended"], "waiting"),
        (["turn_start", USER, CALL, "suspended", "resumed"], "running"),
        (["turn_start", USER, "suspended", ("turn_end", {"reason": "suspended"})], "waiting"),
        (["turn_start", "suspended", "turn_end"], "idle"),
        (["suspended", "turn_start", "turn_end"], "idle"),
        (["turn_start", USER, CALL, "turn_end"], "waiting"),
        (["turn_start", USER, CALL, "turn_end", RESULT], "idle"),
        (["turn_start", USER, CALL, ("turn_end", {"reason": "cancelled"})], "idle"),
        (["turn_start", USER, CALL, "interrupted"], "interrupted"),
        (["turn_start", USER, "interrupted", USER], "idle"),
        (["turn_start", USER, "interrupted", "turn_start", "turn_end"], "idle"),
        (["turn_start", USER, "closed"], "interrupted"),
        (["turn_start", USER, DELTA, CALL, "suspended", "closed"], "waiting"),
        ([USER, CALL, "closed"], "waiting"),
        ([USER, CALL, "closed", "opened", RESULT], "idle"),
        ([USER, ANSWER, "closed"], "idle"),
        (["interrupted"], "interrupted"),
    ],
)
def test_status_is_derived_from_events(events, status):
    """Idle, running, waiting or interrupted follow from the events alone."""
    assert state_of(*events).status == status


def test_a_turn_ends_only_for_its_own_run():
    """A turn that ends in one run leaves the turn, the calls and the stream of another open."""
    main = log("turn_start", USER, DELTA, CALL)
    other = log("turn_start", "turn_end", first=4, run="helper")
    state = fold([*main, *other])
    assert state.open_turn.seq == 0
    assert (list(state.pending_calls), state.streaming) == (["c1"], {"": 2})
    assert fold([*main, *other, *log("turn_end", first=6)]).mid_turn is False


def test_a_turn_is_named_by_its_number_or_else_by_its_seq():
    """turn_start may name the turn; without a name its seq is the name."""
    assert state_of("turn_start").open_turn.turn == 0
    state = state_of(("turn_start", {"turn": "t7"}))
    assert (state.open_turn.turn, state.open_turn.started_at) == ("t7", 1_700_000_000_000)
    assert state_of("turn_start", "turn_end", "turn_start").turns == 2


def test_a_stream_is_over_when_its_run_has_its_message():
    """An answer covers what its own run streamed, and not what another run did."""
    streamed = [*log(DELTA, DELTA), *log(DELTA, first=2, run="helper")]
    assert fold(streamed).streaming == {"": 0, "helper": 2}
    state = fold([*streamed, *log(ANSWER, first=3)])
    assert (state.streaming, state.uncovered_delta) == ({"helper": 2}, True)


@pytest.mark.parametrize(("covers_from", "left"), [(0, {}), (1, {"": 0}), (None, {"": 0})])
def test_a_thought_covers_what_it_says(covers_from, left):
    """A thought ends the stream only if it covers it from its first piece."""
    thought = ("thinking", {"content": "hm", "covers_from": covers_from})
    assert state_of(DELTA, DELTA, thought).streaming == left


def test_a_thought_without_a_stream_changes_nothing():
    """Thoughts that were not streamed, or streamed by another run, end no stream."""
    thought = ("thinking", {"content": "hm", "covers_from": 0})
    assert state_of(thought).ignored == 0
    assert fold([*log(DELTA, run="helper"), *log(thought, first=1)]).streaming == {"helper": 0}


def test_what_is_retracted_is_no_longer_awaited():
    """A retracted call needs no result, a retracted stream no message."""
    other = ("tool_call", {"id": "c2", "tool": "Read"})
    events = [DELTA, CALL, other, ("retracted", {"seqs": [0, 1]})]
    state = state_of(*events)
    assert (list(state.pending_calls), state.streaming) == (["c2"], {})
    deferred = state_of("turn_start", CALL, "turn_end", ("retracted", {"seqs": [1]}))
    assert (deferred.deferred_calls, deferred.status) == ({}, "idle")


def test_pending_calls_name_their_tool_and_event():
    """A call without a result is listed by id with its tool and seq."""
    call = state_of(USER, CALL).pending_calls["c1"]
    assert (call.tool, call.seq) == ("Read", 1)


@pytest.mark.req("S3-15")
@pytest.mark.parametrize(
    "data",
    [{"toolCallId": "c1", "result": 1}, {"toolCallId": "c1"}, {"result": {"toolCallId": "x"}, "toolCallId": "c1"}],
)
def test_a_result_is_linked_by_id_wherever_the_id_stands(data):
    """The order of members in the line does not matter."""
    assert state_of(CALL, ("tool_result", data)).pending_calls == {}
    fold_live = Fold(state_of(CALL))
    fold_live.apply(log(("tool_result", data), first=1)[0], data)
    assert fold_live.state.pending_calls == {}


def test_a_result_with_an_escaped_id_is_linked():
    """Ids with quotes or backslashes are compared as text, not as bytes of the line."""
    odd = 'a"\\b'
    call = ("tool_call", {"id": odd, "tool": "Read"})
    assert state_of(call, ("tool_result", {"toolCallId": odd})).pending_calls == {}


def test_a_user_s_blocks_settle_only_the_calls_whose_results_they_are():
    """Words beside a result settle nothing."""
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "text"}
    said = ("user", {"role": "user", "content": [{"type": "text", "text": "and"}, result]})
    other = ("tool_call", {"id": "c2", "tool": "Read", "params": {}})
    assert list(state_of(USER, CALL, other, said).pending_calls) == ["c2"]


@pytest.mark.req("S3-17")
def test_results_without_a_call_change_only_the_count():
    """An orphan result is a message like any other and disturbs no pending call."""
    orphan = ("tool_result", {"toolCallId": "other"})
    assert list(state_of(CALL, orphan).pending_calls) == ["c1"]
    assert state_of(("tool_result", {})).message_count == 1


class TestInterruption:
    """A session that died at work is told so, once."""

    @pytest.mark.parametrize(
        ("events", "expected"),
        [
            (["turn_start", USER], {"turn": 1, "calls": [], "streaming": False}),
            ([USER, CALL], {"turn": None, "calls": ["c1"], "streaming": False}),
            ([USER, DELTA], {"turn": None, "calls": [], "streaming": True}),
        ],
    )
    def test_a_log_that_ends_in_mid_turn_needs_one(self, events, expected):
        """An open turn, a call without result or an unfinished stream each call for one."""
        found = needs_interruption(state_of("opened", *events))
        assert found == {**expected, "reason": "the process ended in mid-turn"}

    def test_it_is_needed_only_once(self):
        """Once recorded, opening again and again asks for no other."""
        state = state_of("opened", "turn_start", USER, CALL, DELTA)
        events = log("opened", ("interrupted", needs_interruption(state)), "opened", first=5)
        after = Fold(state).fold(events)
        assert (needs_interruption(after), after.mid_turn) == (None, False)
        assert after.status == "interrupted"

    @pytest.mark.parametrize(
        "events",
        [
            [USER, ANSWER],
            ["turn_start", USER, "closed"],
            [USER, CALL, "closed"],
            ["turn_start", USER, CALL, "suspended"],
            ["turn_start", USER, CALL, "turn_end"],
        ],
    )
    def test_a_session_that_stopped_in_order_needs_none(self, events):
        """Closed, suspended, finished or left to others is not interrupted."""
        assert needs_interruption(state_of("opened", *events)) is None

    @pytest.mark.req("B-36")
    @pytest.mark.parametrize(
        ("events", "alive", "status"),
        [
            (["turn_start", USER], True, "running"),
            (["turn_start", USER], False, "interrupted"),
            (["turn_start", USER, "suspended"], False, "waiting"),
            ([USER, ANSWER], False, "idle"),
        ],
    )
    def test_status_knows_whether_anyone_is_at_work(self, events, alive, status):
        """What looks running is interrupted if no process has the session open."""
        state = state_of(*events)
        state.alive = alive
        assert (state.status, state.copy().status) == (status, status)

    def test_who_is_at_work_is_seen_and_never_folded(self):
        """A state that is gone on with, or opened anew, is taken to be at work again."""
        state = state_of("turn_start", USER)
        state.alive = False
        assert Fold(state.copy()).state.status == "running"
        fold_on = Fold(state)
        fold_on.state.alive = False
        assert fold_on.fold(log("opened", first=2)).status == "running"


FAILED = ("turn_end", {"reason": "failed"})
ERROR = ("agent_error", {"agent": "a", "error": {"code": "model_failed"}})


class TestFailure:
    """A session whose last turn ended in an error says so until it goes on."""

    @pytest.mark.parametrize(
        "events",
        [
            ["turn_start", USER, FAILED],
            ["turn_start", USER, ERROR, FAILED, "closed"],
            ["turn_start", USER, ("turn_end", {"reason": "error"})],
            [USER, ERROR],
            ["turn_start", USER, CALL, FAILED, "opened", "closed"],
        ],
    )
    def test_an_error_at_the_end_is_a_failure(self, events):
        """A turn that ended in an error, or an agent's error without a turn around it."""
        state = state_of("opened", *events)
        assert state.status == "failed"
        assert state.unfinished

    @pytest.mark.parametrize(
        ("events", "status"),
        [
            (["turn_start", USER, FAILED, USER], "idle"),
            (["turn_start", USER, FAILED, "turn_start"], "running"),
            (["turn_start", USER, FAILED, "turn_start", ANSWER, "turn_end"], "idle"),
            (["turn_start", USER, ERROR, ANSWER, "turn_end"], "idle"),
            (["turn_start", USER, ERROR], "running"),
            (["turn_start", USER, ("turn_end", {"reason": "cancelled"})], "idle"),
            (["turn_start", USER, FAILED, "interrupted"], "interrupted"),
        ],
    )
    def test_what_went_on_has_not_failed(self, events, status):
        """Another word or turn ends the failure; an error that a turn got over is none."""
        assert state_of("opened", *events).status == status

    def test_a_delegates_turn_does_not_end_the_one_around_it(self):
        """While another run has a turn open, the session runs."""
        fold_on = Fold(state_of("turn_start", USER))
        assert fold_on.fold(log("turn_start", FAILED, first=2, run="d-1")).status == "running"


class TestOpening:
    """Who had the session open."""

    def test_the_last_opening_is_kept(self):
        """Epoch, process and host of the last opening, and whether it was closed."""
        opened = {"epoch": 3, "pid": 42, "host": "here", "version": "0.1", "salt": "x"}
        state = state_of("opened", "closed", ("opened", opened), USER)
        last = state.last_open
        assert (state.epoch, last.epoch, last.pid, last.host) == (3, 3, 42, "here")
        assert (last.version, last.seq, last.opened_at) == ("0.1", 2, 1_700_000_002_000)
        assert last.closed is False
        assert Fold(state).fold(log("closed", first=4)).last_open.closed is True

    def test_a_plain_log_can_be_closed(self):
        """Closing without an opening on record is harmless."""
        assert state_of(USER, "closed").last_open is None


@pytest.mark.req("B-32")
class TestAutomaticTitle:
    """Every session with a user message has something to show in a list."""

    @pytest.mark.parametrize(
        ("content", "title"),
        [
            ("Plan my\n trip", "Plan my trip"),
            ("x" * 51, "x" * 49 + "…"),
            ("word " * 20, "word word word word word word word word word word…"[:49] + "…"),
            ("x" * 50, "x" * 50),
            ([{"type": "image"}, "odd", {"text": " "}, {"text": 5}, {"text": "Look"}], "Look"),
            ([{"type": "image"}], None),
            (" \n", None),
            ({"$": 1}, None),
        ],
    )
    def test_it_is_the_first_words_of_the_first_user_message(self, content, title):
        """At most fifty characters on one line; blocks give their first text."""
        state = state_of(("user", {"content": content}))
        assert (state.title_auto, state.shown_title) == (title, title)
        assert title is None or len(title) <= 50

    def test_a_later_message_does_not_change_it(self):
        """The first message that has text decides."""
        image = ("user", {"content": [{"type": "image"}]})
        assert state_of(image, USER, ("user", {"content": "Other"})).title_auto == "Hi"

    def test_a_given_title_is_shown_instead(self):
        """A title that was set wins, and an automatic one that was recorded replaces the words."""
        auto = ("title", {"title": "Greeting", "auto": True})
        state = state_of(USER, ("title", {"title": "Mine"}), auto)
        assert (state.title, state.title_auto, state.shown_title) == ("Mine", "Greeting", "Mine")
        cleared = state_of(USER, ("title", {"title": "Mine"}), ("title", {"title": None}))
        assert cleared.shown_title == "Hi"


STEP = ("step", {"step": "pay", "name": "charge", "digest": "d", "attempt": 1})


def ended(**data):
    """The end of the step above."""
    return ("step_result", {"step": "pay", "attempt": 1, **data})


def test_a_step_is_open_until_it_ends():
    """It has begun; its result, if short, is in the state, and no longer open."""
    begun = state_of(STEP)
    assert (begun.steps["pay"].status, begun.open_steps, begun.status) == (*("begun", {"pay": 0}, "running"),)
    done = state_of(STEP, ended(ok=True, value=[1])).steps["pay"]
    assert (done.status, bytes(done.raw), done.result_seq) == ("done", b"[1]", 1)


def test_a_long_result_of_a_step_stays_in_the_log():
    """The state says where it is, and does not hold it."""
    done = state_of(STEP, ended(ok=True, value="x" * 2000)).steps["pay"]
    assert (done.is_long, bytes(done.raw), done.result_seq) == (True, b"null", 1)


@pytest.mark.parametrize(("data", "status"), [({}, "failed"), ({"cancelled": True}, "unknown")])
def test_a_step_that_failed_or_was_given_up(data, status):
    """What it failed with is known; given up, whether it took effect is not."""
    error = {"message": "OSError: no", "kinds": ["OSError"]}
    step = state_of(STEP, ended(ok=False, error=error, **data)).steps["pay"]
    assert (step.status, step.error, step.kinds) == (status, "OSError: no", ["OSError"])
    assert state_of(STEP, ended(ok=False)).steps["pay"].error == ""


def test_the_end_of_a_step_that_never_began_changes_nothing():
    """Such as one that a cut log lost; one without a key is counted as malformed."""
    assert state_of(ended(ok=True)).steps == {}
    assert state_of(("step", {}), ("step_result", {})).ignored == 2


@pytest.mark.parametrize("end", ["closed", "interrupted"])
def test_work_that_stops_within_a_step_is_interrupted(end):
    """The step stays begun, for whoever asks about it; the session is not at work any more."""
    state = state_of(STEP, end)
    assert (state.status, state.steps["pay"].status) == ("interrupted", "begun")
    assert state_of(STEP, ended(ok=True), end).open_steps == {}


def test_a_fork_has_the_steps_and_is_not_at_work():
    """What was begun before a fork is known in it, and nobody there is at it."""
    state = state_of(STEP, ("forked", {"session": "a", "seq": 0}))
    assert (state.status, list(state.steps)) == ("idle", ["pay"])
