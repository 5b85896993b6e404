"""Makes conversations and breaks them: logs of events and lists of messages, from a seed.

Every text is made of words that occur nowhere else (w1, w2, …), so that a test can follow each.
"""

from __future__ import annotations

import copy
import random
import re

from holdfast.model import Event

WORD = re.compile(r"\bw\d+\b")


def event(type, data, seq=-1, run=None):
    """An event as a reader would give it, without the cost and the refusals of encoding."""
    made = Event(type, seq, 0, b"{}", run)
    made.__dict__["data"] = data
    return made


def numbered(events):
    """The same events with the seq of their place."""
    return [event(e.type, e.data, seq, e.run) for seq, e in enumerate(events)]


def words_in(value):
    """Every word of a value, in order, however deep."""
    return WORD.findall(str(value))


class Maker:
    """Makes one log. ``say`` gives a text of new words."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = 0
        self.calls = 0
        self.events = []

    def say(self, words=2):
        first, self.count = self.count, self.count + words
        return " ".join(f"w{number}" for number in range(first, self.count))

    def add(self, type, data, run=None):
        self.events.append(event(type, data, run=run))

    def call_id(self):
        self.calls += 1
        return f"call_{self.calls}"

    # --- a healthy conversation

    def conversation(self, turns, run=None, agent=None):
        named = {} if agent is None else {"agent": agent}
        for _ in range(turns):
            self.user(run)
            for _ in range(self.random.randrange(3)):
                self.work(run, named)
            if self.random.random() < 0.8:
                self.answer(run, named)
        return self

    def user(self, run):
        content = self.say()
        if self.random.random() < 0.15:
            source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
            content = [{"type": "text", "text": content}, {"type": "image", "source": source}]
        self.add("user", {"role": "user", "content": content}, run)

    def answer(self, run, named):
        text = self.say(3)
        if self.random.random() < 0.3:
            first = len(self.events)
            for word in text.split():
                self.add("delta", {"content": f"{word} ", **named}, run)
            if self.random.random() < 0.3:
                return  # interrupted: nothing covers them
            named = {**named, "covers_from": first}
        self.add("assistant", {"role": "assistant", "content": text, **named}, run)

    def work(self, run, named):
        if self.random.random() < 0.3:
            self.add("thinking", {"content": self.say(), "signature": "sig", **named}, run)
        if self.random.random() < 0.4:
            self.add("assistant", {"role": "assistant", "content": self.say(), **named}, run)
        ids = [self.call_id() for _ in range(self.random.randint(1, 3))]
        for identity in ids:
            params = {"path": self.say(1)}
            self.add("tool_call", {"id": identity, "tool": "Read", "params": params, **named}, run)
        self.random.shuffle(ids)
        for identity in ids:
            result = {"content": self.say(1)} if self.random.random() < 0.5 else self.say(1)
            self.add("tool_result", {"toolCallId": identity, "result": result}, run)

    # --- faults

    def break_some(self, count):
        for _ in range(count):
            if self.events:
                getattr(self, self.random.choice(FAULTS))(self.random.randrange(len(self.events)))
        return self

    def fault_delete(self, at):
        del self.events[at]

    def fault_duplicate(self, at):
        self.events.insert(self.random.randint(at, len(self.events)), self.events[at])

    def fault_swap(self, at):
        other = self.random.randrange(len(self.events))
        events = self.events
        events[at], events[other] = events[other], events[at]

    def fault_late(self, at):
        self.events.append(self.events.pop(at))

    def fault_cut_head(self, at):
        del self.events[: at // 2]

    def fault_cut_tail(self, at):
        del self.events[max(at, 1) :]

    def fault_wrong_id(self, at):
        self.change(at, "tool_result", {"toolCallId": "call_nobody"})

    def fault_reuse_id(self, at):
        self.change(at, "tool_call", {"id": "call_1"})

    def fault_bad_id(self, at):
        self.change(at, "tool_call", {"id": self.random.choice([None, 7, "a b/ç", "x" * 90, {}])})

    def fault_bad_name(self, at):
        self.change(at, "tool_call", {"tool": self.random.choice([None, "a.b\0", "n" * 200, 5])})

    def fault_inject_user(self, at):
        self.events.insert(at, event("user", {"content": self.say(1)}))

    def fault_empty(self, at):
        empty = self.random.choice(["", "  ", None, [], [{"type": "text", "text": ""}], {}])
        for type in ("user", "assistant"):
            self.change(at, type, {"content": empty})

    def fault_garbage(self, at):
        value = self.random.choice([None, 3.5, float("nan"), [[]], "\ud800", {"a": {"b": []}}])
        member = self.random.choice(["content", "params", "result", "id", "agent", "covers_from"])
        old = self.events[at]
        self.events[at] = event(old.type, {**old.data, member: value}, run=old.run)

    def fault_surrogate(self, at):
        for type in ("user", "assistant"):
            self.change(at, type, {"content": f"{self.say(1)} \ud800\0 {self.say(1)}"})

    def fault_unknown(self, at):
        self.events.insert(at, event(self.random.choice(["future", "title", "interrupted"]), {}))

    def fault_foreign(self, at):
        block = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
        text = {"type": "text", "text": self.say(1), "thought_signature": "c2ln"}
        self.events.insert(at, event("assistant", {"content": [block, text]}))

    def change(self, at, type, members):
        old = self.events[at]
        if old.type == type:
            self.events[at] = event(type, {**old.data, **members}, run=old.run)


FAULTS = [name for name in dir(Maker) if name.startswith("fault_")]


def make_log(seed):
    """A broken log of one run."""
    maker = Maker(seed)
    maker.conversation(maker.random.randint(1, 5)).break_some(maker.random.randint(0, 4))
    return numbered(maker.events)


def make_edited_log(seed):
    """A broken log in which events were also retracted, replaced and summarised, here and there."""
    maker = Maker(seed)
    maker.conversation(maker.random.randint(2, 5)).break_some(maker.random.randint(0, 2))
    for _ in range(maker.random.randint(1, 4)):
        place = maker.random.randint(0, len(maker.events))
        first, last = sorted(maker.random.randrange(place + 1) for _ in range(2))
        edit = maker.random.choice(
            [
                event("retracted", {"seqs": [first, last]}),
                event("retracted", {"seqs": [first], "replacement": f"r{maker.say(1)}"}),
                event("compaction", {"summary": f"s{maker.say(1)}", "covers": [first, last]}),
                event("compaction", {"summary": f"s{maker.say(1)}", "covers": [0, last]}),
            ]
        )
        maker.events.insert(place, edit)
    return numbered(maker.events)


def make_healthy_log(seed, turns=4):
    """A log that needs no repair."""
    return numbered(Maker(seed).conversation(turns).events)


def make_usual_log(seed, edits=0):
    """Words, calls and results, calls also side by side; some are retracted, summarised or said again afterwards."""
    maker, events = Maker(seed), []
    pick = maker.random
    for turn in range(pick.randint(1, 6)):
        if turn or pick.random() < 0.8:  # else the assistant speaks first
            events.append(event("user", {"content": f"u{turn}"}))
        for step in range(pick.randint(0, 3)):
            ids = [f"p{seed}-{turn}-{step}-{at}" for at in range(pick.randint(1, 3))]
            if pick.random() < 0.1:
                ids[-1] = "again"  # some models number their calls anew
            calls = [event("tool_call", {"id": id, "tool": "Read", "params": {"path": id}}) for id in ids]
            results = [event("tool_result", {"toolCallId": id, "result": {"content": f"of {id}"}}) for id in ids]
            pick.shuffle(results)
            if pick.random() < 0.2:  # one comes after what follows
                results.insert(-1, event("assistant", {"content": f"meanwhile {step}"}))
            events += [*calls, *results]
            if pick.random() < 0.1:  # the message with the call comes after it
                said = {"type": "tool_use", "id": ids[0], "name": "Read", "input": {"path": ids[0]}}
                events.append(event("assistant", {"content": [said]}))
        if pick.random() < 0.9:
            events.append(event("assistant", {"content": f"a{turn}", "usage": {"output_tokens": turn}}))
    for _ in range(edits):
        first, last = sorted(pick.randrange(len(events) + 1) for _ in range(2))
        kinds = [{"seqs": [first, last]}, {"seqs": [last], "replacement": "other words"}]
        edit = event("retracted", pick.choice(kinds))
        if pick.random() < 0.3:
            edit = event("compaction", {"summary": "so far", "covers": [first, last]})
        events.insert(pick.randint(len(events) // 2, len(events)), edit)
    return numbered(events)


def joined(logs):
    """Several logs as one."""
    return numbered([event(one.type, one.data, run=one.run) for log in logs for one in log])


def make_run_log(seed):
    """A log of three runs, told apart by their ids, interleaved and broken."""
    maker = Maker(seed)
    queues = []
    for run in (None, "child-1", "child-2"):
        start = len(maker.events)
        maker.conversation(2, run)
        queues.append(maker.events[start:])
        del maker.events[start:]
    queues[0][0] = queues[0].pop(0)
    maker.events.append(queues[0].pop(0))
    while any(queues):
        queue = maker.random.choice([queue for queue in queues if queue])
        maker.events.append(queue.pop(0))
    maker.events = [_without_cover(e) for e in maker.events]
    maker.break_some(maker.random.randint(0, 3))
    return numbered(maker.events)


def _without_cover(old):
    data = {name: value for name, value in old.data.items() if name != "covers_from"}
    return event(old.type, data, run=old.run)


# --- plain logs of several agents, as their recorders write them: a little out of order


class Recorder(Maker):
    """Records an agent that hands tasks to others; ``owner`` tells whose words are whose."""

    def __init__(self, seed):
        super().__init__(seed)
        self.owner = {}

    def own(self, owner, words=2):
        text = self.say(words)
        self.owner.update(dict.fromkeys(words_in(text), owner))
        return text

    def audit(self):
        self.add("assistant", {"role": "assistant", "content": "[audit]", "agent": "system"})

    def jumble(self, groups):
        """Write groups of events, each group in any order, with audit lines in between."""
        for group in groups:
            self.random.shuffle(group)
            for type, data in group:
                self.add(type, data)
                if self.random.random() < 0.3:
                    self.audit()

    def run(self, agent, depth, owner, task=None):
        iterations = self.random.randint(1, 3)
        for number in range(1, iterations + 1):
            self.add("agent_iteration", {"agent": agent, "iteration": number})
            self.step(agent, depth, owner)
        final = self.own(owner, 3)
        ends = [("agent_complete", {"agent": agent, "duration": 5})]
        ends.append(("assistant", {"role": "assistant", "content": final, "agent": agent}))
        self.add("agent_iteration", {"agent": agent, "iteration": iterations + 1})
        return ends

    def step(self, agent, depth, owner):
        if self.random.random() < 0.5:
            text = self.own(owner)
            self.add("assistant", {"role": "assistant", "content": text, "agent": agent})
        if depth < 2 and self.random.random() < 0.5:
            for _ in range(self.random.randint(1, 2)):
                self.delegate(agent, depth, owner)
            return
        ids = [self.call_id() for _ in range(self.random.randint(1, 3))]
        calls = [
            ("tool_call", {"id": i, "tool": "t", "params": {"p": self.own(owner, 1)}, "agent": agent}) for i in ids
        ]
        results = [("tool_result", {"toolCallId": i, "result": self.own(owner, 1)}) for i in ids]
        self.jumble([calls, results])

    def delegate(self, agent, depth, owner, child=None):
        child = child or self.random.choice(["seer", "wolf", "scribe", "master"])
        me = f"{child}/{self.calls}/{self.count}"
        identity = self.call_id()
        task = self.say(3)
        params = {"agent": child}
        self.jumble(
            [
                [
                    ("tool_call", {"id": identity, "tool": "task", "params": params, "agent": agent}),
                    ("delegation", {"parent": agent, "child": child, "task": task}),
                    ("agent_start", {"agent": child, "depth": depth + 1, "task": "go"}),
                ],
                [("user", {"role": "user", "content": task})],
            ]
        )
        self.owner.update(dict.fromkeys(words_in(task), me))
        ends = self.run(child, depth + 1, me)
        result = self.own(owner, 1)
        self.jumble([[*ends, ("tool_result", {"toolCallId": identity, "result": result})]])

    def at_once(self, agent, children, owner):
        """Several children at work at once; their lines are mixed, each child's in order."""
        queues, before = [], self.events
        for child in children:
            self.events = []
            self.delegate(agent, 1, owner, child)
            queues.append(self.events)
        self.events = before
        while any(queues):
            queue = self.random.choice([queue for queue in queues if queue])
            self.events.append(queue.pop(0))

    def session(self, executions=1):
        for _ in range(executions):
            self.audit()
            self.jumble([[("agent_start", {"agent": "master", "depth": 0, "task": "go"})]])
            self.add("user", {"role": "user", "content": self.own("master")})
            self.jumble([self.run("master", 0, "master")])
        return self


def make_plain_log(seed):
    """A recorded log of several agents, and whose each word is."""
    recorder = Recorder(seed)
    recorder.session(recorder.random.randint(1, 2))
    return numbered(recorder.events), recorder.owner


def make_broken_plain_log(seed):
    """A recorded log of several agents with faults anywhere in it."""
    recorder = Recorder(seed)
    recorder.session(recorder.random.randint(1, 2))
    recorder.break_some(recorder.random.randint(1, 6))
    return numbered(recorder.events)


def make_parallel_log(seed, children):
    """A recorded log of one agent whose children work at the same time."""
    recorder = Recorder(seed)
    recorder.add("agent_start", {"agent": "master", "depth": 0, "task": "go"})
    recorder.add("user", {"role": "user", "content": recorder.own("master")})
    recorder.add("agent_iteration", {"agent": "master", "iteration": 1})
    recorder.at_once("master", children, "master")
    recorder.jumble([recorder.run("master", 3, "master")])
    return numbered(recorder.events), recorder.owner


# --- lists of messages


def break_list(messages, seed):
    """A list of messages of any dialect with one to four faults."""
    chance = random.Random(seed)
    messages = copy.deepcopy(messages)
    for _ in range(chance.randint(1, 4)):
        if messages:
            chance.choice(LIST_FAULTS)(messages, chance.randrange(len(messages)), chance)
    return messages


def _drop(messages, at, chance):
    del messages[at]


def _repeat(messages, at, chance):
    messages.insert(chance.randint(at, len(messages)), messages[at])


def _swap(messages, at, chance):
    other = chance.randrange(len(messages))
    messages[at], messages[other] = messages[other], messages[at]


def _behead(messages, at, chance):
    del messages[: at // 2]


def _curtail(messages, at, chance):
    del messages[max(at, 1) :]


def _to_end(messages, at, chance):
    messages.append(messages.pop(at))


def _intrude(messages, at, chance):
    messages.insert(at, {"role": "user", "content": f"w{chance.randrange(10**9)}"})


def _garbage(messages, at, chance):
    messages.insert(at, chance.choice([None, 5, "text", [], {}, {"role": "king"}, {"parts": 1}, b""]))


def _spoil_member(messages, at, chance):
    message = messages[at]
    if isinstance(message, dict) and message:
        bad = [None, 7, "", [], {}, float("inf"), "\ud800", [None], [{"type": "?"}], {"a": object()}]
        message[chance.choice(list(message))] = chance.choice(bad)


def _spoil_deeper(messages, at, chance):
    message = messages[at]
    inner = message.get("content", message.get("parts")) if isinstance(message, dict) else None
    if isinstance(inner, list) and inner and isinstance(inner[0], dict):
        part = chance.choice(inner)
        if isinstance(part, dict) and part:
            part[chance.choice(list(part))] = chance.choice([None, 7, "", [], {}, "a b", "x" * 80])


def _foreign(messages, at, chance):
    messages.insert(
        at,
        chance.choice(
            [
                {"role": "tool", "tool_call_id": "call_1", "content": "foreign"},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_2"}]},
                {"role": "model", "parts": [{"text": "foreign"}]},
                {"type": "function_call", "call_id": "call_1", "name": "x", "arguments": "{}"},
                {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "foreign"}]},
                {"role": "system", "content": "foreign"},
                {"role": "assistant", "content": "", "tool_calls": [{"id": "q", "function": {}}]},
            ]
        ),
    )


LIST_FAULTS = [
    _drop,
    _repeat,
    _swap,
    _behead,
    _curtail,
    _to_end,
    _intrude,
    _garbage,
    _spoil_member,
    _spoil_deeper,
    _foreign,
]
