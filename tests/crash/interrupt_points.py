"""Interrupts one operation at one boundary between two instructions, again and again; tells what came of it as JSON.

    python interrupt_points.py URL HOW COUNT_MAX OPERATION…

``{}`` in the address is a new directory. Of each operation at most COUNT_MAX boundaries are tried, at equal distances
from one that is chosen by its name; 0 tries them all.

A trace function counts the boundaries of the library's own instructions, and of those of the standard library that it
calls to hold locks, and at one of them raises KeyboardInterrupt, cancels the running task, or ends the process. Then
this process goes on with the session, another one does, and both look at what there is.
"""

from __future__ import annotations

import asyncio
import dis
import faulthandler
import gc
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from contextlib import closing, suppress
from functools import cache

import holdfast
from holdfast import Holdfast
from holdfast.errors import HoldfastError, NotFound

OURS = os.path.dirname(holdfast.__file__)
# contextlib as `suppress` knows it: what the library calls to hold and to give back.
BESIDE = frozenset(
    code.__code__.co_filename for code in (closing.__init__, weakref.finalize.__init__, threading.settrace)
)
WORLD_POINTS = 150
CONNECTIONS_MAX = 24
ANSWER_S = 120
HANG_S = 60
WRONG_MAX = 20


@cache
def is_traced(filename):
    return filename.startswith(OURS) or filename in BESIDE


@cache
def leaving(code):
    """Instructions that the compiler puts outside of every handler, though they stand inside of one in the source.

    Between the end of a ``with`` block and the call of ``__exit__``, at the beginning of a handler, at ``try`` itself.
    CPython delivers nothing there, and nothing that is written in Python could close these gaps: they are left out.
    """
    found, run, swapped = set(), [], -1
    for one in dis.get_instructions(code):
        is_none = one.opname == "LOAD_CONST" and one.argval is None
        is_call = one.opname in ("PRECALL", "CALL") and one.arg == 2
        if (is_none and len(run) < 3) or (is_call and len(run) >= 3):
            run.append(one.offset)
            if one.opname == "CALL":
                found.update(run)
                run = []
        else:
            run = [] if not is_none else [one.offset]
        if one.opname == "SWAP":
            swapped = one.offset
        elif is_none and len(run) == 1 and swapped == one.offset - 2:
            found.add(swapped)
        if one.opname in ("PUSH_EXC_INFO", "WITH_EXCEPT_START", "NOP"):
            found.add(one.offset)
    return frozenset(found)


class Boundaries:
    """Counts boundaries while it is entered, and does something at the one of a number."""

    def __init__(self, number, act):
        self.number = number
        self.count = 0
        self.fired = ""
        self._act = act

    def __enter__(self):
        gc.collect()
        gc.disable()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_):
        sys.settrace(None)
        gc.enable()

    def _called(self, frame, event, _):
        if not is_traced(frame.f_code.co_filename):
            return None
        above = frame
        while above is not None:
            # What an interrupt raises there goes nowhere: Python itself takes it.
            if above.f_code.co_name == "__del__":
                return None
            above = above.f_back
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        return self._stepped

    def _stepped(self, frame, event, _):
        if event == "opcode" and frame.f_lasti not in leaving(frame.f_code):
            self.count += 1
            if self.count == self.number:
                code = frame.f_code
                self.fired = f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}+{frame.f_lasti}"
                self._act()
        return self._stepped


def press():
    raise KeyboardInterrupt


class Other:
    """Another process, which takes a session, goes on with it, and says what it has."""

    def __init__(self):
        command = [sys.executable, __file__, "--other"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, url, id):
        self._process.stdin.write(json.dumps([url, id]).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.stdin.close()
        self._process.wait(ANSWER_S)


def be_other():
    """What the other process does."""
    hf, place = None, ""
    for line in sys.stdin:
        url, id = json.loads(line)
        try:
            if url != place:
                if hf is not None:
                    hf.close()
                hf, place = Holdfast(url, timers=False), url
            with hf.session(id) as session:
                session.user("other")
            report = hf.verify(id)
            answer = {**told(hf.events(id)), "ok": report.ok, "why": report.explain()}
        except BaseException as error:  # noqa: BLE001 - it is told, and what it is decides nothing here
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)  # noqa: T201 - the answer


def told(events):
    """What is said in a session, and its numbers."""
    events = list(events)
    texts = [
        str(one.data.get("content", one.data.get("result"))) for one in events if one.type in ("user", "tool_result")
    ]
    return {"texts": texts, "seqs": [one.seq for one in events]}


class Case:
    """An operation: what comes before it, itself, and what must be so afterwards."""

    sure = ("first",)
    """What is in the session whatever happened."""
    maybe = ()
    """What is there once if the operation returned, and once or not at all if it did not."""

    def __init__(self, world, id):
        self.world, self.hf, self.id = world, world.hf, id
        self.session = None

    def prepare(self):
        self.session = self.hf.session(self.id)
        self.session.user("first")

    def act(self):
        raise NotImplementedError

    def go_on(self):
        """The same process afterwards."""
        if self.session is None:
            self.session = self.hf.session(self.id)
        self.session.user("after")
        self.session.flush()
        found = told(self.session.events())
        assert self.session.state == self.hf.state(self.id), "the state is not that of the log"
        self.session.close()
        self.session = None
        return found

    def leave_at_rest(self):
        """A session that is there and closed."""
        with self.hf.session(self.id) as session:
            session.user("first")


class Append(Case):
    maybe = ("second",)

    def act(self):
        self.session.user("second")


class AppendNamed(Append):
    def act(self):
        self.session.append("user", {"role": "user", "content": "second"}, run="r", key="k")

    def go_on(self):
        # Tried again with its key, it is there once.
        self.act()
        self.maybe, self.sure = (), ("first", "second")
        return super().go_on()


class AppendFirst(Append):
    """The first append of an opening, which records the opening before."""

    def prepare(self):
        self.leave_at_rest()
        self.session = self.hf.session(self.id)


class AppendNew(Append):
    """The first append of a session."""

    sure = ()

    def prepare(self):
        self.session = self.hf.session(self.id)


class Tool(Case):
    maybe = ("second",)

    def act(self):
        with self.session.tool("Read", {"path": "a"}) as call:
            call.result = "second"

    def go_on(self):
        found = super().go_on()
        # A call that was broken off has a result that says so.
        found["texts"] = [text for text in found["texts"] if text in ("first", "second", "after", "other")]
        return found


class Extend(Case):
    maybe = ("second", "third")

    def act(self):
        self.session.extend([("user", {"role": "user", "content": text}) for text in self.maybe])


class Flush(Case):
    def act(self):
        self.session.flush()


class Aflush(Case):
    def act(self):
        asyncio.run(self.session.aflush())


class Aclose(Case):
    def act(self):
        asyncio.run(self.session.aclose())

    def go_on(self):
        if self.session.closed:
            self.session = None
        return super().go_on()


class Snapshot(Case):
    def act(self):
        self.session.snapshot()


class OpenNew(Case):
    sure = ()

    def prepare(self):
        pass

    def act(self):
        self.session = self.hf.session(self.id)


class OpenExisting(OpenNew):
    sure = ("first",)

    def prepare(self):
        self.leave_at_rest()


class Close(Case):
    def act(self):
        self.session.close()

    def go_on(self):
        self.session.close()
        self.session = None
        return super().go_on()


class Rest(Case):
    """An operation on a session at rest."""

    def prepare(self):
        self.leave_at_rest()


class Fork(Rest):
    def act(self):
        self.hf.fork(self.id, new_id=f"{self.id}-fork")

    def go_on(self):
        with suppress(HoldfastError):
            self.act()
        assert told(self.hf.events(f"{self.id}-fork"))["texts"] == ["first"], "the fork is not whole"
        assert self.hf.verify(f"{self.id}-fork").ok
        return super().go_on()


class Archive(Rest):
    def act(self):
        self.hf.archive(self.id)

    def go_on(self):
        if self.hf.store.capabilities.archives:
            self.act()
        return super().go_on()


class Redact(Rest):
    def prepare(self):
        with self.hf.session(self.id) as session:
            session.user("first")
            session.user("hush")

    def act(self):
        self.hf.redact(self.id, find=["hush"])

    def go_on(self):
        self.act()
        found = super().go_on()
        assert "hush" not in str(found), "the word is still there"
        found["texts"] = [text for text in found["texts"] if "redact" not in text.lower()]
        return found


class Erase(Rest):
    sure = ()

    def act(self):
        self.hf.erase(self.id)

    def go_on(self):
        with suppress(NotFound):
            self.act()
        assert not self.hf.exists(self.id), "it is still there"
        return super().go_on()


class Copy(Rest):
    def act(self):
        copied = self.hf.copy_to(self.world.beside, [self.id])
        assert not copied.failed, copied.failed

    def go_on(self):
        self.act()
        assert told(self.world.beside.events(self.id))["texts"] == ["first"], "the copy is not whole"
        assert self.world.beside.verify(self.id).ok
        return super().go_on()


class Import(Rest):
    def prepare(self):
        self.leave_at_rest()
        self.bundle = b"".join(
            json.dumps({"role": role, "content": f"{self.id} {role}"}).encode() + b"\n"
            for role in ("user", "assistant")
        )

    def act(self):
        return self.hf.import_(self.bundle)

    def go_on(self):
        (made,) = self.act()
        assert told(self.hf.events(made))["texts"] == [f"{self.id} user"], "what was brought in is not there once"
        assert self.hf.verify(made).ok
        return super().go_on()


class List(Rest):
    def act(self):
        return [one.session_id for one in self.hf.list(limit=None)]

    def go_on(self):
        assert self.id in self.act(), "it is not listed"
        return super().go_on()


class Search(Rest):
    def act(self):
        return [hit.session_id for hit in self.hf.search("first", limit=1000)]

    def go_on(self):
        assert self.id in self.act(), "it is not found"
        return super().go_on()


CASES = {
    "append": Append,
    "append named": AppendNamed,
    "append first": AppendFirst,
    "append new": AppendNew,
    "tool": Tool,
    "extend": Extend,
    "flush": Flush,
    "aflush": Aflush,
    "aclose": Aclose,
    "snapshot": Snapshot,
    "open": OpenExisting,
    "open new": OpenNew,
    "close": Close,
    "fork": Fork,
    "archive": Archive,
    "redact": Redact,
    "erase": Erase,
    "copy": Copy,
    "import": Import,
    "list": List,
    "search": Search,
}


class World:
    """A store, and this process in it."""

    def __init__(self, url, operation, how):
        self.operation = operation
        self.folder = tempfile.mkdtemp(prefix="points-")
        self.url = url.replace("{}", self.folder)
        self.case, self.how = CASES[operation], how
        self.hf = Holdfast(self.url, timers=False)
        self.beside = Holdfast(f"{self.folder}/beside", timers=False)

    def close(self):
        self.hf.close()
        self.beside.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def descriptors(self):
        """Those that are open, but for the few that SQLite keeps for its connections."""
        gc.collect()
        names = []
        for one in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # the one that lists them
                names.append(os.readlink(f"/proc/self/fd/{one}"))
        kept = [name for name in names if ".db" in name]
        return len(names) - min(len(kept), CONNECTIONS_MAX)

    def run(self, id, number):
        """The operation once, interrupted at a boundary; the boundaries, and what was interrupted."""
        case = self.case(self, id)
        case.prepare()
        fire = {"press": press, "cancel": cancel, "exit": lambda: os._exit(0)}[self.how]
        points = Boundaries(number, fire)
        returned, wrong = False, ""
        try:
            with points:
                case.act()
            returned = True
        except (KeyboardInterrupt, asyncio.CancelledError):
            pass
        except Exception as error:  # noqa: BLE001 - whatever else comes is wrong
            wrong = f"it raised {type(error).__name__}: {error}"
        gc.collect()  # a session that was opened for nobody is given back when the collector finds it
        return case, points, returned, wrong


def cancel():
    with suppress(RuntimeError, AttributeError):  # no loop runs, or no task in it
        asyncio.current_task().cancel()


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


def try_point(world, other, id, number):
    """Interrupt once; the boundary, and what is wrong, empty if nothing is."""
    before = world.descriptors()
    case, points, returned, wrong = world.run(id, number)
    try:
        wrong = wrong or check(case, case.go_on(), ["after"], returned=returned)
        if not wrong:
            found = other.ask(world.url, id)
            wrong = found.get("error") or ("" if found["ok"] else found["why"])
            wrong = wrong or check(case, found, ["after", "other"], returned=returned)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        wrong = f"{type(error).__name__}: {error}"
    del case
    after = world.descriptors()
    if not wrong and number > 0 and after > before:
        wrong = f"descriptors {before} -> {after}"
    return points, wrong


def try_exit(world, other, id, number):
    """End a process at a boundary; another one must find all that was acknowledged."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        world.hf = Holdfast(world.url, timers=False)
        points = world.run(id, number)[1]
        os.write(writing, str(points.count).encode())
        os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        count = pipe.read()
    _, status = os.waitpid(child, 0)
    points = Boundaries(number, press)
    points.fired = "" if status else f"boundary {number}"
    points.count = int(count or 0)
    found = other.ask(world.url, id)
    wrong = found.get("error") or ("" if found["ok"] else found["why"])
    return points, wrong or check(world.case, found, ["other"], returned=bool(status))


def campaign(other, url, how, count_max, operation):
    """Try boundaries of one operation; how many it has, how many were tried, what was wrong."""
    tried, wrong, number = 0, [], 0
    attempt = try_exit if how == "exit" else try_point
    world = World(url, operation, how)
    try:
        for warm in range(3):
            points, said = attempt(world, other, f"warm{warm}", -1)
            if said:
                wrong.append(f"{operation}, without an interrupt: {said}")
        gc.freeze()
        total = points.count
        stride = max(1, total // count_max if count_max else 1)
        number = 1 + random.Random(f"{operation} {how}").randrange(stride)
        while number <= total and len(wrong) < WRONG_MAX:
            faulthandler.dump_traceback_later(HANG_S, exit=True)
            if tried and tried % WORLD_POINTS == 0 and "{}" in url:
                world.close()
                world = World(url, operation, how)
                for warm in range(2):
                    attempt(world, other, f"warm{warm}", -1)
            points, said = attempt(world, other, f"p{number}", number)
            if not points.fired:
                break
            tried += 1
            if said:
                wrong.append(f"{operation}, {number} of {total}, {points.fired}: {said}")
            number += stride
    finally:
        world.close()
    return {"boundaries": total, "tried": tried, "wrong": wrong}


def main(url, how, count_max, *operations):
    """Tell what came of each operation, a line for each."""
    other = Other()
    try:
        for operation in operations:
            found = campaign(other, url, how, int(count_max), operation)
            print(json.dumps({"operation": operation, **found}), flush=True)  # noqa: T201 - the answer
    finally:
        other.close()


if __name__ == "__main__":
    be_other() if sys.argv[1] == "--other" else main(*sys.argv[1:])
