"""Sources: what is imported, read lazily and within bounds."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import sqlite3
import struct
import zipfile

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast import storage
from holdfast.errors import InvalidData, NotFound, TooLarge
from holdfast.formats import Bounds, MemoryFile, Source, open_archive
from holdfast.formats._file import check_name, decode_document

SMALL = Bounds(
    document_bytes_max=1_000,
    line_bytes_max=100,
    log_bytes_max=2_000,
    lines_max=50,
    values_max=20,
    depth_max=5,
    ratio_max=10,
    ratio_free_bytes=2_000,
    files_max=3,
    directory_bytes_max=1_000,
)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


def zipped(**files):
    """A zip archive."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return sink.getvalue()


def test_a_folder_and_its_parts():
    """Names, folders and files below; a file reaches what lies beside it, and nothing else."""
    files = {"a/one.json": b"1", "a/b/two.json": b"2", "top.txt": b"3"}
    source = Source("root", files)
    assert source.names() == ["a/b/two.json", "a/one.json", "top.txt"]
    assert source.names(".json") == ["a/b/two.json", "a/one.json"]
    assert [child.name for child in source.children()] == ["a", "top.txt"]
    below = source.below("a")
    assert (below.name, below.folder, below.names()) == ("a", "root", ["b/two.json", "one.json"])
    one = below.only("one.json")
    assert (one.name, one.folder, one.is_file) == ("one.json", "a", True)
    assert one.names() == ["one.json"]
    assert one.has("b/two.json")
    assert not one.has("top.txt")
    assert one.only("one.json") is one
    with pytest.raises(NotFound):
        one.read("nowhere")
    with pytest.raises(InvalidData):
        one.has("../top.txt")


def test_what_was_read_is_known_to_all_parts():
    """A file that was read as a part of something is not offered again; one looked at is."""
    source = Source("root", {"a/x.json": b"{}", "a/y.json": b"{}", "z.json": b"{}"})
    part = source.below("a").only("x.json")
    assert part.glimpse("x.json") == {}
    assert part.head("x.json") == b"{}"
    assert not part.is_used()
    assert part.json("x.json") == {}
    assert source.below("a").only("x.json").is_used()
    assert not source.below("a").is_used()
    part.read("y.json")
    assert source.below("a").is_used()
    assert not source.is_used()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress])
def test_compressed_files_read_as_plain_ones(pack):
    """Gzip and zstd are seen by their first bytes, whatever the name, in several frames too."""
    data = pack(b'{"a": 1}\n') + pack(b'{"b": 2}\n')
    source = Source.of_bytes("x", data)
    assert source.read("x") == b'{"a": 1}\n{"b": 2}\n'
    assert source.head("x", 4) == b'{"a"'
    assert source.first("x") == {"a": 1}
    assert list(source.lines("x")) == [b'{"a": 1}', b'{"b": 2}']
    assert source.glimpse("x") is None  # two values are no document
    source.check()


def test_padding_after_gzip():
    """Zeros after the last member, as tapes leave them, are no damage."""
    assert Source.of_bytes("x", gzip.compress(b"a") + bytes(30)).read("x") == b"a"


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_stream_that_is_cut_short_gives_what_is_whole(pack):
    """Lines before the break come, and the break is told."""
    lines = b"".join(b"line %d\n" % (number * 7919) for number in range(50_000))
    source = Source.of_bytes("x", pack(lines)[:-20])
    problems = []
    found = list(source.lines("x", problems))
    assert found[:2] == [b"line 0", b"line 7919"]
    assert len(problems) == 1
    with pytest.raises(InvalidData):
        source.read("x")
    with pytest.raises(InvalidData):
        source.check()


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
@pytest.mark.parametrize("damage", [slice(10, 14), slice(-4, None)])
def test_a_damaged_stream(pack, damage):
    """Bytes that do not expand are told as such."""
    data = bytearray(pack(bytes(range(256)) * 20))
    data[damage] = b"\xff\xff\xff\xff"
    with pytest.raises(InvalidData):
        Source.of_bytes("x", bytes(data)).read("x")


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_bomb_is_given_up_early(pack):
    """What grows beyond the ratio is refused, and short repetitive logs are not."""
    source = Source.of_bytes("x", pack(bytes(50_000)), SMALL)
    for read in (source.read, lambda name: list(source.lines(name)), lambda _: source.check()):
        with pytest.raises(TooLarge):
            read("x")
    assert Source.of_bytes("x", pack(b"a\n" * 40), SMALL).read("x") == b"a\n" * 40


def test_the_refusal_is_remembered():
    """Looking never raises; why a file could not be looked at is kept."""
    source = Source.of_bytes("x", gzip.compress(b"{" + bytes(50_000)), SMALL)
    assert source.glimpse("x") is None
    assert isinstance(source.refusal, TooLarge)
    assert Source.of_bytes("x", b"plain").refusal is None


def test_documents_are_bounded():
    """Size, number of values and depth are checked before a document is read."""
    for data in (b" " * 1_001, b"[" + b"1," * 30 + b"1]"):
        with pytest.raises(TooLarge):
            decode_document(data, SMALL)
    for data in (b"[" * 6 + b"]" * 6, b'{"a":' * 6 + b"1" + b"}" * 6, b"{", b"9" * 5_000 * 0 + b"[1,]"):
        with pytest.raises(InvalidData):
            decode_document(data, SMALL)
    with pytest.raises(TooLarge):
        Source.of_bytes("x", b" " * 1_001, SMALL).read("x")


def test_punctuation_in_strings_does_not_count():
    """A text full of brackets and commas is one value, however long it is."""
    text = '{[,"\\' * 100_000
    assert decode_document(json.dumps([text, text]).encode(), Bounds(values_max=10, depth_max=3)) == [text, text]


@given(
    st.recursive(
        st.none() | st.text() | st.integers(-5, 5), lambda c: st.lists(c) | st.dictionaries(st.text(), c), max_leaves=30
    )
)
def test_the_bound_on_depth_is_exact(value):
    """A document is taken if and only if its nesting is within the bound."""

    def depth(item):
        if isinstance(item, (list, dict)):
            inner = item.values() if isinstance(item, dict) else item
            return 1 + max(map(depth, inner), default=0)
        return 0

    data = json.dumps(value).encode()
    for most in (1, 2, 3):
        bounds = Bounds(depth_max=most)
        if depth(value) <= most:
            assert decode_document(data, bounds) == value
        elif data.count(b"[") + data.count(b"{") > most:
            with pytest.raises(InvalidData):
                decode_document(data, bounds)


@pytest.mark.parametrize(
    ("data", "value"),
    [(b'["\\ud800"]', ["\ud800"]), (b'["a\xffb"]', ["a\ufffdb"]), (b'{"n": 1e999}', {"n": float("inf")})],
)
def test_what_tools_really_write(data, value):
    """Half a surrogate, bytes that are no UTF-8 and endless numbers are read all the same."""
    assert decode_document(data, Bounds()) == value


@pytest.mark.parametrize("digits", [4_301, 100_000])
def test_endless_integers(digits):
    """A number that Python would not print is refused, quickly."""
    with pytest.raises(InvalidData):
        decode_document(b"[" + b"9" * digits + b"]", Bounds())


def test_lines_are_bounded():
    """A line that is too long ends the log; too many of them are refused at once."""
    source = Source.of_bytes("x", b"one\n" + b"a" * 200 + b"\ntwo", SMALL)
    problems = []
    assert [*source.lines("x", problems)] == [b"one"]
    assert "100 bytes" in problems[0]
    with pytest.raises(TooLarge):
        list(source.lines("x"))
    with pytest.raises(TooLarge):
        list(Source.of_bytes("x", b"a\n" * 51, SMALL).lines("x", []))
    many = Source.of_bytes("x", b"abcdefghi\n" * 10, Bounds(log_bytes_max=50))
    assert list(many.lines("x", problems)) == []


def test_values_of_lines():
    """Lines that are no JSON are told by their number, and the rest comes."""
    problems = []
    source = Source.of_bytes("x", b'{"a":1}\nnope\n\n  [2]  \n{"torn":')
    assert [value for _, value in source.values("x", problems)] == [{"a": 1}, [2]]
    assert [text.split(":")[1] for text in problems] == [" line 2 was left out", " line 4 was left out"]


def test_facts_of_files():
    """Size, time and digest are those of the files as they are."""
    source = Source("x", {"a": MemoryFile(b"abc", 5), "b": MemoryFile(b"", 9)})
    assert (source.size("a"), source.only("a").newest(), source.newest()) == (3, 5, 9)
    assert len(source.digest() or "") == 64
    one = source.only("a")
    assert one.digest() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_remembering():
    """What was made for a file is made once, and forgotten when there is too much of it."""
    source, made = Source("x", {}), []
    for name in ["a", "a", *map(str, range(40)), "a"]:
        source.remember("size", name, lambda name=name: made.append(name) or len(name))
    assert made.count("a") == 2
    assert source.remember("size", "a", lambda: 7) == 1


def test_databases(tmp_path):
    """A SQLite file is read from a copy, with its write-ahead log, and can only be read."""
    path = tmp_path / "tool.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE said (id INTEGER, text TEXT)")
    connection.executemany("INSERT INTO said VALUES (?, ?)", [(n, f"word {n}") for n in range(500)])
    connection.commit()
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir() if "shm" not in path.name}
    with Source("x", files).database("tool.db") as database:
        assert database.tables() == {"said": ("id", "text")}
        rows = list(database.rows("SELECT * FROM said WHERE id > ?", 497))
        assert rows == [{"id": 498, "text": "word 498"}, {"id": 499, "text": "word 499"}]
        with pytest.raises(InvalidData):
            list(database.rows("DELETE FROM said"))
        with pytest.raises(InvalidData):
            list(database.rows(f"{ENDLESS} SELECT count(*) FROM n"))
    connection.close()
    with pytest.raises(InvalidData):
        Source.of_bytes("x.db", b"SQLite format 3\0" + bytes(500)).database("x.db")


def test_a_log_of_a_database_that_is_torn(tmp_path):
    """Of a write-ahead log everything up to the last whole commit counts."""
    path = tmp_path / "tool.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE said (id INTEGER)")
    connection.commit()
    whole = (tmp_path / "tool.db-wal").read_bytes()
    connection.execute("INSERT INTO said VALUES (1)")
    connection.commit()
    grown = (tmp_path / "tool.db-wal").read_bytes()
    for wal, count in [(whole, 0), (grown[:-1], 0), (grown, 1), (grown + b"x" * 5_000, 1)]:
        source = Source("x", {"tool.db": path.read_bytes(), "tool.db-wal": wal})
        with source.database("tool.db") as database:
            assert next(database.rows("SELECT count(*) AS n FROM said"))["n"] == count
    for wal in (b"", b"short", b"\x37\x7f\x06\x82" + bytes(28), bytes(4_200)):
        source = Source("x", {"tool.db": path.read_bytes(), "tool.db-wal": wal})
        with source.database("tool.db") as database:
            assert database.tables() == {}
    connection.close()


def test_archives_are_folders():
    """A zip file reads as the folder in it, without its symlinks."""
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    sink = io.BytesIO(zipped(**{"a/x.json": b"{}", "b.txt": b"b"}))
    with zipfile.ZipFile(sink, "a") as archive:
        archive.writestr(link, "/etc/passwd")
        archive.mkdir("empty")
    opened = open_archive(Source.of_bytes("x.zip", sink.getvalue()))
    assert (opened.names(), opened.is_file) == (["a/x.json", "b.txt"], False)
    assert opened.json("a/x.json") == {}
    plain = Source.of_bytes("x", b"plain")
    assert open_archive(plain) is plain


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "C:/x", "a\\..\\x", "a//b", "./a", ""])
def test_names_that_lead_outside(name):
    """Absolute ones, traversal, drives and backslashes are refused."""
    with pytest.raises(InvalidData):
        check_name(name)
    if name:
        with pytest.raises(InvalidData):
            open_archive(Source.of_bytes("x.zip", zipped(**{name: b"x"})))


def test_archives_are_bounded():
    """Number, size and ratio are checked by the table of contents, before anything is expanded."""
    many = zipped(**{f"f{number}": b"" for number in range(5)})
    big = zipped(**{f"f{number}": bytes(range(256)) * 4 for number in range(3)})
    for data, bounds in [
        (many, SMALL),
        (zipped(f=bytes(50_000)), SMALL),
        (big, Bounds(log_bytes_max=3_000)),
        (many, Bounds(directory_bytes_max=100)),
    ]:
        with pytest.raises(TooLarge):
            open_archive(Source.of_bytes("x.zip", data, bounds))


def test_an_archive_whose_table_of_contents_lies():
    """A member gives no more than it was said to have, and a false count is not believed."""
    honest = zipped(f=bytes(range(256)) * 3)
    lying = bytearray(honest)
    struct.pack_into("<L", lying, lying.index(b"PK\x01\x02") + 24, 10)
    struct.pack_into("<L", lying, 22, 10)
    with pytest.raises(InvalidData):
        open_archive(Source.of_bytes("x.zip", bytes(lying))).read("f")
    many = bytearray(zipped(**{f"f{number}": b"" for number in range(5)}))
    end = many.rindex(b"PK\x05\x06")
    struct.pack_into("<2H", many, end + 8, 1, 1)
    with pytest.raises(TooLarge):
        open_archive(Source.of_bytes("x.zip", bytes(many), SMALL))


@pytest.mark.parametrize("cut", [30, 60, -5])
def test_an_archive_that_is_not_whole(cut):
    """A torn archive is refused."""
    with pytest.raises(InvalidData):
        open_archive(Source.of_bytes("x.zip", zipped(f=b"some words")[:cut]))


def test_a_byte_order_mark_is_no_content():
    """Files of some editors begin with one."""
    assert Source.of_bytes("x", b'\xef\xbb\xbf{"a": 1}').glimpse("x") == {"a": 1}
    source = Source.of_bytes("x", b'\xef\xbb\xbf{"a": 1}\n{"b": 2}')
    assert source.first("x") == {"a": 1}
    assert [value for _, value in source.values("x", [])] == [{"a": 1}, {"b": 2}]


def test_an_archive_with_damaged_members():
    """A member that does not expand is told when it is read; a broken table, at once."""
    data = bytearray(zipped(f=bytes(range(256)) * 20))
    data[40:60] = bytes(20)
    with pytest.raises(InvalidData):
        open_archive(Source.of_bytes("x.zip", bytes(data))).read("f")
    broken = bytearray(zipped(f=b"words"))
    start = broken.index(b"PK\x01\x02")
    broken[start : start + 4] = b"XXXX"
    with pytest.raises(InvalidData):
        open_archive(Source.of_bytes("x.zip", bytes(broken)))


def test_an_archive_that_counts_fewer_than_it_holds():
    """The number of entries is that of the table, not the one that it claims."""
    bounds = Bounds(files_max=2)
    many = bytearray(zipped(a=b"", b=b"", c=b"", d=b""))
    end = many.rindex(b"PK\x05\x06")
    struct.pack_into("<2H", many, end + 8, 1, 1)
    with pytest.raises((TooLarge, InvalidData)):
        open_archive(Source.of_bytes("x.zip", bytes(many), bounds))


def test_archives_may_be_larger_than_documents():
    """An archive is bound by what it holds; a long one with a short table of contents is read."""
    words = random.Random(1).randbytes(3_000)
    data = zipped(f=words)
    bounds = Bounds(document_bytes_max=1_000, archive_bytes_max=10_000)
    opened = open_archive(Source.of_bytes("x.zip", data, bounds))
    assert opened.read("f", 5_000) == words
    with pytest.raises(TooLarge):
        open_archive(Source.of_bytes("x.zip", data, Bounds(archive_bytes_max=1_000)))
    assert Source.of_bytes("x", b"abc").tail("x", 2) == b"bc"


def test_a_database_is_opened_once_however_many_readers_look_at_it(tmp_path, monkeypatch):
    """Also where each level of folders is looked at: what its tables are does not change."""
    place = tmp_path / "theirs" / "deep"
    place.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(place / "unknown.db")) as database:
        database.execute("CREATE TABLE things (id)")
    copied = []
    really = storage.copy_database
    monkeypatch.setattr(storage, "copy_database", lambda *given: copied.append(1) or really(*given))
    with holdfast.open(tmp_path / "store") as hf:
        assert hf.import_all([tmp_path / "theirs"]).ids == []
    assert len(copied) == 1
