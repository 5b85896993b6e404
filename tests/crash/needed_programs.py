"""Programs that some tests need: got from the distribution where that is possible."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

_WAIT_S = 180


@cache
def why_missing(program, package):
    """Why a program cannot be had on this machine; None once it is there."""
    if shutil.which(program) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        _install(package)
    if shutil.which(program) is None:
        return f"{program} is missing (Debian package {package})"
    return None


def _install(package):
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["install"], ["update"], ["install"]):
        command = ["apt-get", "-qq", "-y", "--no-install-recommends", *arguments]
        if arguments == ["install"]:
            command.append(package)
        try:
            done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=_WAIT_S)
        except subprocess.TimeoutExpired:
            return
        if arguments == ["install"] and done.returncode == 0:
            return
