"""Archives: a zip file as the folder it contains, once its table of contents has been checked."""

from __future__ import annotations

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import msgspec

from holdfast.errors import Damaged, InvalidData, TooLarge, TooNew
from holdfast.formats._file import FILLS_A_DISK, Bounds, File, check_name, decode_document
from holdfast.formats._source import Source
from holdfast.model import FORMAT_VERSION, VERSION, check_id

_MARK = b"PK\x03\x04"
_END = struct.Struct("<4s4H2LH")
_END_MARK = b"PK\x05\x06"
_COMMENT_BYTES_MAX = 65_535
_SYMLINK = 0o120000
_KIND = 0o170000
_ENCRYPTED = 0x1
_MANIFEST = "manifest.json"
_BUNDLE = "holdfast-bundle"


class _ZipMember:
    """One file of an archive, expanded when it is read."""

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        self._archive = archive
        self._info = info
        self.size = info.file_size
        self.modified = 0

    def chunks(self, chunk_bytes: int) -> Iterator[bytes]:
        """Yield the bytes, at most as many as the table of contents says. Raises InvalidData."""
        try:
            with self._archive.open(self._info) as member:
                while chunk := member.read(chunk_bytes):
                    yield chunk
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
            raise InvalidData(f"{self._info.filename[:80]!a} is damaged: {error}") from error
        except Exception as error:  # zlib and lzma have errors of their own
            raise InvalidData(f"{self._info.filename[:80]!a} cannot be expanded: {error}") from error


def is_zip(source: Source) -> bool:
    """Return whether the source is one file, and a zip archive."""
    return source.is_file and source.head(source.name, len(_MARK)) == _MARK


def holds_bundle(archive: Source) -> bool:
    """Return whether an opened archive is a bundle of Holdfast's own."""
    is_named = not archive.is_file and _MANIFEST in archive.names(_MANIFEST)
    return is_named and f'"{_BUNDLE}"'.encode() in archive.head(_MANIFEST)


def open_archive(source: Source) -> Source:
    """Return the folder in a zip archive; any other source unchanged.

    Every bound is checked by the table of contents before anything is expanded, and a member gives no more than its
    stated size. Archives inside archives are not opened. Raises TooLarge and InvalidData.
    """
    if not is_zip(source):
        return source
    _check_directory(source.tail(source.name, _END.size + _COMMENT_BYTES_MAX), source.bounds)
    data = source.read(source.name, source.bounds.archive_bytes_max)
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, struct.error, OSError) as error:
        raise InvalidData(f"{source.name} is not a whole zip archive: {error}") from error
    # Readable files: no symlinks, and none that is encrypted.
    files: dict[str, File] = {
        check_name(info.filename): _ZipMember(archive, info)
        for info in archive.infolist()
        if not (info.is_dir() or info.external_attr >> 16 & _KIND == _SYMLINK or info.flag_bits & _ENCRYPTED)
    }
    _check_sizes(archive.infolist(), source.bounds)
    return Source(source.name, files, folder=source.folder, bounds=source.bounds)


def _check_directory(tail: bytes, bounds: Bounds) -> None:
    """Bound the table of contents before it is read: each entry of it becomes an object."""
    # As `zipfile` does: the last of the marks counts, whatever is before it.
    start = tail.rfind(_END_MARK)
    if start < 0 or len(tail) - start < _END.size:
        raise InvalidData("the zip archive ends too soon")
    _, _, _, _, count, size, _, _ = _END.unpack_from(tail, start)
    if size > bounds.directory_bytes_max or count > bounds.files_max:
        told = f"the archive holds more than {bounds.files_max:,} files"
        raise TooLarge(told, remedy="Expand it yourself, and import what is needed.", limit="files_max")


def _check_sizes(infos: list[zipfile.ZipInfo], bounds: Bounds) -> None:
    if len(infos) > bounds.files_max:
        raise TooLarge(f"the archive holds more than {bounds.files_max:,} files")
    if sum(info.file_size for info in infos) > bounds.log_bytes_max:
        raise TooLarge(f"the archive becomes larger than {bounds.log_bytes_max:,} bytes")
    for info in infos:
        if _explodes(info, bounds):
            told = f"{info.filename[:80]!a} becomes more than {bounds.ratio_max} times as large"
            raise TooLarge(told, remedy=FILLS_A_DISK, limit="ratio_max")


def _explodes(info: zipfile.ZipInfo, bounds: Bounds) -> bool:
    """Return whether a member itself says that it becomes absurdly large."""
    size = info.file_size
    return size > bounds.ratio_free_bytes and size > info.compress_size * bounds.ratio_max


# The portable bundle: a session in one file, for a Holdfast that does not trust it.
# A bundle is a zip archive. ``manifest.json`` names every other member with its size and SHA-256;
# ``sessions/<id>/events.jsonl`` is the log byte for byte, beside the session's documents under their own names:
# snapshots, blobs, and others. The same session gives the same bytes. A sealed bundle is the same archive encrypted
# with a passphrase.
# Reading trusts no claim of the archive: names, sizes and checksums are checked before a byte is handed on, and
# expansion stops at the stated size.
BUNDLE_VERSION = 1
_LOG = "events.jsonl"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can say
_MODE = 0o100600 << 16
_LEVEL = 6
_LEVEL_TRIAL = 1
# A reader refuses data beyond its bound, so a member near it is stored uncompressed.
_RATIO_MAX = 50
_ZIP_MARKS = (_MARK, _END_MARK)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class _ManifestMember(msgspec.Struct, forbid_unknown_fields=False):
    name: str
    bytes: int
    sha256: str


class _Entry(msgspec.Struct):
    id: str


class _Manifest(msgspec.Struct):
    format: str
    version: int
    sessions: list[_Entry]
    members: list[_ManifestMember]
    writer: str = ""
    log_format: int = 0


class BundledSession:
    """One session in a bundle. Its data was checked against the manifest."""

    def __init__(self, id: str, bundle: Bundle, names: Iterable[str]) -> None:
        self.id = id
        self._bundle = bundle
        self._prefix = f"sessions/{id}/"
        own = {name.removeprefix(self._prefix) for name in names if name.startswith(self._prefix)}
        if _LOG not in own:
            raise Damaged(f"the bundle has no log for session {id}", session_id=id)
        self.documents = sorted(own - {_LOG})

    def log(self) -> bytes:
        return self._bundle.member(self._prefix + _LOG)

    def document(self, name: str) -> bytes:
        return self._bundle.member(self._prefix + name)


class Bundle:
    """An opened bundle: its sessions, and members that verify."""

    def __init__(self, archive: zipfile.ZipFile, manifest: _Manifest) -> None:
        self._archive = archive
        self._members = {member.name: member for member in manifest.members}
        self.writer = manifest.writer
        self.sessions = [BundledSession(check_id(entry.id), self, self._members) for entry in manifest.sessions]

    def member(self, name: str) -> bytes:
        """Return the bytes of a member. Raises Damaged if they do not match the manifest."""
        known = self._members[name]
        data = _expand(self._archive, name, known.bytes)
        if len(data) != known.bytes or hashlib.sha256(data).hexdigest() != known.sha256:
            told = f"{name} in the bundle is not what its checksum says"
            raise Damaged(told, remedy="Get the bundle again from where it was made; nothing of it was kept.")
        return data


def is_bundle(head: bytes) -> bool:
    """Return whether bytes begin like an archive; a sealed one has to be opened first."""
    return head.startswith(_ZIP_MARKS)


def write_bundle(
    id: str, log: Callable[[], Iterator[bytes]], documents: Mapping[str, Callable[[], bytes]]
) -> Iterator[bytes]:
    """Yield the bundle of a session, piece by piece; the manifest comes last, once all is known."""
    sink = _Sink()
    members: list[_ManifestMember] = []
    with zipfile.ZipFile(sink, "w", allowZip64=True) as archive:
        for name in (_LOG, *sorted(documents)):
            read = log if name == _LOG else partial(_once, documents[name])
            with _Adding(archive, f"sessions/{id}/{name}", _method(read)) as adding:
                for chunk in read():
                    adding.write(chunk)
                    yield sink.take()
            members.append(adding.member)
            yield sink.take()
        manifest = _Manifest(_BUNDLE, BUNDLE_VERSION, [_Entry(id)], members, VERSION, FORMAT_VERSION)
        with _Adding(archive, _MANIFEST) as adding:
            adding.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
    yield sink.take()


def read_bundle(data: bytes, bounds: Bounds | None = None) -> Bundle:
    """Return an opened bundle. Raises InvalidData, Damaged, TooLarge or TooNew; expands nothing yet."""
    bounds = bounds or Bounds()
    if not is_bundle(data[:4]):
        raise _refused("this is not a bundle: it does not begin like one")
    # The table of contents is bounded before the library reads all of it into memory: each entry of it begins so. A
    # payload may too, which only makes the count larger.
    entries = data.count(b"PK\x01\x02")
    if entries > bounds.files_max + 1:
        raise _too_large("files_max", bounds.files_max, entries)
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError) as error:
        raise Damaged("the bundle is not whole: its table of contents cannot be read") from error
    infos = archive.infolist()
    _check_members(infos, bounds)
    manifest = _read_manifest(archive, bounds)
    _compare(manifest, {info.filename: info for info in infos})
    return Bundle(archive, manifest)


def _once(read: Callable[[], bytes]) -> Iterator[bytes]:
    yield read()


def _method(read: Callable[[], Iterator[bytes]]) -> int:
    """Return how to pack a member: compressed, unless it would look like a zip bomb."""
    # Only a trial tells: the method must be known before the member is begun.
    trial = zlib.compressobj(_LEVEL_TRIAL)
    size = packed = 0
    for chunk in read():
        size += len(chunk)
        packed += len(trial.compress(chunk))
    packed += len(trial.flush())
    return zipfile.ZIP_STORED if size > packed * _RATIO_MAX else zipfile.ZIP_DEFLATED


class _Sink(io.RawIOBase):
    """The target of the archive: bytes wait here until they are taken."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting = bytearray()
        self._count = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._count

    def write(self, data: Any) -> int:
        self._waiting += data
        self._count += len(data)
        return len(data)

    def take(self) -> bytes:
        taken, self._waiting = bytes(self._waiting), bytearray()
        return taken


class _Adding(AbstractContextManager["_Adding"]):
    """One member while it is written, with its size and checksum."""

    def __init__(self, archive: zipfile.ZipFile, name: str, method: int = zipfile.ZIP_DEFLATED) -> None:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type = method
        info._compresslevel = _LEVEL  # type: ignore[attr-defined]  # noqa: SLF001 - public from 3.13
        info.external_attr = _MODE
        # As on Unix, wherever it is written: the same session gives the same bytes.
        info.create_system = 3
        self._name = name
        self._hash = hashlib.sha256()
        self._bytes = 0
        self._file = archive.open(info, "w", force_zip64=True)

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self._bytes += len(data)

    @property
    def member(self) -> _ManifestMember:
        return _ManifestMember(self._name, self._bytes, self._hash.hexdigest())


def _check_members(infos: list[zipfile.ZipInfo], bounds: Bounds) -> None:
    """Check names, kinds and stated sizes, before anything is expanded."""
    seen: set[str] = set()
    total = 0
    for info in infos:
        name = check_name(info.filename)
        # On a case-insensitive disk the second would replace the first.
        if name.lower() in seen:
            raise _refused(f"{name[:80]!a} is in the bundle twice")
        seen.add(name.lower())
        if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
            raise _refused(f"{name[:80]!a} is packed in a way that bundles are not")
        limit = bounds.log_bytes_max if name.endswith("/" + _LOG) else bounds.database_bytes_max
        if info.file_size > limit:
            raise _too_large(name[:80], limit, info.file_size)
        if _explodes(info, bounds):
            told = f"{name[:80]!a} would grow more than {bounds.ratio_max} times when unpacked"
            raise TooLarge(told, remedy="It was made to fill memory; nothing of it was unpacked.")
        total += info.file_size
    if total > bounds.log_bytes_max * 2:
        raise _too_large("the bundle", bounds.log_bytes_max * 2, total)


def _read_manifest(archive: zipfile.ZipFile, bounds: Bounds) -> _Manifest:
    try:
        size = archive.getinfo(_MANIFEST).file_size
    except KeyError:
        raise _refused("this archive is not a bundle: it has no manifest") from None
    value = decode_document(_expand(archive, _MANIFEST, size), bounds)
    if not isinstance(value, dict) or value.get("format") != _BUNDLE:
        raise _refused("this archive is not a bundle: its manifest is another one")
    version = value.get("version")
    if not isinstance(version, int) or version > BUNDLE_VERSION:
        raise TooNew(f"the bundle is of version {version!r:.20}; this Holdfast reads 1")
    try:
        return msgspec.convert(value, _Manifest)
    except msgspec.ValidationError as error:
        raise _refused(f"the manifest of the bundle is not well-formed: {error}") from error


def _compare(manifest: _Manifest, infos: dict[str, zipfile.ZipInfo]) -> None:
    """Check that the manifest names exactly the members."""
    named = {member.name for member in manifest.members}
    if len(named) != len(manifest.members) or named != infos.keys() - {_MANIFEST}:
        odd = sorted(named ^ (infos.keys() - {_MANIFEST}))[:1]
        raise Damaged(f"the bundle and its manifest do not name the same members: {odd!a}")
    homes = tuple(f"sessions/{entry.id}/" for entry in manifest.sessions)
    for member in manifest.members:
        if infos[member.name].file_size != member.bytes:
            raise Damaged(f"{member.name[:80]!a} is not as long as the manifest says")
        if not member.name.startswith(homes):
            raise _refused(f"{member.name[:80]!a} belongs to no session of the bundle")


def _expand(archive: zipfile.ZipFile, name: str, size: int) -> bytes:
    """Return at most ``size`` bytes of a member, whatever its compressed bytes would give."""
    try:
        with archive.open(name) as member:
            # One byte more than stated is enough to see that it lies.
            data = member.read(size + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise Damaged(f"{name[:80]!a} in the bundle cannot be unpacked: {error}") from error
    if len(data) > size:
        raise Damaged(f"{name[:80]!a} in the bundle is longer than it says")
    return data


def _refused(why: str) -> InvalidData:
    return InvalidData(why, remedy="Get the bundle again from where it was made.")


def _too_large(what: str, most: int, size: int) -> TooLarge:
    return TooLarge(
        f"{what} has {size:,} where at most {most:,} are unpacked",
        remedy="Nothing was unpacked; is the bundle from a place that you trust?",
        needed_bytes=size,
    )
