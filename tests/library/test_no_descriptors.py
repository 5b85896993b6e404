"""A process that may open no more files: what it is told."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import os, resource, sys, holdfast
    from holdfast.errors import Unavailable

    hf = holdfast.open(sys.argv[1])
    with hf.session("a") as s:
        s.user("x")
    s = hf.session("a")
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    kept = []
    try:
        while True:
            kept.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    verbs = {
        "verify": lambda: hf.verify("a"),
        "export": lambda: hf.export("a", "markdown"),
        "list": lambda: hf.list(),
        "search": lambda: hf.search("x"),
        "session": lambda: hf.session("b"),
    }
    try:
        verbs[sys.argv[2]]()
        said = "nothing"
    except Unavailable as error:
        said = "told" if "ulimit" in error.remedy else error.remedy
    for one in kept:
        os.close(one)
    verbs[sys.argv[2]]()
    hf.close()
    print(said)
"""


@pytest.mark.parametrize("verb", ["verify", "export", "list", "search", "session"])
def test_with_no_descriptor_left_a_remedy_is_told(tmp_path, verb):
    """It is Unavailable, which names the limit of open files, and with descriptors again it works."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path / "store"), verb]
    done = subprocess.run(command, capture_output=True, timeout=120, check=False, text=True)
    assert (done.stdout.strip(), done.stderr) == ("told", "")
