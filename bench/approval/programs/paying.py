"""The side effect: a line in a file beside the store, and a process that is killed just after it."""

from __future__ import annotations

import os
import signal

__all__ = ["DIES", "pay_bill"]

DIES = "BENCH_DIES_IN_THE_TOOL"


def pay_bill(store: str, amount: int) -> str:
    """Pay; if the process is to be killed, do so after the payment."""
    with open(os.path.join(store, "paid"), "a", encoding="utf-8") as file:
        file.write(f"{amount}\n")
    if os.environ.get(DIES):
        os.kill(os.getpid(), signal.SIGKILL)
    return f"paid {amount}"
