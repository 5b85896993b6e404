"""Interrupts one operation at one boundary between two instructions, again and again; tells what came of it as JSON.

    python interrupt_points.py URL HOW COUNT_MAX OPERATION…

``{}`` in the address is a new directory, ``{name}`` a name that nobody used before. Of each operation at most
COUNT_MAX boundaries are tried, at equal distances from one that is chosen by its name; 0 tries them all.
``append:submit`` tries only those in functions of that name; ``append@7`` begins with the seventh, tries all from
there on, and says of each where it is.

HOW is ``press``, which raises KeyboardInterrupt in the calling thread, as Python does; ``cancel``, which cancels the
running task, also while a thread of the library works for it; or ``exit``, which ends the process while any of its
threads is there. Then this process goes on with the session, in another thread, another process does, and both look
at what there is.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import boundaries
from boundaries import Boundaries, Cancel, leave, press
from interrupt_cases import CASES, Erase, told

from holdfast import Holdfast

WORLD_POINTS = 150
CONNECTIONS_MAX = 24
ANSWER_S = 120
HANG_S = int(os.environ.get("HANG_S", "300"))
WRONG_MAX = int(os.environ.get("WRONG_MAX", "20"))
NOT_HELD = ("release unlocked lock", "cannot release un-acquired lock")
_IN_TRANSACTION = "SELECT query FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"


class Database(sqlite3.Connection):
    """A connection that can be found again."""


DATABASES = weakref.WeakSet()


def connect_noted(connect, *arguments, **options):
    made = connect(*arguments, **{"factory": Database} | options)
    DATABASES.add(made)
    return made


sqlite3.connect = partial(connect_noted, sqlite3.connect)


class World:
    """A store, and a process in it."""

    def __init__(self, url, folder, other=None):
        self.url, self.folder, self.other = url, folder, other
        self.cancel = Cancel()
        self.hf = Holdfast(self.url, timers=False)
        self.beside = Holdfast(f"{self.folder}/beside", timers=False)

    def close(self):
        self.hf.close()
        self.beside.close()

    def left_open(self):
        """What is left of a transaction; empty if nothing is."""
        for one in tuple(DATABASES):
            with suppress(sqlite3.ProgrammingError):  # it is closed
                if one.in_transaction:
                    return "a transaction of SQLite is left open"
        return ""

    def descriptors(self):
        """Those that are open, but for the few that connections take."""
        gc.collect()
        names = []
        for one in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # the one that lists them
                names.append(os.readlink(f"/proc/self/fd/{one}"))
        kept = [name for name in names if ".db" in name or name.startswith("socket:")]
        return len(names) - min(len(kept), CONNECTIONS_MAX)


class Other:
    """Another process, which takes sessions, goes on with them, and says what they have."""

    def __init__(self):
        command = [sys.executable, __file__, "--other"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, place, questions):
        """Its answers to some questions: each is what it is to do, and with what."""
        if not questions:
            return []
        self._process.stdin.write(json.dumps([*place, questions]).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait(ANSWER_S)


class Answers:
    """What the other process does."""

    def __init__(self):
        self._world = None

    def answers(self, url, folder, questions):
        if self._world is None or self._world.url != url:
            if self._world is not None:
                self._world.close()
            self._world = World(url, folder)
        return [self._answer(*one) for one in questions]

    def _answer(self, what, *arguments):
        try:
            return getattr(self, what)(*arguments)
        except BaseException as error:  # noqa: BLE001 - it is told, and what it is decides nothing here
            return {"error": f"{type(error).__name__}: {error}"}

    def look(self, id):
        """Go on with a session."""
        hf = self._world.hf
        with hf.session(id) as session:
            session.user("other")
        return self._found(id)

    def finish(self, id, operation):
        """Do what a process does after an operation, which cannot do it any more."""
        case = CASES[operation](self._world, id)
        case.go_on()
        return {**self._found(id), "case": {"sure": case.sure, "maybe": case.maybe}}

    def hold(self, id, seconds):
        """Keep a session for so long."""
        session = self._world.hf.session(id)
        threading.Timer(seconds, session.close).start()
        return {}

    def _found(self, id):
        hf = self._world.hf
        report = hf.verify(id)
        return {**told(hf.events(id)), "ok": report.ok, "why": report.explain(), "error": self._in_transaction()}

    def _in_transaction(self):
        link = getattr(self._world.hf.store, "link", None)
        until = time.monotonic() + 1
        while link is not None and (rows := link.fetch(_IN_TRANSACTION)):
            if time.monotonic() > until:
                return f"left in a transaction: {rows[0]['query']}"
            time.sleep(0.05)
        return ""


def be_other():
    asked = Answers()
    for line in sys.stdin:
        print(json.dumps(asked.answers(*json.loads(line))), flush=True)  # noqa: T201 - the answer


def check(case, found, more, *, returned):
    """What is wrong with the events that were read; empty if nothing is."""
    texts, seqs = found["texts"], found["seqs"]
    if seqs != list(range(len(seqs))):
        return f"numbers {seqs}"
    sure = [*case.sure, *(case.maybe if returned else ()), *more]
    known = {*case.sure, *case.maybe, *more}
    ours = [text for text in texts if text in known]
    if len(ours) != len(set(ours)):
        return f"doubled: {texts}"
    if missing := [text for text in sure if text not in ours]:
        return f"lost {missing}: {texts}"
    return ""


def check_answer(case, found, more, *, returned):
    wrong = found.get("error") or ("" if found["ok"] else found["why"])
    return wrong or check(case, found, more, returned=returned)


class Campaign:
    """Boundaries of one operation, one after the other, and what was wrong."""

    def __init__(self, other, url, how, operation):
        operation, _, only = operation.partition("@")
        self.operation, _, self._inside = operation.partition(":")
        self.how, self._only = how, int(only or 0)
        self._url, self._case = url, CASES[self.operation]
        Boundaries.is_shown = bool(only)
        self._acts = {"press": press, "exit": leave}
        self._everywhere = how != "press"
        self._world = None
        self.other = other
        # Not the thread that is interrupted: a lock that it kept would not stop itself.
        self._elsewhere = ThreadPoolExecutor(1)
        self.total = 0

    def close(self):
        self._leave_world()
        self._elsewhere.shutdown()

    def run(self, count_max):
        """Try so many, and tell it on the way."""
        self._enter_world()
        stride = 1 if self._only else max(1, self.total // count_max if count_max else 1)
        number = self._only or 1 + random.Random(f"{self.operation} {self.how}").randrange(stride)
        size = 1 if self._only else self._case.together
        tried = wrong_count = 0
        while number <= self.total and wrong_count < WRONG_MAX:
            faulthandler.dump_traceback_later(HANG_S, exit=True)
            if tried >= WORLD_POINTS:
                tried = 0
                self._leave_world()
                self._enter_world()
                if number > self.total:
                    break  # where threads wait for each other, there are fewer this time
            numbers = range(number, min(number + stride * size, self.total + 1), stride)
            found = self._attempt([(f"p{one}", one) for one in numbers])
            # Where threads wait for each other, there are not always as many.
            count = sum(bool(fired) for _, fired, _ in found)
            wrong = [
                f"{self.operation}, {self.how}, {one} of {self.total}, {fired}: {said}"
                for one, fired, said in found
                if said
            ]
            self._tell(count, wrong)
            tried, wrong_count, number = tried + len(numbers), wrong_count + len(wrong), numbers[-1] + stride
        faulthandler.cancel_dump_traceback_later()

    def _tell(self, tried, wrong):
        found = {"operation": self.operation, "boundaries": self.total, "tried": tried, "wrong": wrong}
        print(json.dumps(found), flush=True)  # noqa: T201 - the answer

    def _enter_world(self):
        self._folder = tempfile.mkdtemp(prefix="points-")
        name = os.path.basename(self._folder).replace("-", "_").lower()
        self._place = self._url.replace("{}", self._folder).replace("{name}", name)
        for warm in range(2):
            said = self._attempt([(f"warm{warm}", -1)])[0][2]
            assert not said, f"{self.operation}, without an interrupt: {said}"
        gc.collect()
        gc.freeze()

    def _leave_world(self):
        if self._world is not None:
            self._world.close()
            self._world = None
        gc.unfreeze()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _attempt(self, points):
        """Interrupt each of some once; of each its number, the boundary, and what is wrong, empty if nothing is."""
        if self.how == "exit":
            return self._end_processes(points)
        if self._world is None:
            self._world = World(self._place, self._folder, self.other)
        before = self._world.descriptors()
        found = self._interrupt(points)
        after = self._world.descriptors()
        if after > before and points[0][1] > 0:
            found[-1] = (*found[-1][:2], found[-1][2] or f"descriptors {before} -> {after} since {points[0][0]}")
        return found

    def _interrupt(self, points):
        tries = [Try(*point, self._act(*point)) for point in points]
        first = [one for one in tries if one.case.session is None and one.number % 2 and self._case is not Erase]
        self._look(first)
        # In another thread: a lock that the interrupted one kept would not stop itself.
        self._elsewhere.submit(lambda: [one.go_on() for one in tries]).result()
        self._look([one for one in tries if one not in first])
        return [(one.number, one.fired, one.wrong) for one in tries]

    def _look(self, tries):
        """Have the other process go on with what these are about."""
        well = [one for one in tries if not one.wrong]
        place = self._world.url, self._world.folder
        for one, answer in zip(well, self.other.ask(place, [("look", one.id) for one in well]), strict=True):
            one.more.append("other")
            one.wrong = check_answer(one.case, answer, one.more, returned=one.returned)

    def _act(self, id, number):
        """Do the operation once, interrupted at a boundary."""
        case = self._case(self._world, id)
        case.prepare()
        if self.how == "exit" and case.session is not None:
            case.session.flush()  # on a server only that acknowledges what was recorded before
        act = self._acts.get(self.how, self._world.cancel)
        points = Boundaries(number, act, everywhere=self._everywhere, inside=self._inside)
        returned, wrong = False, ""
        try:
            with points:
                case.act()
            returned = True
        except (KeyboardInterrupt, asyncio.CancelledError):
            pass
        except Exception as error:  # noqa: BLE001 - whatever else comes is wrong
            # Python's own conditions, interrupted in themselves, raise that in the place of the interrupt.
            if not (
                isinstance(error, RuntimeError) and str(error) in NOT_HELD and points.fired.startswith("threading")
            ):
                wrong = f"it raised {type(error).__name__}: {error}"
        if case.is_awaited:
            # A task and what it raised hold each other, and what it had with them, until they are collected.
            self._world.cancel.forget()
            gc.collect()
        if number < 0:
            self.total = points.count
        return case, points.fired, returned, wrong or self._world.left_open()

    def _end_processes(self, points):
        """End a process at each of some boundaries; another one must find all that was acknowledged."""
        ends = [self._end_process(*point) for point in points]
        place = self._place, self._folder
        answers = self.other.ask(place, [("finish", id, self.operation) for id, _ in points])
        found = []
        for (_, number), returned, answer in zip(points, ends, answers, strict=True):
            wrong = answer["error"] or check_answer(Expected(**answer["case"]), answer, ["after"], returned=returned)
            found.append((number, "" if returned else f"boundary {number}", wrong))
        return found

    def _end_process(self, id, number):
        """End a process at a boundary; whether it came to the end of the operation before."""
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            # Of this process nothing may have used the store before: some libraries cannot be forked.
            self._world = World(self._place, self._folder, None)
            case, *_ = self._act(id, number)
            if case.session is not None and not case.session.closed:
                case.session.flush()  # it came to its end, which on a server acknowledges nothing
            os.write(writing, str(self.total).encode())
            os._exit(1)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            count = pipe.read()
        _, status = os.waitpid(child, 0)
        if number < 0:
            self.total = int(count)
        return bool(status)


class Try:
    """One interrupt, and what came of it."""

    def __init__(self, id, number, ended):
        self.id, self.number, self.more = id, number, []
        self.case, self.fired, self.returned, self.wrong = ended

    def go_on(self):
        """Have this process go on."""
        if self.wrong:
            return
        self.more.append("after")
        try:
            self.wrong = check(self.case, self.case.go_on(), self.more, returned=self.returned)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            self.wrong = f"{type(error).__name__}: {error}"


class Expected:
    """What a session is to have, as the process says that has looked."""

    def __init__(self, sure, maybe):
        self.sure, self.maybe = sure, maybe


def main(url, how, count_max, *operations):
    """Tell what came of each operation, a line for some hundred boundaries of it."""
    boundaries.prepare(everywhere=how != "press")
    other = Other()
    for operation in operations:
        campaign = Campaign(other, url, how, operation)
        try:
            campaign.run(int(count_max))
        finally:
            campaign.close()
    other.close()


if __name__ == "__main__":
    be_other() if sys.argv[1] == "--other" else main(*sys.argv[1:])
