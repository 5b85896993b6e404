"""Counts the boundaries between the library's instructions, and does something at one of them.

By ``sys.monitoring`` where Python has it (3.12), by a trace function with opcodes where it has not.
"""

from __future__ import annotations

import asyncio
import dis
import gc
import os
import sys
import threading
import time
import weakref
from contextlib import closing, suppress
from functools import cache

import holdfast

OURS = os.path.dirname(holdfast.__file__)
# contextlib as `suppress` knows it: what the library calls to hold and to give back.
BESIDE = frozenset(
    code.__code__.co_filename for code in (closing.__init__, weakref.finalize.__init__, threading.settrace)
)
# Where a function hands a session to the one that called it, and at last to the program. CPython looks for signals when
# a function begins, a C function returns, or a loop goes round: never where a function returns to another one.
HANDING_OUT = {("_sessions.py", "_live_session"), ("_sessions.py", "open_session"), ("holdfast.py", "session")}
TOOL = 4
CANCELLED_S = 0.002


@cache
def is_traced(filename):
    return filename.startswith(OURS) or filename in BESIDE


@cache
def leaving(code):
    """Instructions that the compiler puts outside of every handler, though they stand inside of one in the source.

    Between the end of a ``with`` block and the call of ``__exit__``, at the beginning of a handler, at ``try`` itself,
    and where a session is handed out. CPython delivers nothing there, and nothing that is written in Python could close
    these gaps: they are left out.
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
        if one.opname == "RETURN_VALUE" and (os.path.basename(code.co_filename), code.co_name) in HANDING_OUT:
            found.add(one.offset)
    return frozenset(found)


def is_being_removed(frame):
    """Whether it is below a ``__del__``: what an interrupt raises there goes nowhere, since Python itself takes it."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


class Boundaries:
    """Counts boundaries while it is entered, and does something at the one of a number.

    Those of the calling thread, where Python raises KeyboardInterrupt; with ``everywhere`` those of the library's
    own threads too.
    """

    now = None
    """The one that is entered."""
    is_shown = False
    """Whether each is told where it comes."""

    def __init__(self, number, act, *, everywhere=False, inside=""):
        """``inside`` is the name of the functions whose boundaries count, if not all do."""
        self.number = number
        self._inside = inside
        self.count = 0
        self.fired = ""
        self._act = act
        self._thread = None if everywhere else threading.get_ident()

    def __enter__(self):
        gc.collect()
        gc.disable()
        Boundaries.now = self
        begin()
        return self

    def __exit__(self, *_):
        end()
        Boundaries.now = None
        gc.enable()

    def step(self, frame, offset):
        """Count one; with its frame, or None if that is still to be found."""
        self.count += 1
        if self.count < self.number or self.number < 1 or self.fired:
            return
        frame = frame or sys._getframe(2)
        if is_being_removed(frame):
            return
        code = frame.f_code
        self.fired = f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}+{offset}"
        if Boundaries.is_shown:
            sys.stderr.write(f"{self.fired}\n")
        self._act()

    def is_wanted(self, code):
        here = self._thread is None or self._thread == threading.get_ident()
        return here and self._inside in ("", code.co_name)


def called(frame, _event, _):
    """For the trace function: whether the instructions of a frame count."""
    now, code = Boundaries.now, frame.f_code
    if now is None or not is_traced(code.co_filename) or not now.is_wanted(code) or is_being_removed(frame):
        return None
    frame.f_trace_lines = False
    frame.f_trace_opcodes = True
    return stepped


def stepped(frame, event, _):
    now = Boundaries.now
    if event == "opcode" and now is not None and frame.f_lasti not in leaving(frame.f_code):
        now.step(frame, frame.f_lasti)
    return stepped


def started(code, _offset):
    """For the monitor: a function that was not seen before."""
    if is_traced(code.co_filename):
        sys.monitoring.set_local_events(TOOL, code, sys.monitoring.events.INSTRUCTION)
    return sys.monitoring.DISABLE


def instructed(code, offset):
    now = Boundaries.now
    if now is not None and offset not in leaving(code) and now.is_wanted(code):
        now.step(None, offset)


def prepare(*, everywhere):
    """Once, before the library has any thread of its own; ``everywhere`` if those are looked at too."""
    if hasattr(sys, "monitoring"):
        sys.monitoring.use_tool_id(TOOL, "boundaries")
    elif everywhere:
        threading.settrace(called)


def begin():
    if not hasattr(sys, "monitoring"):
        sys.settrace(called)
        return
    events = sys.monitoring.events
    sys.monitoring.register_callback(TOOL, events.INSTRUCTION, instructed)
    for event in (events.PY_START, events.PY_RESUME):
        sys.monitoring.register_callback(TOOL, event, started)
    sys.monitoring.set_events(TOOL, events.PY_START | events.PY_RESUME)


def end():
    if not hasattr(sys, "monitoring"):
        sys.settrace(None)
        return
    sys.monitoring.set_events(TOOL, 0)
    sys.monitoring.register_callback(TOOL, sys.monitoring.events.INSTRUCTION, None)


# What is done at a boundary.


def press():
    raise KeyboardInterrupt


def leave():
    os._exit(0)


class Cancel:
    """Cancels the task that was noted last; from another thread than its own, and then waits until it has heard."""

    def __init__(self):
        self.forget()

    def forget(self):
        """Let the task go: it holds what it raised, and that the frames in which it was."""
        self._loop = self._task = None

    def note(self):
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()

    def __call__(self):
        loop, task = self._loop, self._task
        if task is None:
            return
        if asyncio._get_running_loop() is loop:
            task.cancel()
            return
        with suppress(RuntimeError):  # it is closed by now
            loop.call_soon_threadsafe(task.cancel)
        time.sleep(CANCELLED_S)
