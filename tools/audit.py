"""Check the packages in the lock files for known vulnerabilities: `make audit`.

    python tools/audit.py requirements-dev.lock …
    ADVISORIES=copy-of-the-advisories python tools/audit.py requirements-dev.lock …

PyPI is asked, then OSV; where neither can be reached, or to be independent of them, ADVISORIES is a
folder or an archive of OSV records (a checkout of pypa/advisory-database, or all.zip of OSV for
PyPI), and nothing leaves this machine. What needs nobody is looked at in any case: that every entry
has a hash, and that what is installed here is what is locked.

Exit code 1 if something that is locked is known to be vulnerable, if an entry has no hash, or if
something else is installed than what is locked. Where nobody could be asked nothing is claimed: the
last line says so.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

_ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)(?: *; *([^\n\\]*\S))?", re.MULTILINE)
_TIMEOUT_S = 600
_SERVICES = ("pypi", "osv")


class Audit(NamedTuple):
    """The findings about one lock file."""

    asked: int
    unknown: int
    found: list[str]


def entries(lock: Path) -> list[tuple[str, str]]:
    """Return the packages of a lock file, with their versions."""
    return [match[:2] for match in _ENTRY.findall(lock.read_text(encoding="utf-8"))]


def unhashed(lock: Path) -> list[str]:
    """Return the entries of a lock file without a hash."""
    parts = re.split(r"\n(?=[A-Za-z0-9])", lock.read_text(encoding="utf-8"))
    named = [(match, part) for part in parts if (match := _ENTRY.match(part))]
    return [match.group(1) for match, part in named if "--hash=sha256:" not in part]


def strangers(lock: Path) -> list[str]:
    """Return the packages that are installed here in another version than that in the lock file."""
    here = {
        canonicalize_name(name): version
        for name, version, marker in _ENTRY.findall(lock.read_text(encoding="utf-8"))
        if _is_for_here(marker)
    }
    found = []
    for name, locked in here.items():
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if installed != locked:
            found.append(f"{name} {installed} is installed, {locked} is locked")
    return found


def _is_for_here(marker: str) -> bool:
    try:
        return not marker or Marker(marker).evaluate()
    except InvalidMarker:
        return False


def audit(lock: Path) -> Audit:
    """Run pip-audit, which is fetched for this purpose, with one service after another."""
    best = Audit(0, len(entries(lock)), [])
    for service in _SERVICES:
        answer = _ask(lock, service)
        if answer is not None and answer.asked > best.asked:
            best = answer
        if not best.unknown:
            break
    return best


def _ask(lock: Path, service: str) -> Audit | None:
    command = ["uv", "tool", "run", "pip-audit", "--requirement", str(lock)]
    options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    beside = Path(sys.executable).with_name("uv")
    command[0] = str(beside) if beside.exists() else "uv"
    options += ["--vulnerability-service", service]
    try:
        done = subprocess.run(  # noqa: S603 - the command is ours
            [*command, *options], check=False, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
        return read(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def read(answer: dict[str, Any]) -> Audit:
    """Parse the output of pip-audit."""
    rows = answer["dependencies"]
    asked = [row for row in rows if "skip_reason" not in row]
    found = [f"{row['name']} {row['version']}: {flaw['id']}" for row in asked for flaw in row.get("vulns", [])]
    return Audit(len(asked), len(rows) - len(asked), found)


def advisories(place: Path) -> Iterator[dict[str, Any]]:
    """Yield the OSV records of a folder or an archive, except withdrawn ones."""
    for name, data in _files(place):
        if name.endswith(".json"):
            record = json.loads(data)
        else:
            import yaml

            safe = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
            record = yaml.load(data, Loader=safe)  # noqa: S506 - it is a safe one
        if isinstance(record, dict) and "affected" in record and not record.get("withdrawn"):
            yield record


def _files(place: Path) -> Iterator[tuple[str, bytes]]:
    if place.is_dir():
        for file in sorted(place.rglob("*")):
            if file.suffix in {".json", ".yaml", ".yml"} and ".git" not in file.parts:
                yield file.name, file.read_bytes()
        return
    with zipfile.ZipFile(place) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith((".json", ".yaml", ".yml")):
                yield name, archive.read(name)


def compare(lock: Path, records: list[dict[str, Any]]) -> Audit:
    """Compare a lock file with OSV records."""
    flaws: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for record in records:
        for affected in record["affected"]:
            package = affected.get("package", {})
            if package.get("ecosystem") == "PyPI":
                name = canonicalize_name(package["name"])
                flaws.setdefault(name, []).append((record["id"], affected))
    locked = entries(lock)
    found = {
        f"{name} {version}: {flaw}": None
        for name, version in locked
        for flaw, affected in flaws.get(canonicalize_name(name), [])
        if is_affected(version, affected)
    }
    return Audit(len(locked), 0, list(found))


def is_affected(version: str, affected: dict[str, Any]) -> bool:
    """Return whether an entry of an OSV record means this version: by name, or by one of its ranges."""
    if version in affected.get("versions", []):
        return True
    ranges = [one for one in affected.get("ranges", []) if one.get("type") == "ECOSYSTEM"]
    return any(_is_within(version, one.get("events", [])) for one in ranges)


def _is_within(version: str, events: list[dict[str, str]]) -> bool:
    inside = False
    ordered = sorted(
        ((_version(at), kind) for event in events for kind, at in event.items()), key=lambda event: event[0]
    )
    for at, kind in ordered:
        if kind == "introduced" and _version(version) >= at:
            inside = True
        elif (kind == "fixed" and _version(version) >= at) or (kind == "last_affected" and _version(version) > at):
            inside = False
    return inside


def _version(text: str) -> Version:
    try:
        return Version(str(text))
    except InvalidVersion:
        return Version("0")


def main() -> int:
    """Check every given lock file."""
    place = os.environ.get("ADVISORIES")
    records = list(advisories(Path(place))) if place else None
    if records is not None:
        newest = max((str(record.get("modified", "")) for record in records), default="")
        print(f"{len(records)} advisories in the copy, the newest of {newest[:10] or 'no time'}")
    failed, unasked = False, 0
    for lock in map(Path, sys.argv[1:]):
        asked, unknown, found = audit(lock) if records is None else compare(lock, records)
        unasked += unknown
        for flaw in [*[f"{name} has no hash" for name in unhashed(lock)], *found]:
            print(f"{lock.name}: {flaw}")
            failed = True
        print(f"{lock.name}: {asked} packages asked about, {len(found)} known vulnerabilities")
        if unknown:
            print(f"{lock.name}: nobody could be asked about {unknown} packages; they are unknown")
    for stranger in strangers(Path(sys.argv[1])):
        print(stranger)
        failed = True
    if unasked:
        print(
            f"NOT AUDITED: {unasked} packages. Neither PyPI nor OSV could be asked about them."
            " With a copy of the advisories: ADVISORIES=folder-or-zip make audit"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
