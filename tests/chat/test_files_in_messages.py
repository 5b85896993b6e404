"""Files that a message names with an at sign: found while one types, and taken along."""

from __future__ import annotations

import subprocess

import pytest

from holdfast.apps.cli._chat import with_files
from holdfast.apps.cli._prompt import ProjectFiles


@pytest.fixture
def project(own_place):
    """A repository with files in folders, and some that git ignores."""
    (own_place / ".git").rmdir()
    subprocess.run(["git", "init", "-q"], check=True, timeout=60)
    for name in ("src/deep/main_module.py", "node_modules/main.js", "build.log", "my notes.txt", "maintenance.md"):
        (own_place / name).parent.mkdir(parents=True, exist_ok=True)
        (own_place / name).write_text(f"the text of {name}\n")
    (own_place / ".gitignore").write_text("node_modules/\n*.log\n")
    return own_place


def test_files_of_the_project_are_found_by_some_of_their_letters(project):
    """The whole tree is offered, the best name first, without what git ignores and what lies in .git."""
    files = ProjectFiles()
    assert files.matching("") == [".gitignore", "maintenance.md", "my notes.txt", "src/deep/main_module.py"]
    assert files.matching("mamod") == ["src/deep/main_module.py"]
    assert files.matching("MAI") == ["maintenance.md", "src/deep/main_module.py"]
    assert files.matching("config") == []


def test_files_are_found_without_git(project, monkeypatch):
    """Where git cannot be asked, the folders are walked, without hidden ones and those of packages."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert ProjectFiles().matching("main") == ["maintenance.md", "src/deep/main_module.py"]


def test_a_file_in_a_sentence_is_taken_along(project):
    """A name may be quoted, and may be followed by the marks of a sentence."""
    [_, first, second] = with_files('What say @maintenance.md, and "this" (@"my notes.txt")? And @nobody?') or []
    assert first["text"].startswith("maintenance.md:\nthe text of maintenance.md")
    assert second["text"].startswith("my notes.txt:\nthe text of my notes.txt")
