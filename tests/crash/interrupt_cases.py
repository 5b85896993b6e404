"""The operations that are interrupted: what comes before each, itself, and what must be so afterwards."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from holdfast.errors import HoldfastError, NotFound

HELD_S = 0.02
WAIT_MS = 20_000


def told(events):
    """What is said in a session, and its numbers."""
    events = list(events)
    texts = [
        str(one.data.get("content", one.data.get("result"))) for one in events if one.type in ("user", "tool_result")
    ]
    return {"texts": texts, "seqs": [one.seq for one in events]}


class Case:
    """An operation on a session that is open."""

    sure = ("first",)
    """What is in the session whatever happened."""
    maybe = ()
    """What is there once if the operation returned, and once or not at all if it did not."""

    together = 25
    """How many sessions are interrupted before anybody goes on with the first of them."""
    is_awaited = False
    """Whether a task did it."""

    def __init__(self, world, id):
        self.world, self.hf, self.id = world, world.hf, id
        self.session = None

    def prepare(self):
        self.session = self.hf.session(self.id)
        self.session.user("first")

    def act(self):
        raise NotImplementedError

    def go_on(self):
        """The same process afterwards, or another one if this one has ended."""
        self.opened().user("after")
        self.session.flush()
        found = told(self.session.events())
        assert self.session.state == self.hf.state(self.id), "the state is not that of the log"
        self.session.close()
        self.session = None
        return found

    def opened(self):
        if self.session is None or self.session.closed:
            self.session = self.hf.session(self.id)
        return self.session

    def leave_at_rest(self):
        """A session that is there and closed."""
        with self.hf.session(self.id) as session:
            session.user("first")

    def awaited(self, work):
        """Run a coroutine of the library in a task that can be cancelled."""
        self.is_awaited = True

        async def noted():
            self.world.cancel.note()
            return await work

        return asyncio.run(noted())


class Append(Case):
    maybe = ("second",)

    def act(self):
        self.session.user("second")


class AppendNamed(Append):
    def act(self):
        self.session.append("user", {"role": "user", "content": "second"}, run="r", key="k")

    def go_on(self):
        # Tried again with its key, it is there once.
        self.opened()
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
        return ours(super().go_on())


def ours(found):
    # A call or a turn that was broken off has a result that says so.
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
        self.awaited(self.session.aflush())


class Abarrier(Case):
    def act(self):
        self.awaited(self.session.abarrier())


class Aonce(Case):
    """A step that is awaited; asked for again, it gives what it gave."""

    def act(self):
        self.awaited(self.session.aonce("step", lambda: "second"))

    def go_on(self):
        self.opened()
        again = self.session.once("step", lambda: "second", unknown="rerun")
        assert again == "second", again
        return super().go_on()


class Aturn(Tool):
    """A turn with a call in it, in ``async with``."""

    def act(self):
        self.awaited(self._turn())

    async def _turn(self):
        async with self.session.turn(), self.session.tool("Read", {"path": "a"}) as call:
            call.result = "second"


class Aopen(Append):
    """A session that is opened, written and closed by ``async with``."""

    def prepare(self):
        self.leave_at_rest()

    def act(self):
        self.awaited(self._enter())

    async def _enter(self):
        async with self.hf.session(self.id) as session:
            session.user("second")


class Await(Aopen):
    """The same while another process has it, which gives it back after a moment."""

    def prepare(self):
        super().prepare()
        self.world.other.ask((self.world.url, self.world.folder), [("hold", self.id, HELD_S)])

    async def _enter(self):
        async with self.hf.session(self.id, wait_ms=WAIT_MS) as session:
            session.user("second")

    def opened(self):
        if self.session is None:
            self.session = self.hf.session(self.id, wait_ms=WAIT_MS)
        return self.session


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
        if self.session is not None:
            self.session.close()
            self.session = None
        return super().go_on()


class Aclose(Close):
    def act(self):
        self.awaited(self.session.aclose())


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
        made = told(self.hf.events(f"{self.id}-fork"))["texts"]
        # Of one that another process has gone on with meanwhile it may be, if it was not there before.
        assert [text for text in made if text != "other"] == ["first"], "the fork is not whole"
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
        made = told(self.world.beside.events(self.id))["texts"]
        assert [text for text in made if text != "other"] == ["first"], "the copy is not whole"
        assert self.world.beside.verify(self.id).ok
        return super().go_on()


class Import(Rest):
    @property
    def _bundle(self):
        return b"".join(
            json.dumps({"role": role, "content": f"{self.id} {role}"}).encode() + b"\n"
            for role in ("user", "assistant")
        )

    def act(self):
        return self.hf.import_(self._bundle)

    def go_on(self):
        (made,) = self.act()
        assert told(self.hf.events(made))["texts"] == [f"{self.id} user"], "what was brought in is not there once"
        report = self.hf.verify(made)
        assert report.ok, report.explain()
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
    "abarrier": Abarrier,
    "aclose": Aclose,
    "aonce": Aonce,
    "aturn": Aturn,
    "aopen": Aopen,
    "await": Await,
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
