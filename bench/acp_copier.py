"""The minimum between an editor and an agent: every line is copied."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import IO


def copy(source: IO[bytes], target: IO[bytes]) -> None:
    """Copy lines as they come."""
    for line in source:
        target.write(line)
        target.flush()


def main() -> None:
    """Start the given command, and copy in both directions."""
    agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None
    back = threading.Thread(target=copy, args=(agent.stdout, sys.stdout.buffer))
    back.start()
    copy(sys.stdin.buffer, agent.stdin)
    agent.stdin.close()
    back.join()


if __name__ == "__main__":
    main()
