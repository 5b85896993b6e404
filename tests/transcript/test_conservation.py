"""Nothing that was said is missing anywhere.

Each text has a word of its own, which is looked for in what a surface really shows.
"""

from __future__ import annotations

import json
import os
import re
from itertools import count

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from holdfast import Event
from holdfast.replay import read_transcript, runs

pytestmark = pytest.mark.unmeasured


class Draft:
    """A log in the making, and the words that are in it, by who said them."""

    def __init__(self, *, has_secrets=False):
        self.events = []
        self.words = {}
        self.secrets = {}
        self.has_secrets = has_secrets
        self._count = count()
        self.add("session_start", {"format": 1, "log": "0" * 32})

    def add(self, type, data, run=None):
        """Record an event; its number."""
        seq = len(self.events)
        self.events.append(Event.make(type, data, seq=seq, timestamp=seq + 1000, run=run))
        return seq

    def word(self, by):
        """A word that occurs nowhere else."""
        word = f"w{next(self._count):03d}q"
        self.words[word] = by
        return word

    def secret(self, word):
        """A secret that stands behind a word, and occurs nowhere else."""
        number = next(self._count)
        self.secrets[word] = secret = f"gh{'p'}_{number:03d}aB3dE5gHaB3dE5gHaB3dE5gHaB3dE5gHa"
        return secret


def test_an_answer_that_was_cut_off_is_on_every_surface(shelf, surface):
    """Words before those that the final message covers are shown, once."""
    draft = Draft()
    draft.add("user", {"content": "question"})
    draft.add("delta", {"content": "alphaword"})
    second = draft.add("delta", {"content": "omega "})
    draft.add("assistant", {"content": "omega ends", "covers_from": second})
    found = shelf.read(surface, shelf.put(draft.events))
    assert "alphaword" in found
    assert "omega ends" in found


def test_show_as_json_has_the_pieces_that_no_message_contains(shelf):
    """Programs get what was cut off, and not what the message has anyway."""
    draft = Draft()
    draft.add("delta", {"content": "alpha"})
    second = draft.add("delta", {"content": "omega "})
    draft.add("assistant", {"content": "omega ends", "covers_from": second})
    found = json.loads(shelf.run("show", shelf.put(draft.events), "--json"))
    said = [event["data"]["content"] for event in found["conversation"]]
    assert said == ["alpha", "omega ends"]


# -- logs of all kinds ---------------------------------------------------------------------------

HOSTILE = [
    "{}",
    "{} and more",
    "<!-- {} -->",
    "<script>{}</script>",
    '<div title="{}">x</div>',
    "[{}]: https://example.org",
    "[x](https://example.org/{})",
    "[x](javascript:{})",
    "![{}](https://example.org)",
    "![x](https://example.org/{})",
    '[x](https://example.org "{}")',
    "```{}\ncode\n```",
    "```\n{}",
    "~~~ {} ~~~",
    "| {} | b |\n|---|---|\n| 1 | 2 |",
    "    {}",
    "> {}",
    "`{}`",
    "**{}**",
    "# {}",
    "&{};",
    "</main></article>{}",
    "\x1b[31m{}\x1b[0m",
    "\u202e{}",
    "a\r\n{}\r\nb",
    '{{"$blob":"{}"}}',
    "[^1]: {}",
    "<https://example.org/{}>",
    "***\n{}\n---",
    "1. {}",
]
MANY = int(os.environ.get("CONSERVED", "30"))
RUNS = st.sampled_from([None, None, "r-1"])


@st.composite
def texts(draw, log, by):
    """A text with a word of its own, wrapped into something that a surface may stumble over."""
    word = log.word(by)
    said = f"{word} {log.secret(word)}" if log.has_secrets and draw(st.booleans()) else word
    return draw(st.sampled_from(HOSTILE)).format(said)


PICTURE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


@st.composite
def contents(draw, log, by):
    """Content of a message: a string, or blocks with media among them."""
    if draw(st.booleans()):
        return draw(texts(log, by))
    blocks = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["text", "string", "image", "document", "unknown", "refusal"]))
        said = draw(texts(log, by)) if kind != "image" else ""
        blocks.append(
            {
                "text": {"type": "text", "text": said},
                "string": said,
                "image": {"type": "image", "source": PICTURE},
                "document": {"type": "document", "source": {"type": "text", "data": said}},
                "unknown": {"type": "hologram", "depth": {"said": said}},
                "refusal": {"type": "refusal", "refusal": said},
            }[kind]
        )
    return blocks


def values(log, by):
    """What a tool is given or gives: a text, blocks, or any JSON."""
    said = texts(log, by)
    return st.one_of(
        said,
        said.map(lambda text: {"content": text}),
        said.map(lambda text: {"deep": [1, {"text": text}]}),
        said.map(lambda text: [{"type": "text", "text": text}]),
        said.map(lambda text: [1, text, None]),
    )


@st.composite
def messages(draw, log):
    """Somebody says something."""
    run = draw(RUNS)
    kind = draw(st.sampled_from(["user", "assistant", "thinking", "system"]))
    by = {"user": "user", "system": "system"}.get(kind, "model")
    content = draw(contents(log, by))
    if kind == "assistant" and isinstance(content, list):
        content.insert(0, {"type": "thinking", "thinking": draw(texts(log, by))})
    log.add(kind, {"content": content}, run)


@st.composite
def streams(draw, log):
    """Streamed words and thoughts, cut or covered anywhere, with another run in between.

    What covers them has words of both kinds, of one or of none: it may cover more than it has.
    """
    run, pieces = draw(RUNS), []
    for kind in draw(st.lists(st.sampled_from(["text", "thinking"]), min_size=1, max_size=4)):
        text = draw(texts(log, "model"))
        cut = draw(st.integers(0, len(text)))
        pieces += [(kind, text[:cut]), (kind, text[cut:] + "\n")]
    seqs = []
    for number, (kind, piece) in enumerate(pieces):
        seqs.append(log.add("delta", {"content": piece, "kind": kind}, run))
        if number % 2 and draw(st.integers(0, 3)) == 0:  # not within a word
            type = draw(st.sampled_from(["user", "delta"]))
            log.add(type, {"content": draw(texts(log, "user"))}, "another")
    covered = draw(st.sampled_from([*range(0, len(pieces), 2), None]))
    if covered is not None:
        kinds = draw(st.sampled_from(["text", "thinking", "both", "none"]))
        type, content = draw(finals(log, kinds, pieces[covered:]))
        log.add(type, {"content": content, "covers_from": seqs[covered]}, run)
    end = draw(st.sampled_from(["turn_end", "interrupted", "agent_error", None]))
    if end is not None:
        log.add(end, {"agent": "default", "reason": "completed", "error": "e"}, run)


@st.composite
def finals(draw, log, kinds, pieces):
    """A whole message of what was streamed in words, thoughts, both or neither; its type."""
    whole = {kind: "".join(piece for of, piece in pieces if of == kind) for kind in ("text", "thinking")}
    if kinds == "none":
        use = {"type": "tool_use", "id": f"call-{len(log.events)}", "name": "Look", "input": {}}
        return "assistant", draw(st.sampled_from(["", [], [use]]))
    if kinds == "both":
        thought = {"type": "thinking", "thinking": whole["thinking"]}
        return "assistant", [thought, {"type": "text", "text": whole["text"]}]
    more = draw(st.sampled_from(["", "said", "blocks"]))
    content = whole[kinds] if not more else whole[kinds] + draw(texts(log, "model"))
    if more == "blocks":
        content = [{"type": "text", "text": content}, draw(texts(log, "model"))]
    return "thinking" if kinds == "thinking" else "assistant", content


@st.composite
def calls(draw, log):
    """A call as a block, as an event or as both, and its result as either, at once or late."""
    run, id = draw(RUNS), f"call-{len(log.events)}"
    value = {"arg": draw(values(log, "model"))}
    form = draw(st.sampled_from(["block", "event", "both", "announced"]))
    if form in ("block", "both"):
        use = {"type": "tool_use", "id": id, "name": "Look", "input": value}
        log.add("assistant", {"content": [use]}, run)
    if form == "announced":
        log.add("tool_call", {"id": id, "tool": "Look", "params": {}}, run)
    if form != "block":
        log.add("tool_call", {"id": id, "tool": "Look", "params": value}, run)
    if draw(st.booleans()):
        draw(messages(log))
    if draw(st.booleans()):
        failed = draw(st.booleans())
        if draw(st.booleans()):
            said = draw(texts(log, "tool"))
            block = {"type": "tool_result", "tool_use_id": id, "content": said, "is_error": failed}
            log.add("user", {"content": [block]}, run)
        else:
            data = {"toolCallId": id, "result": draw(values(log, "tool")), "is_error": failed}
            log.add("tool_result", data, run)


@st.composite
def delegates(draw, log):
    """An agent asks another one, which works in a run of its own."""
    child = f"d-{len(log.events)}"
    names = {"parent": "default", "child": "helper", "child_run": child}
    task = draw(texts(log, "delegate"))
    log.add("delegation", {**names, "task": task})
    log.add("agent_start", {"agent": "helper", "parent": "default", "task": task}, child)
    log.add("user", {"content": task, "agent": "helper", "parent": "default"}, child)
    said = draw(texts(log, "delegate"))
    log.add("delta", {"content": said, "agent": "helper"}, child)
    if draw(st.booleans()):
        data = {"content": said, "agent": "helper", "covers_from": len(log.events) - 1}
        log.add("assistant", data, child)
    log.add("agent_complete", {"agent": "helper"}, child)
    result = said if draw(st.booleans()) else draw(texts(log, "delegate"))
    log.add("delegation_complete", {**names, "result": result})


@st.composite
def happenings(draw, log):
    """What is told beside the talk."""
    said = texts(log, "note")
    last = len(log.events) - 1
    kind, data = draw(
        st.sampled_from(
            [
                ("retracted", {"seqs": [last], "replacement": said}),
                ("compaction", {"covers": [0, last], "summary": said}),
                ("agent_error", {"agent": "default", "error": said}),
                ("imported", {"tool": "codex", "problems": [said]}),
                ("suspended", {"reason": said}),
                ("redacted", {"seqs": [last]}),
                ("forked", {"session": "other", "seq": 1}),
            ]
        )
    )
    made = {}
    for name, value in data.items():
        is_said = value is said or value == [said]
        made[name] = value if not is_said else draw(said) if value is said else [draw(said)]
    log.add(kind, made)


@st.composite
def logs(draw, *, has_secrets=False):
    """A whole log with the words in it."""
    log = Draft(has_secrets=has_secrets)
    steps = [messages, streams, calls, delegates, happenings]
    for _ in range(draw(st.integers(1, 5))):
        draw(draw(st.sampled_from(steps))(log))
    return log


def missing_on(shelf, surface, log):
    """The words that a surface lacks, and does not say how to come by.

    An editor has no place for system prompts and notes; of delegates it is told where to read.
    """
    id = shelf.put(log.events)
    if surface == "acp" and "delegate" in log.words.values():
        assert f"holdfast show {id}" in shelf.read(surface, id)
    return missing_in(shelf, surface, id, log.words)


def missing_in(shelf, surface, id, words):
    """Those of some words, by who said them, that a surface has to show and does not."""
    found = shelf.read(surface, id)
    missing = [word for word, by in words.items() if is_told(surface, by) and word not in found]
    if surface == "show" and "; use --full to show all" in found:
        missing = [word for word in missing if word not in shelf.read("show-full", id)]
    return missing


def is_told(surface, by):
    """Whether a surface has a place for what somebody says."""
    return surface != "acp" or by not in ("system", "note", "delegate")


@settings(max_examples=MANY, suppress_health_check=list(HealthCheck))
@given(log=logs())
def test_every_word_is_on_every_surface(shelf, surface, log):
    """Whatever users, models and tools said, in whatever form, cut off or not, can be read."""
    assert not missing_on(shelf, surface, log)


@settings(max_examples=MANY, suppress_health_check=list(HealthCheck))
@given(log=logs())
def test_search_finds_what_was_said(shelf, log):
    """A word of a user, a model or a tool is found, in an event that the transcript shows."""
    id = shelf.put(log.events)
    retracted = {seq for one in log.events for seq in one.data.get("seqs", ())}
    left = "\n".join(str(one.data) for one in log.events if one.seq in retracted)
    for word, by in log.words.items():
        if by in ("user", "model", "tool", "system") and word not in left:
            assert shelf.hf.search(word, id), word


@settings(max_examples=MANY, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_conversation_goes_on_with_what_people_read(data):
    """What was streamed is given to the model once, as people read it once, or told as left out."""
    log = Draft()
    for _ in range(data.draw(st.integers(1, 3))):
        data.draw(streams(log))
    found = [one.conversation for one in runs(log.events)]
    given = str([(one.messages(), [issue.content for issue in one.issues]) for one in found])
    read = "\n".join(one.text for one in read_transcript(log.events))
    for word in log.words:
        assert given.count(word) == read.count(word) == 1, word


@pytest.mark.parametrize("surface", ["web", "tui", "mcp"])
def test_a_long_session_is_read_part_by_part_without_a_gap(shelf, surface):
    """Pages, chunks and answers join: what lies where one ends is in it or in the next."""
    log = Draft()
    for number in range(300):
        log.add("user", {"content": log.word("user")})
        log.add("tool_call", {"id": f"c{number}", "tool": "Look", "params": {}})
        log.add("delta", {"content": log.word("model")})
        last = log.add("delta", {"content": "so "})
        if number % 3:
            log.add("assistant", {"content": "so " + log.word("model"), "covers_from": last})
        log.add("tool_result", {"toolCallId": f"c{number}", "result": log.word("tool")})
        if number % 7 == 0:
            log.add("interrupted", {})
    assert missing_on(shelf, surface, log) == []


# -- logs that lack something --------------------------------------------------------------------

FEW = max(MANY // 3, 1)


@settings(max_examples=FEW, suppress_health_check=list(HealthCheck))
@given(log=logs(has_secrets=True))
def test_only_secrets_are_kept_from_the_surfaces(discreet, surfaces, log):
    """Every word is on every surface; of a secret there is its mark, in its place.

    Two letters by themselves may have been recorded before it was known for a secret.
    """
    id = discreet.record(log.events)
    for surface in surfaces:
        assert missing_in(discreet, surface, id, log.words) == [], surface
        found = discreet.read(surface, id).replace("\\", "")
        for word, secret in log.secrets.items():
            assert secret not in found, surface
            assert secret[4:12] not in found, surface
            if is_told(surface, log.words[word]):
                mark = r"\W+(?:gh?)?\W+secret:github_pat:[0-9a-f]{4}\]"
                assert re.search(word + mark, found), surface


@settings(max_examples=FEW, suppress_health_check=list(HealthCheck))
@given(log=logs(), data=st.data())
def test_only_what_is_redacted_later_is_gone(discreet, surfaces, log, data):
    """A word that is taken out of a log, wherever it was, is on no surface; all others are."""
    assume(log.words)
    gone = data.draw(st.sampled_from(sorted(log.words)))
    id = discreet.put(log.events)
    assert sum(discreet.hf.redact(id, find=[gone], relatives=False).sessions.values())
    left = {word: by for word, by in log.words.items() if word != gone}
    for surface in surfaces:
        assert missing_in(discreet, surface, id, left) == [], surface
        assert gone not in discreet.read(surface, id), surface


@settings(max_examples=FEW, suppress_health_check=list(HealthCheck))
@given(log=logs(), data=st.data())
def test_only_what_cannot_be_read_is_missing(shelf, surfaces, log, data):
    """Events in the midst of a log are lost: they are named, and the words of all others shown."""
    assume(len(log.events) > 2)
    first = data.draw(st.integers(1, len(log.events) - 2))
    last = data.draw(st.integers(first, len(log.events) - 2))
    id = shelf.put(log.events, range(first, last + 1))
    rest = [str(one.data) for one in log.events if not first <= one.seq <= last]
    left = {word: by for word, by in log.words.items() if any(word in one for one in rest)}
    names = f"event {first}" if first == last else f"events {first} to {last}"
    for surface in surfaces:
        assert missing_in(shelf, surface, id, left) == [], surface
        if surface != "json":  # of which programs read the numbers
            assert f"{names} cannot be read" in shelf.read(surface, id), surface


@pytest.mark.parametrize("gap", [(5, 8), (3, 20), (7, 7), (6, 6)])
def test_events_that_cannot_be_read_do_not_get_lost_between_two_parts(shelf, gap):
    """A gap that lies where an agent's part ends, or is longer than one, is told as one."""
    log = Draft()
    for _ in range(25):
        log.add("user", {"content": log.word("user")})
    first, last = gap
    id = shelf.put(log.events, range(first, last + 1))
    names = f"event {first}" if first == last else f"events {first} to {last}"
    assert shelf.read("mcp", id).count(f"{names} cannot be read") == 1


@pytest.mark.parametrize("gap", [(178, 180), (180, 180), (181, 183), (170, 190), (50, 250), (0, 5)])
@pytest.mark.parametrize("surface", ["web", "tui", "show"])
def test_a_gap_where_a_page_ends_is_told_once(shelf, surface, gap):
    """Pages of a damaged log join: what cannot be read is named in one of two, as one gap."""
    log = Draft()
    for _ in range(300):
        log.add("user", {"content": "word"})
    first, last = gap
    id = shelf.put(log.events, range(first, last + 1))
    names = f"event {first}" if first == last else f"events {first} to {last}"
    assert shelf.read(surface, id).count(f"{names} cannot be read") == 1


@settings(max_examples=FEW, suppress_health_check=list(HealthCheck))
@given(log=logs(), data=st.data())
def test_a_damaged_end_is_told_once_and_all_before_it_shown(shelf, surfaces, log, data):
    """The last events are lost: where they begin is said on every surface, and nothing else is."""
    first = data.draw(st.integers(1, len(log.events) - 1))
    id = shelf.put(log.events, range(first, len(log.events)))
    rest = [str(one.data) for one in log.events[:first]]
    left = {word: by for word, by in log.words.items() if any(word in one for one in rest)}
    for surface in surfaces:
        assert missing_in(shelf, surface, id, left) == [], surface
        assert shelf.read(surface, id).count(f"events from {first} on cannot be read") == 1, surface


@pytest.mark.parametrize("type", ["suspended", "interrupted"])
def test_the_reason_of_a_pause_is_redacted(discreet, type):
    """Why a session was suspended or interrupted are somebody's words, like all others."""
    log = Draft()
    secret = log.secret("before")
    log.add("user", {"content": "hello"})
    log.add(type, {"reason": f"gone away {secret}"})
    later = discreet.put(log.events)
    discreet.hf.redact(later, find=["gone away"], relatives=False)
    assert "gone away" not in discreet.read("text", later)
    assert all(secret not in discreet.read("text", id) for id in (later, discreet.record(log.events)))


BETWEEN = [
    ("usage", {"input_tokens": 1}, None),
    ("user", {"content": "meanwhile"}, "another"),
    ("turn_end", {"reason": "completed"}, "another"),
    ("delta", {"content": "meanwhile"}, "another"),
]


@pytest.mark.parametrize("way", ["recorded", "later"])
@pytest.mark.parametrize("between", BETWEEN, ids=lambda one: f"{one[0]}-{one[2]}")
def test_a_secret_is_found_across_whatever_comes_between_its_pieces(discreet, surfaces, way, between):
    """Surfaces join the pieces of a stream, and so does what looks for secrets in them."""
    log = Draft()
    secret = log.secret("before")
    log.add("delta", {"content": f"before {secret[:12]}"})
    log.add(*between)
    log.add("delta", {"content": f"{secret[12:]} after", "kind": "text"})
    if way == "recorded":
        id = discreet.record(log.events)
    else:
        id = discreet.put(log.events)
        discreet.hf.redact(id, relatives=False)
    for surface in surfaces:
        found = discreet.read(surface, id)
        assert secret[4:12] not in found, surface
        assert secret[12:] not in found, surface
        assert "before" in found
        assert "after" in found


# -- the check itself ----------------------------------------------------------------------------


def some_log():
    """A bit of everything, the same each time."""
    log = Draft()
    log.add("user", {"content": log.word("user")})
    log.add("delta", {"content": log.word("model")})
    second = log.add("delta", {"content": "omega"})
    log.add("assistant", {"content": "omega " + log.word("model"), "covers_from": second})
    log.add("tool_call", {"id": "c", "tool": "Look", "params": {"at": log.word("model")}})
    log.add("tool_result", {"toolCallId": "c", "result": log.word("tool")})
    return log


def pop_whole_streams(self, event, data):
    """The fault that this was written for: a message hid all that was streamed before it."""
    opened = self._streams._open
    self._streams._open = {key: one for key, one in opened.items() if key.run != event.run}


FOLD = "holdfast.replay.transcript.Transcript."
NOTHING = {"body": lambda *_: "", "part": lambda *_: "", "lines": lambda *_: []}
FAULTS = {
    "show": [("holdfast.apps.cli._summary.folded", lambda _: ("", 0))],
    "show-full": [("holdfast.apps.cli._summary.body", NOTHING["body"])],
    "markdown": [("holdfast.formats.writers.markdown._part", NOTHING["part"])],
    "html": [("holdfast.formats.writers.html._part", NOTHING["part"])],
    "text": [("holdfast.formats.writers.markdown._lines", NOTHING["lines"])],
    "json": [("holdfast.formats.writers.json._encoded", lambda _: b'{"type":"user"}')],
    "mcp": [("holdfast.apps.mcp._answers.body", NOTHING["body"])],
    "web": [("holdfast.apps.web._conversation.body", NOTHING["body"])],
    "tui": [("holdfast.apps.tui._entry_lines.body", NOTHING["body"])],
    "acp": [
        ("holdfast.apps.acp.replay.output.Output.say", lambda *_: None),
        ("holdfast.apps.acp.replay.replay._Teller._untold", lambda *_: ""),
        ("holdfast.apps.acp.replay.words._result_parts", lambda _: []),
    ],
}
FOLD_FAULTS = [
    (FOLD + "_cover", pop_whole_streams),
    (FOLD + "_result", lambda *_: None),
    (FOLD + "_call", lambda *_: None),
    (FOLD + "_say", lambda *_: None),
    (FOLD + "rest", lambda *_: []),
]
CASES = [
    (surface, *fault)
    for surface, faults in FAULTS.items()
    for fault in faults + ([] if surface in ("json", "acp") else FOLD_FAULTS)
]


@pytest.mark.parametrize(
    ("surface", "place", "fault"), CASES, ids=[f"{surface}-{place.rsplit('.', 1)[1]}" for surface, place, _ in CASES]
)
def test_a_surface_that_drops_something_is_found_out(shelf, monkeypatch, surface, place, fault):
    """The check fails for each surface, and for each way in which the fold can lose words."""
    log = some_log()
    if place.endswith("rest") and place.startswith(FOLD):
        log.add("delta", {"content": log.word("model")})  # still being said
    assert missing_on(shelf, surface, log) == []
    monkeypatch.setattr(place, fault)
    assert missing_on(shelf, surface, log)
