"""Bringing sessions in from other tools. A source is only ever read, and never trusted."""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from holdfast.errors import HoldfastError, InvalidData, UsageError
from holdfast.library._reading import Reading

if TYPE_CHECKING:
    from holdfast.formats import Bounds, Foreign, Reader, Source
    from holdfast.library._import_report import ImportReport

__all__ = ["Importing", "Place"]

Given = str | os.PathLike[str] | bytes | BinaryIO


class Place(msgspec.Struct, frozen=True):
    """Where a tool of this user keeps sessions."""

    tool: str
    path: str


class Importing(Reading):
    """What can be brought in."""

    def import_(self, path: Given, format: str = "auto") -> builtins.list[str]:
        """Bring in the sessions of a file, a folder, or bytes; their ids, the same every time.

        What is here already stays as it is; only what is new in the source is added. Raises
        InvalidData if no known tool wrote it, UsageError for an unknown format, and, after all
        others were brought in, what stopped one of them, such as Locked.
        """
        report = self.import_all([path], format)
        if report.errors:
            raise report.errors[0]
        return report.ids

    def import_all(
        self,
        paths: Iterable[Given],
        format: str = "auto",
        *,
        dry_run: bool = False,
        bounds: Bounds | None = None,
    ) -> ImportReport:
        """The same for several, with a report in place of errors. ``dry_run`` records nothing."""
        from holdfast.library._import_report import ImportReport, Skipped

        self._check_open()
        report = ImportReport()
        for path in paths:
            name = _name_of(path)
            try:
                source = _source(path, report, bounds)
                self._import_source(source, format, report, dry_run=dry_run)
            except UsageError:
                raise
            except HoldfastError as error:
                report.errors.append(error)
                report.skipped.append(Skipped(name, str(error)))
        return report

    def places(self, tool: str | None = None) -> builtins.list[Place]:
        """Where tools of this user keep sessions, as far as they are here."""
        from holdfast.library._scanning import find_places

        return find_places(tool)

    def _import_source(
        self, source: Source, format: str, report: ImportReport, *, dry_run: bool
    ) -> None:
        count = len(report.sessions)
        for reader, part in _claimed(source, format):
            self._import_part(reader, part, report, dry_run=dry_run)
        if len(report.sessions) == count and not report.errors:
            raise InvalidData(
                f"{source.name} holds no session of a tool that is known",
                remedy="Name the format if you know it: `holdfast import --format`.",
            )

    def _import_part(
        self, reader: Reader, source: Source, report: ImportReport, *, dry_run: bool
    ) -> None:
        from holdfast.library._bringing import Origin
        from holdfast.library._import_report import Skipped

        origin = Origin(source.name, source.digest(), source.newest())
        try:
            for foreign in reader.read(source):
                self._import_one(foreign, origin, report, dry_run=dry_run)
        except (HoldfastError, ValueError, TypeError, LookupError, AttributeError) as error:
            # Whatever a hostile file makes of a reader, the sessions of the others still come.
            known = isinstance(error, HoldfastError)
            told = (
                error if known else InvalidData(f"{source.name} could not be read: {error!r:.200}")
            )
            report.errors.append(told)  # type: ignore[arg-type]
            report.skipped.append(Skipped(source.name, str(told)))

    def _import_one(
        self, foreign: Foreign, origin: Any, report: ImportReport, *, dry_run: bool
    ) -> None:
        from holdfast.formats import session_id_of
        from holdfast.library._bringing import bring
        from holdfast.library._import_report import ImportedSession

        try:
            report.sessions.append(bring(self, foreign, origin, dry_run=dry_run))
        except HoldfastError as error:
            report.errors.append(error)
            report.sessions.append(
                ImportedSession(
                    session_id=session_id_of(foreign.tool, foreign.foreign_id),
                    tool=foreign.tool,
                    foreign_id=foreign.foreign_id,
                    outcome="failed",
                    source=origin.name,
                    title=foreign.title,
                    reason=str(error),
                )
            )


def _name_of(path: Given) -> str:
    if isinstance(path, bytes) or hasattr(path, "read"):
        return "bytes"
    return os.path.basename(os.fspath(path).rstrip("/")) or os.fspath(path)


def _source(path: Given, report: ImportReport, bounds: Bounds | None) -> Source:
    from holdfast.formats import Bounds, Source, open_archive
    from holdfast.library._import_report import Skipped
    from holdfast.storage import look_outside

    bounds = bounds or Bounds()
    if not isinstance(path, (str, os.PathLike)):
        data = path if isinstance(path, bytes) else path.read(bounds.document_bytes_max + 1)
        return open_archive(Source.of_bytes("bytes", data, bounds))
    found = look_outside(path, files_max=bounds.files_max, levels_max=bounds.levels_max)
    report.skipped += [Skipped(found.name, text) for text in found.passed_over]
    source = Source(
        found.name,
        found.files,
        is_file=found.is_file,
        beside=found.beside if found.is_file else None,
        folder=found.folder,
        bounds=bounds,
    )
    return open_archive(source)


def _claimed(
    source: Source, format: str, *, general: bool = True
) -> Iterator[tuple[Reader, Source]]:
    """The parts of a source that a reader claims: the whole of it, and what else lies in it."""
    from holdfast.formats import claims, reader_for, reader_of

    if source.is_used():
        return
    if format == "auto":
        reader = reader_for(source, general=general)
    else:
        wanted = reader_of(format)
        reader = wanted if (source.is_file and general) or claims(wanted, source) else None
    if reader is not None:
        yield reader, source
    if not source.is_file:
        for child in source.children():
            plain = format == "auto" and (reader is None or not child.is_file)
            yield from _claimed(child, format, general=plain)
