"""llm: what ``llm logs`` and ``llm logs -q`` show, which are turns and not conversations."""

from __future__ import annotations

import os
from typing import Any

import llm
import sqlite_utils
from llm.logs import LogStore, merged_log_rows
from llm.migrations import migrate

from bench.rivals import Task, median_ns, serve


class Echo(llm.Model):
    """A model with a given answer."""

    model_id = "bench"
    answer = ""

    def execute(self, prompt, stream, response, conversation):
        """The next answer."""
        yield self.answer


def work(task: Task) -> Any:
    """Fill a database, and list its newest turns or search it."""
    db = sqlite_utils.Database(os.path.join(task["folder"], "logs.db"))
    db.enable_wal()
    migrate(db)
    db.execute("PRAGMA synchronous=OFF")
    model = Echo()
    for turns in task["sessions"]:
        conversation = model.conversation()
        for said in turns:
            model.answer = said[1]
            response = conversation.prompt(said[0])
            response.text()
            response.log_to_db(db)
    store = LogStore(db)
    if "query" not in task:
        assert len(merged_log_rows(store, count=task["page"])) == task["page"]
        return {"list_ns": median_ns(lambda: merged_log_rows(store, count=task["page"]))}
    query = task["query"]
    assert merged_log_rows(store, count=20, query=query)
    return {"search_ns": median_ns(lambda: merged_log_rows(store, count=20, query=query))}


if __name__ == "__main__":
    serve(work)
