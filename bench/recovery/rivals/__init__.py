"""One module per framework: a history in, the repaired one out, through the framework's own form.

Each is run in the environment of the peers as ``python -m bench.recovery.rivals.NAME``: a JSON list
of histories on standard input, on standard output one entry for each, ``{"once", "twice"}`` or
``{"error"}``. They import nothing of Holdfast.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["serve"]

Item = dict[str, Any]


def serve(repair: Callable[[list[Item]], list[Item]]) -> None:
    """Repair every history on standard input."""
    histories = json.load(sys.stdin)
    # Libraries may print, which must not mix with the answer.
    answer, sys.stdout = sys.stdout, sys.stderr
    json.dump([_answer(repair, history) for history in histories], answer)
    answer.flush()


def _answer(repair: Callable[[list[Item]], list[Item]], history: list[Item]) -> dict[str, Any]:
    try:
        once = repair(history)
        return {"once": once, "twice": repair(once)}
    except Exception as error:  # noqa: BLE001 - a repair that raises is a finding
        return {"error": f"{type(error).__name__}: {error}"}
