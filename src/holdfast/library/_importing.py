"""Bringing sessions in from other tools. A source is only ever read, and never trusted."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from holdfast.errors import UsageError
from holdfast.library._given import check_text
from holdfast.library._reading import Reading

if TYPE_CHECKING:
    from holdfast.formats import Bounds
    from holdfast.library._import_report import ImportReport
    from holdfast.library._signed_files import SignedFile

__all__ = ["Importing", "Place"]

_OURS = {"sessions", "spaces"}
Given = str | os.PathLike[str] | bytes | BinaryIO


class Place(msgspec.Struct, frozen=True):
    """Where a tool of this user keeps sessions."""

    tool: str
    path: str

    def signs(self) -> dict[str, tuple[int, int]]:
        """The files there with time and size of each: what has changed shows without reading it."""
        from holdfast.library._scanning import signs

        return signs(self.path)


class Importing(Reading):
    """What can be brought in."""

    def import_(
        self,
        path: Given,
        format: str = "auto",
        *,
        passphrase: str | None = None,
        verify_key: str | None = None,
    ) -> builtins.list[str]:
        """Bring in the sessions of a file, a folder, or bytes; their ids, the same every time.

        What is here already stays as it is; only what is new in the source is added. Raises
        InvalidData if no known tool wrote it, UsageError for an unknown format, and, after all
        others were brought in, what stopped one of them, such as Locked. With ``verify_key``, a
        public key in the format of minisign or the path of one, nothing is brought in unless the
        file was signed with it: Tampered, or KeyMissing without a signature beside it.
        """
        if verify_key is not None:
            path = _signed(path, verify_key)
        report = self.import_all([path], format, passphrase=passphrase)
        if report.errors:
            raise report.errors[0]
        return report.ids

    def import_all(
        self,
        paths: Iterable[Given],
        format: str = "auto",
        *,
        dry_run: bool = False,
        passphrase: str | None = None,
        bounds: Bounds | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> ImportReport:
        """The same for several, with a report in place of errors. ``dry_run`` records nothing.

        ``passphrase`` opens bundles that were sealed with one. ``bounds`` are the limits for what
        is not trusted. ``progress(done, total)`` counts the files of a source that were read.
        """
        from holdfast.library._import_run import ImportRun

        self._check_open()
        if not isinstance(paths, Iterable):
            raise UsageError(f"paths are a list, not {type(paths).__name__}")
        run = ImportRun(self, format, dry_run=dry_run, passphrase=passphrase, progress=progress)
        for path in paths:
            run.take(path, bounds)
        return run.report

    def imported(self, foreign_id: str) -> builtins.list[str]:
        """The sessions here that another tool knows by that id, or by one that begins so."""
        from holdfast.library._scanning import imported_as

        self._check_open()
        check_text("foreign_id", foreign_id)
        return imported_as(self, foreign_id)

    def strangers(self) -> Place | None:
        """Whose sessions lie where this store is, if it has none of ours; None for nobody's.

        A folder of another system is no store: what is in it has to be brought in.
        """
        from holdfast.library._scanning import strangers_at

        self._check_open()
        path = getattr(self._inner, "path", None)
        if path is None or next(iter(self._store.entries()), None) is not None:
            return None
        return strangers_at(path)

    def _warn_of_strangers(self) -> None:
        path = getattr(self._inner, "path", None)
        # A look at the folder itself is enough for every store of ours, and for an empty one:
        # knowing the tools takes longer than everything else at an opening.
        if path is None or not os.path.isdir(path):
            return
        names = os.listdir(path)
        if not names or not _OURS.isdisjoint(names):
            return
        place = self.strangers()
        if place is not None:
            import logging

            logging.getLogger("holdfast").warning(
                "%s holds sessions of %s, which are not sessions of this store; bring them in with"
                " `holdfast import`, or hf.import_, into a store of their own",
                place.path,
                place.tool,
            )

    def importable(self, foreign_id: str) -> Place | None:
        """Where a session of that id lies, by the name of its file, that could be brought in."""
        from holdfast.library._scanning import file_of

        check_text("foreign_id", foreign_id)
        near = self.strangers()
        return file_of(foreign_id, None if near is None else near.path)

    def places(self, tool: str | None = None) -> builtins.list[Place]:
        """Where tools of this user keep sessions, as far as they are here."""
        from holdfast.library._scanning import find_places

        return find_places(tool)


def _signed(path: Given, key: str) -> SignedFile:
    from holdfast.library._signed_files import read_signed

    if not isinstance(path, (str, os.PathLike)):
        raise UsageError("a signature is beside a file", remedy="Give the path of the file.")
    check_text("verify_key", key)
    return read_signed(path, key)
