"""What was promised in a simulated world, and whether what is read keeps it."""

from __future__ import annotations

import json
import re

from kept_logs import is_of_a_log, log_content

from holdfast.model import read_events

TOKEN = re.compile(rb"<(\d+)>")


class Violation(AssertionError):
    """A promise of the contract was broken."""


def tokens_of(events):
    """The tokens that events carry, in the order of the log."""
    return [int(token) for event in events for token in TOKEN.findall(bytes(event.raw))]


def key_of(id, events):
    """What makes a log the same log, also in the trash and after a restart."""
    data = json.loads(bytes(events[0].raw)) if events else {}
    return id, data.get("log")


class Ledger:
    """Tokens are numbers that each append carries; a log has them in the order of its answers."""

    def __init__(self, world) -> None:
        self.world = world
        self.tried = 0
        self.appended = {}
        """By log: what a kill must not undo."""
        self.flushed = {}
        """By log: what power loss must not undo."""
        self.order = {}
        """By token: when its append returned."""
        self.refused = set()
        """Tokens whose append raised: they are in no log."""
        self.let_go = set()
        """Logs that a policy may have removed for good."""
        self.checks = 0

    def next_token(self):
        self.tried += 1
        return self.tried

    def returned(self, tokens):
        """An append returned."""
        for token in tokens:
            self.order[token] = len(self.order)

    def promise_append(self, key, tokens):
        if key is not None:
            self.appended.setdefault(key, []).extend(tokens)

    def promise_flush(self, key):
        if key is not None:
            self.flushed.setdefault(key, set()).update(self.appended.get(key, ()))

    def promised(self, key):
        return set(self.appended.get(key, ())) | self.flushed.get(key, set())

    def check_read(self, id, events, promised_before):
        """What a reader was given: dense, in order, tried by someone, and with all promised."""
        self.checks += 1
        seqs = [event.seq for event in events]
        if seqs != list(range(len(seqs))):
            raise Violation(f"{id} has a hole: {seqs}")
        tokens = tokens_of(events)
        if not self.is_in_order(tokens) or len(set(tokens)) != len(tokens):
            raise Violation(f"{id} is out of order: {tokens}")
        if any(not 0 < token <= self.tried for token in tokens):
            raise Violation(f"{id} has what nobody wrote: {tokens}")
        if self.refused.intersection(tokens):
            raise Violation(f"{id} has what was refused: {self.refused.intersection(tokens)}")
        lost = promised_before.get(key_of(id, events), set()).difference(tokens)
        if lost:
            raise Violation(f"{id} lost {sorted(lost)}, it has {tokens}")

    def is_in_order(self, tokens):
        """Whether a log has them as the appends returned."""
        known = [self.order[token] for token in tokens if token in self.order]
        return known == sorted(known)

    def before_read(self):
        """What is promised now of each log: a reader that begins now must see it."""
        return {key: self.promised(key) for key in self.appended.keys() | self.flushed.keys()}

    def after_power_loss(self):
        """What is left must have all that was flushed; what is gone was never promised."""
        found = self.logs_on_disk()
        for key in self.flushed.keys() - self.let_go:
            lost = self.flushed[key].difference(found.get(key, ()))
            if lost:
                raise Violation(f"power loss took {sorted(lost)} of {key}, left {found.get(key)}")
        for key, tokens in found.items():
            acknowledged = self.appended.get(key, [])
            kept = [token for token in acknowledged if token in tokens]
            if kept != acknowledged[: len(kept)]:
                raise Violation(f"{key} lost one of {acknowledged} and kept a later one: {tokens}")
        self.appended = {key: list(tokens) for key, tokens in found.items()}
        self.checks += 1

    def check_end(self):
        """When all is quiet every promise is kept somewhere, in place or in the trash."""
        found = self.logs_on_disk()
        for key in (self.appended.keys() | self.flushed.keys()) - self.let_go:
            lost = self.promised(key).difference(found.get(key, ()))
            if lost:
                raise Violation(f"at the end {key} lost {sorted(lost)}: {found.get(key)}")
        self.checks += 1

    def logs_in_trash(self):
        """The logs that were deleted."""
        return self.logs_on_disk("/trash/")

    def logs_on_disk(self, part=""):
        """Every log with its tokens, read by the format page and not by the library."""
        paths = paths_of(self.world.disk.image())
        folders = {p.rpartition("/")[0] for p in paths if is_of_a_log(p) and part in p}
        found = {}
        for folder in sorted(folders):
            events = list(read_events([log_content(paths.get, folder)]))
            if events:
                id = folder.rpartition("/")[2].rpartition(".")[2]
                found[key_of(id, events)] = tokens_of(events)
        return found


def paths_of(image):
    """The bytes of every file, by path."""
    found, todo = {}, [("", 1)]
    while todo:
        above, directory = todo.pop()
        for name, inode in image.entries[directory].items():
            if inode in image.contents:
                found[f"{above}/{name}"] = image.contents[inode]
            else:
                todo.append((f"{above}/{name}", inode))
    return found
