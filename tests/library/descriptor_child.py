"""A process that lets children do one verb each with so many descriptors left; what came of it, as JSON lines.

Each child begins like a fresh process: it has opened a store, and loaded no more than that takes.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import sys
import traceback

import holdfast
from holdfast.errors import HoldfastError

LIMIT = 128


def make(path):
    """A store with a bit of everything."""
    with holdfast.open(path) as hf:
        for id in ("a", "b"):
            with hf.session(id, agent_id="agent") as s:
                s.user("hello there")
                s.assistant("hi", usage={"input_tokens": 3, "output_tokens": 1}, model="gpt-4o")
                s.tool_result(s.tool_call("ls", {"path": "."}), "x" * 5000)
                s.snapshot()
        hf.fork("a", new_id="fork")
        with hf.session("gone") as s:
            s.user("soon gone")
        hf.delete("gone")
        hf.archive("b")
        hf.export("a", "bundle", to=f"{path}.zip")
        hf.list()


VERBS = {
    "session": lambda hf: hf.session("new").close(),
    "resume": lambda hf: hf.session("a").close(),
    "space": lambda hf: hf.space("one").list(),
    "exists": lambda hf: hf.exists("a"),
    "last_modified": lambda hf: hf.last_modified("a"),
    "events": lambda hf: list(hf.events("a")),
    "events backwards": lambda hf: list(hf.events("a", reverse=True)),
    "follow": lambda hf: hf.follow("a").poll(),
    "state": lambda hf: hf.state("a"),
    "state at": lambda hf: hf.state("a", at=2),
    "recover": lambda hf: hf.recover("a", "anthropic"),
    "snapshots": lambda hf: hf.snapshots("a"),
    "list": lambda hf: hf.list(),
    "list narrowed": lambda hf: hf.list(tags=["x"], text="hello"),
    "info": lambda hf: hf.info("a"),
    "session_ids": lambda hf: hf.session_ids("a"),
    "search": lambda hf: hf.search("hello"),
    "stats": lambda hf: hf.stats(),
    "timeline": lambda hf: hf.timeline("a"),
    "reindex": lambda hf: hf.reindex(),
    "catalog_health": lambda hf: hf.catalog_health(check=True),
    "title": lambda hf: hf.title("a", "another"),
    "tag": lambda hf: hf.tag("a", "x"),
    "topics": lambda hf: hf.topics("a"),
    "fork": lambda hf: hf.fork("a"),
    "restore": lambda hf: hf.restore("a", 2),
    "lineage": lambda hf: hf.lineage("fork"),
    "compare": lambda hf: hf.compare("a", "fork"),
    "merge": lambda hf: hf.merge("a", "fork"),
    "export": lambda hf: hf.export("a", "markdown"),
    "export bundle": lambda hf: hf.export("a", "bundle"),
    "import_": lambda hf: hf.import_(f"{hf.store.path}.zip"),
    "foreign": lambda hf: hf.foreign.places(),
    "copy_to": lambda hf: hf.copy_to(holdfast.open("memory:")),
    "verify": lambda hf: hf.verify("a"),
    "repair": lambda hf: hf.repair("a"),
    "redact": lambda hf: hf.redact("a"),
    "archive": lambda hf: hf.archive("a"),
    "unarchive": lambda hf: hf.unarchive("b"),
    "prune": lambda hf: hf.prune(),
    "delete": lambda hf: hf.exists("a") and hf.delete("a"),
    "undelete": lambda hf: hf.exists("gone") or hf.undelete("gone"),
    "purge_agent": lambda hf: hf.purge_agent("agent"),
    "erase": lambda hf: hf.exists("b") and hf.erase("b"),
    "trash": lambda hf: hf.trash.list(),
    "agents": lambda hf: hf.agents.damaged(),
    "keys": lambda hf: hf.keys.list(),
    "close": lambda hf: hf.close(),
    "user": lambda hf: hf.live.user("more"),
    "record": lambda hf: hf.live.record({"role": "user", "content": "more"}),
    "tool": lambda hf: hf.live.tool_result(hf.live.tool_call("ls", {}), "y" * 9000),
    "blob": lambda hf: hf.live.tool_result(hf.live.tool_call("ls", {}), "y" * 300_000),
    "messages": lambda hf: hf.live.messages("openai"),
    "memory": lambda hf: hf.live.memory.set("key", "value"),
    "variables": lambda hf: hf.live.variables.update({"key": 1}),
    "todos": lambda hf: hf.live.todos.write([{"content": "do it", "status": "pending"}]),
    "flush": lambda hf: (hf.live.user("x"), hf.live.flush()),
    "aflush": lambda hf: hf.live.loop.run_until_complete(hf.live.aflush()),
    "snapshot": lambda hf: hf.live.snapshot(),
    "once": lambda hf: hf.live.once("key", lambda: 1),
    "turn": lambda hf: hf.live.turn().__enter__(),
    "sealed": lambda hf: holdfast.open("memory:", key=b"k" * 32, seal=True).session("s").user("x"),
    "sqlite": lambda hf: holdfast.open(f"sqlite://{hf.store.path}.db").session("s").user("x"),
    "postgres": lambda hf: holdfast.open("postgresql://127.0.0.1:9/db").list(),
    "s3": lambda hf: holdfast.open("s3://bucket?endpoint=http://127.0.0.1:9").check(),
}
NEVER_WORKS = ("postgres", "s3")  # no server is there


def run(verb, path, free):
    """What is wrong when the verb is called with so many descriptors left, and again with all."""
    hf = holdfast.open(path)
    if "live" in VERBS[verb].__code__.co_names:
        hf.live = hf.session("live")
        hf.live.user("first")
        if verb == "aflush":
            import asyncio  # the caller's, who has it before

            hf.live.loop = asyncio.new_event_loop()
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    kept, said = [], []
    with contextlib.suppress(OSError):
        while True:
            kept.append(os.dup(0))
    for one in kept[:free]:
        os.close(one)
    for again in (False, True):
        try:
            VERBS[verb](hf)
            said.append("works")
        except HoldfastError as error:
            said.append(type(error).__name__)
            if (again and verb not in NEVER_WORKS) or not error.remedy:
                return f"{said} {error!r} {error.remedy!r}"
        except BaseException:  # noqa: BLE001 - that is what is looked for
            return f"{said} {traceback.format_exc()}"
        if not again:
            for one in kept[free:]:
                os.close(one)
    return ""


def main(folder, chosen):
    """Try each pair of a verb and a number of descriptors, in a child of its own."""
    if not os.fork():
        make(f"{folder}/store")
        os._exit(0)
    os.wait()
    for number, (verb, free) in enumerate(chosen):
        path = f"{folder}/{number}"
        shutil.copytree(f"{folder}/store", path)
        shutil.copy(f"{folder}/store.zip", f"{path}.zip")
        if not os.fork():
            found = "died"
            try:
                found = run(verb, path, free)
            finally:
                sys.stdout.write(json.dumps([verb, free, found]) + "\n")
                sys.stdout.flush()
                os._exit(0)
        os.wait()
        shutil.rmtree(path)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]) or [[verb, free] for verb in VERBS for free in range(20)])
