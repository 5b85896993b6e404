"""Archives: a zip file as the folder that it holds, once its table of contents is believable."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator

from holdfast.errors import InvalidData, TooLarge
from holdfast.formats._bounds import Bounds, check_name
from holdfast.formats._file import File
from holdfast.formats._source import Source

_MANIFEST = "manifest.json"
_BUNDLE = b'"holdfast-bundle"'
_MARK = b"PK\x03\x04"
_END = struct.Struct("<4s4H2LH")
_END_MARK = b"PK\x05\x06"
_COMMENT_BYTES_MAX = 65_535
_SYMLINK = 0o120000
_KIND = 0o170000
_ENCRYPTED = 1


class _Member:
    """One file of an archive, expanded when it is read."""

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        self._archive = archive
        self._info = info
        self.size = info.file_size
        self.modified = 0

    def chunks(self, chunk_bytes: int) -> Iterator[bytes]:
        """The bytes, at most as many as the table of contents says. Raises InvalidData."""
        try:
            with self._archive.open(self._info) as member:
                while chunk := member.read(chunk_bytes):
                    yield chunk
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
            raise InvalidData(f"{self._info.filename[:80]!a} is damaged: {error}") from error
        except Exception as error:  # zlib and lzma have errors of their own
            raise InvalidData(
                f"{self._info.filename[:80]!a} cannot be expanded: {error}"
            ) from error


def is_zip(source: Source) -> bool:
    """Whether the source is one file, and a zip archive."""
    return source.is_file and source.head(source.name, len(_MARK)) == _MARK


def holds_bundle(archive: Source) -> bool:
    """Whether an archive that was opened is a bundle of Holdfast's own."""
    return (
        not archive.is_file
        and _MANIFEST in archive.names(_MANIFEST)
        and _BUNDLE in archive.head(_MANIFEST)
    )


def open_archive(source: Source) -> Source:
    """The folder in a zip archive; any other source as it is.

    Every bound is checked by the table of contents before anything is expanded, and a member gives
    no more than it is said to have. Archives inside of archives are not opened. Raises TooLarge and
    InvalidData.
    """
    if not is_zip(source):
        return source
    _check_directory(source.tail(source.name, _END.size + _COMMENT_BYTES_MAX), source.bounds)
    data = source.read(source.name, source.bounds.archive_bytes_max)
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except (zipfile.BadZipFile, ValueError, struct.error, OSError) as error:
        raise InvalidData(f"{source.name} is not a whole zip archive: {error}") from error
    files: dict[str, File] = {
        check_name(info.filename): _Member(archive, info)
        for info in archive.infolist()
        if not info.is_dir() and _is_plain(info)
    }
    _check_sizes(archive.infolist(), source.bounds)
    return Source(source.name, files, folder=source.folder, bounds=source.bounds)


def _check_directory(tail: bytes, bounds: Bounds) -> None:
    """Bound the table of contents before it is read: each entry of it becomes an object."""
    start = tail.rfind(_END_MARK)
    if start < 0 or len(tail) - start < _END.size:
        raise InvalidData("the zip archive ends too soon")
    _, _, _, _, count, size, _, _ = _END.unpack_from(tail, start)
    if size > bounds.directory_bytes_max or count > bounds.files_max:
        raise TooLarge(
            f"the archive holds more than {bounds.files_max:,} files",
            remedy="Expand it yourself, and import what is needed.",
            limit="files_max",
        )


def _check_sizes(infos: list[zipfile.ZipInfo], bounds: Bounds) -> None:
    if len(infos) > bounds.files_max:
        raise TooLarge(f"the archive holds more than {bounds.files_max:,} files")
    if sum(info.file_size for info in infos) > bounds.log_bytes_max:
        raise TooLarge(f"the archive becomes larger than {bounds.log_bytes_max:,} bytes")
    for info in infos:
        large = info.file_size > bounds.ratio_free_bytes
        if large and info.file_size > info.compress_size * bounds.ratio_max:
            raise TooLarge(
                f"{info.filename[:80]!a} becomes more than {bounds.ratio_max} times as large",
                remedy="Such a file is made to fill a disk; nothing of it was kept.",
                limit="ratio_max",
            )


def _is_plain(info: zipfile.ZipInfo) -> bool:
    """Whether an entry is a file that can be read: no symlink, and not encrypted."""
    return (info.external_attr >> 16) & _KIND != _SYMLINK and not info.flag_bits & _ENCRYPTED
