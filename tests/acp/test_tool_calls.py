"""A call is one call, however its agent tells of it; and how far it came is known everywhere."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.apps.acp.handover import transcript_note, undone
from holdfast.apps.acp.recording.recorder import Notes
from holdfast.apps.acp.replay.replay import replay
from holdfast.apps.acp.replay.words import UNDONE
from holdfast.model import Event
from holdfast.replay import fold, read_transcript, recover

AGENT = Path(__file__).parent / "agents" / "late.py"
HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
COMMAND = "./deploy.sh production"
WHOLE = {"command": COMMAND}
UNKNOWN, NOT_ANSWERED, REFUSED = UNDONE["begun"], UNDONE["asked"], UNDONE["refused"]
STAND_INS = {
    UNKNOWN: "(interrupted: whether this call took effect is unknown)",
    NOT_ANSWERED: "(not run: nobody answered whether it may run)",
    REFUSED: "(not run: it was refused)",
}


# --- what the log says ----------------------------------------------------------------------------


def update(kind, /, **members):
    changed = {"sessionUpdate": kind, "toolCallId": "c1", **members}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "theirs", "update": changed}}


def announced(**members):
    return update("tool_call", **members)


def more(**members):
    return update("tool_call_update", **members)


def question(**members):
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    call = {"toolCallId": "c1", **members}
    params = {"sessionId": "theirs", "toolCall": call, "options": options}
    return {"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}


def chosen(option):
    outcome = {"outcome": "selected", "optionId": option} if option else {"outcome": "cancelled"}
    return {"jsonrpc": "2.0", "id": 7, "result": {"outcome": outcome}}


YES, NO, CANCELLED = chosen("y"), chosen("n"), chosen(None)
PROMPT = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "session/prompt",
    "params": {"sessionId": "theirs", "prompt": [{"type": "text", "text": "deploy"}]},
}


class Log:
    """The events of a session in which this passed between editor and agent."""

    def __init__(self, *frames):
        self.events = []
        self.notes = Notes("late", next_seq=lambda: len(self.events))
        self._put(self.notes.client(PROMPT))
        for frame in frames:
            self.take(frame)

    def take(self, frame):
        if "method" in frame:
            self._put(self.notes.agent(frame))
        else:
            self._put(self.notes.answer(question(), frame, "client"))

    def _put(self, taken):
        for type, data in taken.events:
            made = Event.make(type, data)
            self.events.append(Event(type, len(self.events), raw=made.raw))

    def of(self, type):
        return [event.data for event in self.events if event.type == type]

    @property
    def calls(self):
        """The calls as a model gets them, each with its result."""
        blocks = [
            block
            for message in recover(self.events, "neutral", "mark").messages
            for block in message["content"]
            if isinstance(block, dict)
        ]
        results = {b["tool_use_id"]: b["content"] for b in blocks if b["type"] == "tool_result"}
        return [(b["name"], b["input"], results[b["id"]]) for b in blocks if b["type"] == "tool_use"]

    @property
    def replayed(self):
        """The updates about calls that an editor gets."""
        lines = [json.loads(line) for line in replay(self.events, "ours")]
        found = [line["params"]["update"] for line in lines]
        return [one for one in found if "toolCallId" in one]

    @property
    def shown(self):
        """The call as an editor shows it after the replay."""
        known = {}
        for one in self.replayed:
            known |= {key: value for key, value in one.items() if value not in (None, [])}
        return known


def text_of(shown):
    return "".join(part["content"]["text"] for part in shown["content"])


def test_an_answered_permission_begins_the_call():
    """A call known by its question alone is on record, with title, kind and input of that."""
    asked = question(title=COMMAND, kind="execute", rawInput=WHOLE, status="pending")
    log = Log(asked, YES)
    [call] = log.of("tool_call")
    assert call == {"id": "c1", "tool": "execute", "params": WHOLE, "title": COMMAND, "direction": "agent"}
    assert [one["decision"] for one in log.of("permission")] == ["ask", "allow"]
    assert {one["call"] for one in log.of("permission")} == {"c1"}
    assert log.calls == [("execute", WHOLE, STAND_INS[UNKNOWN])]
    first, last = log.replayed
    assert first == {
        "sessionUpdate": "tool_call",
        "toolCallId": "c1",
        "title": COMMAND,
        "kind": "execute",
        "rawInput": WHOLE,
        "status": "pending",
    }
    assert (last["status"], text_of(last)) == ("failed", UNKNOWN)


def test_a_question_without_input_has_what_it_shows():
    """Gemini CLI tells the command as a title, and the folder as a text beside it."""
    beside = {"type": "content", "content": {"type": "text", "text": "[in /srv]"}}
    log = Log(question(title=COMMAND, kind="execute", content=[beside], locations=[]), YES)
    about = {"title": COMMAND, "content": "[in /srv]"}
    assert log.calls == [("execute", about, STAND_INS[UNKNOWN])]
    log.take(more(status="completed", title=COMMAND, content=[], locations=[]))
    assert log.calls[0][:2] == ("execute", about)
    assert log.shown["status"] == "completed"
    assert len(log.of("tool_call")) == 1


def test_a_change_to_a_file_is_the_input_of_an_agent_that_tells_no_other():
    """What a user allowed is on record, not only that something was."""
    diff = {"type": "diff", "path": "/a", "oldText": None, "newText": "new"}
    log = Log(question(title="a", kind="edit", content=[diff], locations=[{"path": "/a"}]), YES)
    [(_, about, _)] = log.calls
    change = {"path": "/a", "oldText": None, "newText": "new"}
    assert about == {"paths": ["/a"], "title": "a", "content": change}


@pytest.mark.parametrize(
    ("answers", "undone"), [((), NOT_ANSWERED), ((YES,), UNKNOWN), ((NO,), REFUSED), ((CANCELLED,), REFUSED)]
)
@pytest.mark.parametrize(
    "frames",
    [
        [question(title=COMMAND, kind="execute", rawInput=WHOLE)],
        [
            announced(title="Shell", kind="execute", status="pending", rawInput={}),
            question(title=COMMAND, kind="execute", rawInput=WHOLE),
        ],
        [
            announced(title="bash", kind="execute", status="pending", rawInput={"cwd": "/w"}),
            more(title=COMMAND, status="in_progress", rawInput={"cwd": "/w", **WHOLE}),
            question(title=COMMAND, kind="execute", rawInput=WHOLE, locations=[]),
        ],
        [announced(title=COMMAND, kind="execute", status="pending", rawInput=WHOLE), question(kind="execute")],
    ],
    ids=["asked", "empty", "growing", "announced"],
)
def test_a_call_nobody_allowed_did_not_run(frames, answers, undone):
    """State, conversation and replay agree on one call, with its command, and how far it came."""
    log = Log(*frames, *answers)
    [(tool, params, result)] = log.calls
    assert (tool, params["command"], result) == ("execute", COMMAND, STAND_INS[undone])
    assert params in (WHOLE, {"cwd": "/w", **WHOLE})
    shown = log.shown
    assert (shown["title"], shown["status"], text_of(shown)) == (COMMAND, "failed", undone)
    assert shown["rawInput"]["command"] == COMMAND
    read = [entry for entry in read_transcript(log.events) if entry.kind == "call"]
    assert ({entry.id for entry in read}, read[-1].value["command"]) == ({"c1"}, COMMAND)
    [stage] = [call.stage for call in fold(log.events).pending_calls.values()]
    assert UNDONE[stage] == undone


def test_an_input_that_comes_later_completes_the_call():
    """One call, in its first place, with what was said of it last; every frame is kept."""
    first = announced(title="bash", kind="execute", status="in_progress", rawInput={})
    then = more(title=COMMAND, rawInput=WHOLE)
    log = Log(first, then)
    assert [data.get("amends") for data in log.of("tool_call")] == [None, True]
    assert [data["raw"] for data in log.of("tool_call")] == [first, then]
    assert log.calls == [("execute", WHOLE, STAND_INS[UNKNOWN])]
    assert log.shown["rawInput"] == WHOLE
    assert log.shown["title"] == COMMAND
    log.take(more(rawInput=WHOLE, status="in_progress"))
    assert len(log.of("tool_call")) == 2
    log.take(more(status="completed", title="Done", rawOutput="well"))
    assert log.calls == [("execute", WHOLE, "well")]
    assert len(log.of("tool_call")) == 2


def test_an_input_that_comes_with_the_end_completes_the_call():
    """Where an agent tells it last, it is on record all the same, and its output is no input."""
    log = Log(
        announced(title="bash", kind="execute", status="in_progress"),
        more(status="completed", rawInput=WHOLE, rawOutput="well"),
    )
    assert log.calls == [("execute", WHOLE, "well")]
    assert [one["status"] for one in log.replayed] == ["in_progress", "completed"]


def test_a_call_that_is_announced_after_it_was_asked_about_is_the_same():
    """One id is one call, whatever told of it first."""
    log = Log(
        question(title=COMMAND, kind="execute", rawInput=WHOLE),
        YES,
        announced(title=COMMAND, kind="execute", status="completed", rawInput=WHOLE),
    )
    assert len(log.of("tool_call")) == 1
    assert len(log.calls) == 1
    assert {one["toolCallId"] for one in log.replayed} == {"c1"}
    assert log.shown["status"] == "completed"


def test_what_a_question_shows_is_no_output():
    """A notice beside a question (Qwen Code) is not what the command gave."""
    beside = {"type": "content", "content": {"type": "text", "text": "Review it manually."}}
    log = Log(question(title=COMMAND, rawInput=WHOLE, content=[beside]), YES, more(status="completed"))
    [(_, params, result)] = log.calls
    assert params == WHOLE
    assert "Review" not in str(result)


def test_a_question_about_a_call_that_has_ended_is_only_a_frame():
    """What is done is done: the replay does not open it again."""
    log = Log(announced(title="Plan", status="completed", rawInput={"a": 1}), question(title="Go?"))
    assert not log.of("permission")
    assert log.shown["status"] == "completed"
    log.take(YES)
    assert log.of("permission")[0]["decision"] == "allow"
    assert log.shown["status"] == "completed"


def test_an_agent_that_does_not_wait_for_the_answer_may_have_run_it():
    """It is under way although nobody answered: then nobody may say that it did not run."""
    log = Log(question(title=COMMAND, kind="execute", rawInput=WHOLE), more(status="in_progress"))
    assert log.of("permission")[-1] == {"tool": "execute", "call": "c1", "decision": "withdrawn"}
    assert log.calls == [("execute", WHOLE, STAND_INS[UNKNOWN])]
    assert text_of(log.shown) == UNKNOWN


def test_a_refused_call_that_gets_no_end_waits_for_nobody():
    """Gemini CLI ends its turn without a word about what was refused."""
    log = Log(question(title=COMMAND, rawInput=WHOLE), NO)
    ended = log.notes.answer(PROMPT, {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}}, "agent")
    log._put(ended)
    state = fold(log.events)
    assert (state.status, state.pending_calls, state.deferred_calls) == ("idle", {}, {})
    assert text_of(log.shown) == REFUSED


texts = st.sampled_from(["", "Shell", COMMAND])
inputs = st.sampled_from([{}, {"cwd": "/w"}, WHOLE, {**WHOLE, "cwd": "/w"}])
told = st.fixed_dictionaries(
    {}, optional={"title": texts, "kind": st.sampled_from(["execute", "other"]), "rawInput": inputs}
)
under_way = st.sampled_from([{}, {"status": "pending"}, {"status": "in_progress"}])
steps = st.lists(
    st.tuples(told, under_way).map(lambda one: announced(**one[0], **one[1]))
    | st.tuples(told, under_way).map(lambda one: more(**one[0], **one[1]))
    | told.map(lambda one: question(**one))
    | st.sampled_from([YES, NO]),
    max_size=6,
)


@given(steps)
def test_all_agree_on_a_call_however_it_is_told(frames):
    """In whatever order: one call at most, its newest input, and one word on how far it came."""
    log = Log()
    asked, answer = False, None
    newest = {}
    for frame in frames:
        if "method" not in frame and not asked:
            continue  # nobody answers what was not asked
        log.take(frame)
        if "method" not in frame:
            answer, asked = frame, False
            continue
        params = frame["params"]
        about = params.get("toolCall") or params["update"]
        newest = {**newest, **(about.get("rawInput") or {})}
        if "toolCall" in params:
            asked, answer = True, None
        elif about.get("status") == "in_progress" and asked:
            asked, answer = False, None
    calls = log.calls
    assert len(calls) <= 1
    if not calls:
        assert not newest
        return
    [(_, params, result)] = calls
    expected = NOT_ANSWERED if asked else REFUSED if answer is NO else UNKNOWN
    assert result == STAND_INS[expected]
    assert text_of(log.shown) == expected
    [pending] = fold(log.events).pending_calls.values()
    assert UNDONE[pending.stage] == expected
    assert set(params) >= {"command"} or "command" not in newest
    [known] = log.notes.open_calls
    assert known.data()["params"] == params


# --- what a model is told -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ({"tool": "execute", "params": {"command": "ls -l"}}, "execute: ls -l in /srv"),
        ({"tool": "sh", "params": {"cmd": ["echo", "a b"]}}, "sh: echo 'a b' in /srv"),
        ({"tool": "sh", "params": {"command": "ls", "cwd": "/other"}}, "sh: ls in /other"),
        ({"tool": "sh", "params": {"command": "ls", "workdir": "sub"}}, "sh: ls in /srv/sub"),
        ({"tool": "edit", "params": {"path": "a"}}, 'edit: {"path": "a"} in /srv'),
        ({"tool": "execute", "params": {"title": "ls"}, "title": "ls"}, "execute: ls in /srv"),
        ({"tool": "think", "params": {}}, "think in /srv"),
        ({"tool": "think", "params": [1]}, "think in /srv"),
    ],
)
def test_a_call_is_named_by_its_command_and_folder(data, what):
    """Enough to look whether it took effect."""
    assert undone(data, "begun", "/srv").what == what


def test_a_long_input_is_shortened():
    """A note is no place for a file."""
    assert len(undone({"tool": "write", "params": {"content": "x" * 9999}}, "begun", None).what) < 1200


def test_a_result_is_told_with_its_call_where_that_does_not_stand_before_it():
    """A model that has the call, or two of them, learns which one came to nothing."""
    asked = {"role": "assistant", "content": [tool_use("c1", "ls"), tool_use("c2", "rm")]}
    came = {"role": "user", "content": [tool_result("c1", "a.txt"), tool_result("c2", "(?)")]}
    told = transcript_note([asked, came]).splitlines()
    assert told[-3:-1] == ['sh: {"command": "ls"} gave: a.txt', 'sh: {"command": "rm"} gave: (?)']
    end = transcript_note([came], before=[asked])
    assert "lacks its end" in end
    assert 'sh: {"command": "ls"} gave: a.txt' in end
    one = transcript_note(
        [
            {"role": "assistant", "content": [tool_use("c1", "ls")]},
            {"role": "user", "content": [tool_result("c1", "no", is_error=True)]},
        ]
    )
    assert 'used sh: {"command": "ls"}\nIt failed: no\n' in one


def tool_use(id, command):
    return {"type": "tool_use", "id": id, "name": "sh", "input": {"command": command}}


def tool_result(id, content, **more):
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


# --- killed with -9 -------------------------------------------------------------------------------


@pytest.fixture
def crashed(start, store_place, tmp_path):
    """A session whose proxy and agent were killed at a moment; its id."""

    def crash(tells, moment, answer, *arguments):
        work = tmp_path / "work"
        work.mkdir()
        command = [sys.executable, str(AGENT), "--tells", tells, "--mark", str(tmp_path)]
        proxied = [HOLDFAST, "--store", str(store_place), "acp", "proxy", "--", *command, *arguments]
        editor = start([*proxied, "--stop", moment])
        editor.option = answer
        editor.initialize()
        id = editor.new(work)
        editor.ask("session/prompt", sessionId=id, prompt=[{"type": "text", "text": "deploy"}])
        end = time.monotonic() + 60
        while not (tmp_path / moment).exists():
            assert time.monotonic() < end, editor.seen
            time.sleep(0.01)
        if moment == "asked":
            editor.until(lambda frame: frame.get("method") == "session/request_permission")
        elif tells == "unasked":
            editor.until(lambda frame: COMMAND in json.dumps(frame))  # and so it is on record
        editor.process.send_signal(signal.SIGKILL)  # the agent ends with it
        editor.process.wait()
        again = start([*proxied])
        again.initialize()
        return again, id, work

    return crash


@pytest.mark.parametrize(
    "killed",
    [
        ("asking", "asked", None, "asked"),
        ("asking", "answered", "allow_once", "begun"),
        ("asking", "running", "allow_once", "begun"),
        ("empty", "asked", None, "asked"),
        ("empty", "answered", "reject_once", "refused"),
        ("empty", "running", "allow_once", "begun"),
        ("growing", "asked", None, "asked"),
        ("growing", "running", "allow_once", "begun"),
        ("after", "running", "allow_once", "begun"),
        ("unasked", "running", None, "begun"),
    ],
    ids=lambda one: "-".join(one[:2]),
)
def test_a_killed_call_is_told_as_it_was(crashed, kept, killed):
    """Replay, recovery and the note to the model: the command itself, and whether it ran."""
    tells, moment, answer, undone = killed
    resumes = ["--resumes"] if tells in ("empty", "growing") else []
    editor, id, work = crashed(tells, moment, answer, *resumes)
    assert (work / "deployed").exists() == (moment == "running")

    replayed, _ = editor.load(id, work)
    about = [one for one in replayed if "toolCallId" in one]
    assert {one["toolCallId"] for one in about} == {"c1"}
    assert [one["title"] for one in about if "title" in one][-1] == COMMAND
    assert (about[-1]["status"], text_of(about[-1])) == ("failed", UNDONE[undone])

    blocks = [b for m in kept.recover(id, "neutral", "mark").messages for b in m["content"]]
    [call] = [b for b in blocks if isinstance(b, dict) and b["type"] == "tool_use"]
    [result] = [b for b in blocks if isinstance(b, dict) and b["type"] == "tool_result"]
    assert COMMAND in json.dumps(call["input"])
    assert result["content"] == STAND_INS[UNDONE[undone]]

    start = len(editor.seen)
    editor.prompt(id, "what happened")
    told = "".join(one["content"]["text"] for one in editor.updates(start))
    note = told[told.rindex("[Note of the session keeper") :]
    beside = f' ({{"content": "[current working directory {work}]"}})' if tells == "asking" else ""
    assert f"execute: {COMMAND}{beside} in {work}" in note
    sentence = {
        "asked": "did not run, because nobody answered",
        "begun": "had begun, and whether they took effect is unknown",
        "refused": "did not run, because the user refused",
    }
    assert [words for words in sentence.values() if words in note] == [sentence[undone]]
    assert editor.end() == 0
    [interrupted] = [event.data for event in kept.events(id, types={"interrupted"})]
    assert interrupted["calls"] == (["c1"] if undone == "begun" else [])
    assert interrupted.get("not_run", []) == ([] if undone == "begun" else ["c1"])
