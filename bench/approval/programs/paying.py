"""The side effect: a line in a file beside the store, and a process that is killed right after it."""

from __future__ import annotations

import os
import signal

__all__ = ["DIES", "pay_bill"]

DIES = "BENCH_DIES_IN_THE_TOOL"


def pay_bill(store: str, amount: int) -> str:
    """Pay; who is to die in the tool does so after it has acted."""
    with open(os.path.join(store, "paid"), "a", encoding="utf-8") as file:
        file.write(f"{amount}\n")
    if os.environ.get(DIES):
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {amount}"
