"""LangGraph: ``PostgresSaver.put``, a checkpoint for each message, as a graph writes them."""

from __future__ import annotations

import time
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.postgres import PostgresSaver

from bench.rivals import Task, serve


def work(task: Task) -> Any:
    """Create a thread with ``before`` messages, then put and commit some more one by one."""
    with PostgresSaver.from_conn_string(task["url"]) as saver:
        saver.setup()
        config: Any = {"configurable": {"thread_id": task["folder"], "checkpoint_ns": ""}}
        messages = [{"role": "user", "content": text} for text in task["before"]]
        spent = []
        for step, text in enumerate(task["texts"], 1):
            messages.append({"role": "user", "content": text})
            checkpoint = {
                **empty_checkpoint(),
                "id": str(uuid6(clock_seq=step)),
                "channel_values": {"messages": list(messages)},
                "channel_versions": {"messages": step},
            }
            begin = time.perf_counter_ns()
            config = saver.put(config, checkpoint, {"source": "loop", "step": step}, {"messages": step})
            spent.append(time.perf_counter_ns() - begin)
    return {"append_ns": sorted(spent)[len(spent) // 2]}


if __name__ == "__main__":
    serve(work)
