"""What is wrong with a state that a crash left: each is read, and opened like any other store."""

from __future__ import annotations

import os

from crash_campaign import MERGED, ROOT, World, identity
from kept_logs import is_of_a_log, log_content, read_log

from holdfast.errors import HoldfastError
from holdfast.model import read_events
from holdfast.replay import Fold

FULL = os.environ.get("CRASH_CAMPAIGN") == "full"
SESSION_DEPTH = ROOT.count("/") + 2
LENT = MERGED
"""What a merge makes: the snapshot it is lent is safe when the merge returns, and not before."""
SETTLED = ("lock", ".documents-lock", ".unsynced")


class Findings:
    """What opening one state of the disk showed, whatever had been promised."""

    def __init__(self):
        self.problems = []
        self.missing_blobs = {}
        """By id and first event of a log."""


def parts_of(state, *, combine):
    """By folder of a session: what there is of it on the disk; by None: all that is beside them.

    What a deleted session comes back to depends on the others of its name, which are named
    therefore. With ``combine`` each part is the whole.
    """
    folders = {None: set()}
    for path, (_, data) in state.paths.items():
        pieces = path.split("/", SESSION_DEPTH + 1)
        folder = "/".join(pieces[: SESSION_DEPTH + 1]) if len(pieces) > SESSION_DEPTH else None
        is_top = folder == path
        folders.setdefault(folder, set()).add((path, data))
        if is_top:
            folders[None].add((path, data))
    if combine:
        return dict.fromkeys(folders, state.key)
    named = {}
    for folder in folders:
        if folder is not None:
            named.setdefault(folder.rpartition("/")[2].rpartition(".")[2], []).append(folder)
    namesakes = {folder: group for group in named.values() for folder in group}
    return {folder: (frozenset(found), frozenset(namesakes.get(folder, ()))) for folder, found in folders.items()}


class Checker:
    """Opens crash states and says what is wrong with them.

    Every state is read, at every byte. A state is opened, appended to and opened again unless its
    last write is cut at one of the many bytes in the middle of a line; every ``stride``-th is.
    Of several sessions each is opened in each state that it can be in; with ``combine`` also each
    such state of the one with each of the other.
    """

    def __init__(self, *, stride=16, combine=FULL):
        self.stride = stride
        self.combine = combine
        self.states = 0
        self.opened = 0
        self._findings = {}
        self._parsed = {}

    def check(self, run, mode="power", *, skip=0, every=1, **options):
        """The violations of all states of a run, each with the state that shows it.

        With ``every`` only one of so many is looked at.
        """
        for number, state in enumerate(run.disk.crash_states(mode, settled=SETTLED, **options)):
            if (skip and state.after <= skip) or number % every:
                continue
            self.states += 1
            for text in self.violations(run, state, all_blobs=mode == "kill"):
                yield text, state

    def violations(self, run, state, *, all_blobs=False):
        """What one state breaks of what was promised; an empty list is what we want."""
        logs = dict(self._logs(state))
        texts = list(self._broken_promises(run, state, logs))
        if self._is_telling(state):
            found = self._findings_of(run, state)
            texts += dict.fromkeys(text for part in found.values() for text in part.problems)
            texts += self._lost_payloads(run, state, logs, found, all_blobs=all_blobs)
        return texts

    def _logs(self, state):
        """Every log of the state, read: by id and first event, where it is and what it has."""
        folders = {path.rpartition("/")[0] for path in state.paths if is_of_a_log(path)}
        for folder in folders:
            events = self._parse(log_content(state.content, folder))
            if events:
                id = folder.rpartition("/")[2].rpartition(".")[2]
                yield (id, events[0]), (folder, events)

    def _broken_promises(self, run, state, logs):
        kept = {}
        for promise in state.acknowledged:
            kept.setdefault(promise.first, []).append(promise)
        for first, promises in kept.items():
            if promises[-1].dropped:
                continue
            path, events = logs.get(first, (None, []))
            promised = frozenset().union(*(promise.events for promise in promises))
            if path is None:
                yield "a session is lost"
            elif not promised.issubset(events):
                yield f"{len(promised.difference(events))} promised events are lost"
            elif promises[-1].deleted and "/trash/" not in path:
                yield "a deleted session is back"
        for first, (_, events) in logs.items():
            histories = run.histories.get(first, ())
            if run.repair == "auto":
                written = {event for history in histories for event in history}
                written.update(event for event in events if event[1] == "repaired")
                if not written.issuperset(events):
                    yield "what is read was never written"
            elif not any(events == history[: len(events)] for history in histories):
                yield "what is read is not a prefix of what was written"

    def _lost_payloads(self, run, state, logs, found, *, all_blobs):
        for first, (folder, events) in logs.items():
            names = found[folder].missing_blobs.get(first, ())
            lost = [name.encode() for name in names if name not in run.lost]
            if not lost:
                continue
            promised = {event for promise in state.acknowledged if promise.first == first for event in promise.events}
            if all_blobs:
                promised.update(events)
            if any(name in raw for name in lost for _, _, raw in promised):
                yield "a promised payload is lost"

    def _is_telling(self, state):
        if state.cut is None:
            return True
        at, size = state.cut
        return at in (1, size - 1) or at % self.stride == 0

    def _parse(self, content):
        found = self._parsed.get(content)
        if found is None:
            found = self._parsed[content] = [identity(event) for event in read_events([content])]
        return found

    def _findings_of(self, run, state):
        """By folder: what was found when it was opened as it is in this state."""
        keys = {folder: hash((run.repair, part)) for folder, part in parts_of(state, combine=self.combine).items()}
        if not self._findings.keys() >= set(keys.values()):
            found = self._open_state(run, state)
            for key in keys.values():
                self._findings.setdefault(key, found)
        return {folder: self._findings[key] for folder, key in keys.items()}

    def _open_state(self, run, state):
        self.opened += 1
        found = Findings()
        disk = state.disk()
        try:
            self._open(World(disk), run, found)
        except HoldfastError as error:
            found.problems.append(f"{type(error).__name__}: {error}")
        else:
            if disk.open_count:
                found.problems.append("descriptors are left open")
        return found

    def _open(self, world, run, found):
        for entry in world.hf.store.entries("trash/"):
            id = entry.key.rpartition(".")[2]
            if not world.hf.exists(id):
                world.hf.undelete(id)
        for entry in world.hf.store.entries():
            id = entry.key.rpartition("/")[2]
            events = world.events(id)
            found.problems += self._report_problems(world, run, id, events, found)
            found.problems += self._state_problems(world, run, id)
            found.problems += self._going_on_problems(world, run, id, events)
        world.close()

    def _report_problems(self, world, run, id, events, found):
        report = world.hf.verify(id)
        if report.missing_blobs:
            found.missing_blobs[id, events[0]] = report.missing_blobs
        if report.events != len(events):
            yield f"verify counts {report.events} events of {len(events)}"
        if events != self._parse(read_log(world.disk, f"{ROOT}/sessions/{id}")):
            yield "the library reads other events than the log holds"
        if report.gaps and run.repair == "raise":
            yield f"verify finds damage: {report.gaps}"
        whole = all(report.snapshots.values()) or id in LENT
        if not whole and run.repair == "raise":
            yield "a snapshot that is not whole can be seen"

    def _state_problems(self, world, run, id):
        """The state from a snapshot and the events after it is that of all events."""
        if run.repair == "raise" and world.hf.snapshots(id):
            fold = Fold()
            fold.fold(list(world.hf.events(id)))
            state = world.hf.state(id)
            state.alive = True  # who is at work is seen, and not in any event
            if state != fold.state:
                yield "a snapshot changes the state"

    def _going_on_problems(self, world, run, id, events):
        session = world.session(id, repair=run.repair)
        before = world.events(id)
        if run.repair == "raise" and before != events:
            yield "opening a session changes its events"
        last = identity(session.user("after the crash"))
        session.flush()
        world.close_session(id)
        after = world.events(id)
        if after[: len(before)] != before or last not in after:
            yield "an append after the crash is not readable"
        report = world.hf.verify(id)
        if report.gaps or report.torn_bytes:
            yield "the log is not whole after an append"
        content = read_log(world.disk, f"{ROOT}/sessions/{id}")
        world.session(id)
        world.close_session(id)
        if read_log(world.disk, f"{ROOT}/sessions/{id}") != content:
            yield "opening a session again changes its log"
