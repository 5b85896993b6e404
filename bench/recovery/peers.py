"""``python -m bench.recovery.peers``: installs the rivals' packages into a separate environment.

All of them at once if that can be resolved, else one by one, so that one which cannot be had here
does not take the others with it. The table says which are missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv

from bench.child import ROOT, SCRATCH

__all__ = ["PYTHON", "install"]

# Not inside bench/, where the checks of the project's files would include it.
_FOLDER = os.path.join(SCRATCH, "peers")
_REQUIREMENTS = os.path.join(ROOT, "bench", "requirements-peers.txt")
_OVERRIDES = os.path.join(ROOT, "bench", "overrides-peers.txt")
_UV = os.path.join(os.path.dirname(sys.executable), "uv")
_MARK = os.path.join(_FOLDER, ".installed")
PYTHON = os.path.join(_FOLDER, "bin", "python")


def install() -> None:
    """Create the environment, unless it exists for these requirements."""
    with open(_REQUIREMENTS, encoding="utf-8") as file:
        wanted = file.read()
    if _installed() == wanted:
        return
    print("installing the frameworks to compare with (about 450 MB)", flush=True)
    venv.create(_FOLDER, with_pip=not os.path.exists(_UV), clear=True)
    packages = [line for line in wanted.splitlines() if line and not line.startswith("#")]
    if not _add(*packages):
        for package in packages:
            if not _add(package):
                print(f"{package} cannot be installed here", file=sys.stderr)
    with open(_MARK, "w", encoding="utf-8") as file:
        file.write(wanted)


def _installed() -> str | None:
    try:
        with open(_MARK, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _add(*packages: str) -> bool:
    if os.path.exists(_UV):
        command = [_UV, "pip", "install", "--quiet", "--python", PYTHON, "--overrides", _OVERRIDES]
    else:
        command = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return subprocess.run([*command, *packages], check=False).returncode == 0


if __name__ == "__main__":
    install()
