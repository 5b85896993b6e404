"""Ask for known vulnerabilities of what the lock files name: `make audit`.

    python tools/audit.py requirements-dev.lock …

Exit code 1 if something that is locked is known to be vulnerable, or if a lock file has an entry
without a hash. Where the list of vulnerabilities cannot be reached nothing is claimed: it says for
how many packages nobody could be asked.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

_ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)
_TIMEOUT_S = 600


class Audit(NamedTuple):
    """What is known of one lock file."""

    asked: int
    unknown: int
    found: list[str]


def unhashed(lock: Path) -> list[str]:
    """The entries of a lock file that no hash belongs to."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", lock.read_text(encoding="utf-8"))
    named = [(match, entry) for entry in entries if (match := _ENTRY.match(entry))]
    return [match.group(1) for match, entry in named if "--hash=sha256:" not in entry]


def audit(lock: Path) -> Audit:
    """Ask pip-audit, which is fetched for the purpose."""
    command = ["uv", "tool", "run", "pip-audit", "--requirement", str(lock)]
    options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    beside = Path(sys.executable).with_name("uv")
    command[0] = str(beside) if beside.exists() else "uv"
    try:
        done = subprocess.run(  # noqa: S603 - the command is ours
            [*command, *options], check=False, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
        return read(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return Audit(0, len(_ENTRY.findall(lock.read_text(encoding="utf-8"))), [])


def read(answer: dict[str, Any]) -> Audit:
    """What an answer of pip-audit says."""
    rows = answer["dependencies"]
    asked = [row for row in rows if "skip_reason" not in row]
    found = [
        f"{row['name']} {row['version']}: {flaw['id']}"
        for row in asked
        for flaw in row.get("vulns", [])
    ]
    return Audit(len(asked), len(rows) - len(asked), found)


def main() -> int:
    """Look at every lock file that is named."""
    failed = False
    for lock in map(Path, sys.argv[1:]):
        for name in unhashed(lock):
            print(f"{lock.name}: {name} has no hash")
            failed = True
        asked, unknown, found = audit(lock)
        for flaw in found:
            print(f"{lock.name}: {flaw}")
            failed = True
        print(f"{lock.name}: {asked} packages asked about, {len(found)} known vulnerabilities")
        if unknown:
            print(f"{lock.name}: nobody could be asked about {unknown} packages; they are unknown")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
