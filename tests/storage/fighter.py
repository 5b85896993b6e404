"""One of many processes that want the same session, and write down what was acknowledged.

Run as a program: fighter.py URL NAME STOP OUT. It goes on until there is a file STOP.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import holdfast
from holdfast.errors import HoldfastError

LEASE_MS = 1500
SECONDS_MAX = 300.0  # nobody is left to fight for ever when the test itself was killed


def main(url: str, name: str, stop: str, out: str) -> None:
    random.seed(name)
    until = time.monotonic() + SECONDS_MAX
    number = 0
    with open(out, "w", buffering=1, encoding="utf-8") as notes, holdfast.open(url) as hf:
        while not Path(stop).exists() and time.monotonic() < until:
            try:
                with hf.session("prize", lease_ms=LEASE_MS, autosave_ms=0, snapshot_ms=0) as s:
                    for _ in range(random.randint(1, 6)):
                        key = f"{name}-{number}"
                        notes.write(f"try {key}\n")
                        number += 1
                        s.append("user", {"role": "user", "content": key}, key=key)
                        s.flush()
                        notes.write(f"ack {key}\n")
            except HoldfastError as error:
                notes.write(f"error {error.code} {error.fields.get('outcome', '')}\n")
            time.sleep(random.random() * 0.2)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4])
