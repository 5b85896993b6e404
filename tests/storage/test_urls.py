"""From a URL or a path to a store."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from holdfast import Holdfast
from holdfast.errors import UsageError
from holdfast.storage import FileStore, MemoryStore, NoStore, open_store, shown_url


def test_names_of_backends():
    """Each backend has its scheme; memory is a new one each time unless it has a name."""
    assert isinstance(open_store("none:"), NoStore)
    assert isinstance(open_store("memory:"), MemoryStore)
    assert open_store("memory:") is not open_store("memory:")
    assert open_store("memory:named") is open_store("memory:named")


def test_files(tmp_path):
    """A path and its URL are the same store, also with spaces and percent signs in it."""
    path = tmp_path / "a place" / "50%"
    assert open_store(path).path == str(path)
    assert open_store(str(path)).path == str(path)
    assert open_store(FileStore(path).url).path == str(path)
    assert open_store(f"file://localhost{tmp_path}").path == str(tmp_path)


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_one_slash_too_many_is_the_same_place(tmp_path, scheme):
    """An absolute path put after three slashes names the file, and its address is read back."""
    path = tmp_path / "50%41 done?"
    store = open_store(f"{scheme}:///{quote(str(path))}")
    assert store.path == str(path)
    assert open_store(store.url).path == str(path)
    with Holdfast(store) as hf:
        with hf.session("a") as s:
            s.user("Alice")
        assert hf.reindex().sessions == 1
        assert hf.search("Alice")


@pytest.mark.parametrize("url", ["ftp://x", "File:///x", "MEMORY:", "file://host/x", "file:x", "", "a\0b"])
def test_wrong_addresses(url):
    """An address that no backend serves is a usage error that names the ones there are."""
    with pytest.raises(UsageError):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@db:5432/x?password=y", "postgresql://me@db:5432/x"),
        ("postgresql://db/x", "postgresql://db/x"),
        ("postgresql://me:sec/r@et@db:5432/x", "postgresql://me@db:5432/x"),
        ("sqlite:///home/a:b@c/x.db", "sqlite:///home/a:b@c/x.db"),
        ("s3://bucket/a/b?secret_access_key=z", "s3://bucket/a/b"),
        ("memory:", "memory:"),
        ("file:///a%20b", "file:///a%20b"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url, shown):
    """What people see has neither a password nor options in it."""
    assert shown_url(url) == shown


def test_an_installed_package_brings_a_store_of_its_own(monkeypatch):
    """The scheme of an address is looked for among entry points."""

    class Point:
        name = "shelf"

        def load(self):
            return lambda url: MemoryStore() if url == "shelf:x" else url

    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Point()])
    assert isinstance(open_store("shelf:x"), MemoryStore)
    with pytest.raises(UsageError, match="not a Store"):
        open_store("shelf:wrong")
    with pytest.raises(UsageError, match="no store serves 'other'"):
        open_store("other:x")
