"""One import: matches readers to parts of a source and records the outcome of each session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast._lazy import lazy_modules
from holdfast.errors import Forbidden, HoldfastError, InvalidData, StoreError, UsageError
from holdfast.formats import (
    READERS,
    Bounds,
    Foreign,
    Reader,
    Source,
    claims,
    fit_value,
    holds_bundle,
    is_own_log,
    is_own_session,
    is_zip,
    open_archive,
    own_session,
    reader_for,
    reader_of,
    session_id_of,
)
from holdfast.library import _finder, _views
from holdfast.library._core import Core, Progress
from holdfast.library._imports import ImportedSession, ImportReport, SignedFile, Skipped
from holdfast.library._imports import Source as Given
from holdfast.model import fit_id
from holdfast.session import point_agent, read_agent

if TYPE_CHECKING:
    from holdfast.library import _import_session, _sessions
else:
    # A bundle of new sessions opens none of them.
    _import_session, _sessions = lazy_modules("holdfast.library", "_import_session _sessions")

BUNDLE = "bundle"
_SEAL_BYTES = 64
_REASON_CHARS = 300
_DOCUMENTS = (".json", ".json.gz", ".json.zst")


class ImportRun:
    """Imports sources one by one; ``report`` has the results."""

    def __init__(
        self, core: Core, format: str, *, dry_run: bool, passphrase: str | None, progress: Progress | None = None
    ) -> None:
        if format not in ("auto", BUNDLE):
            reader_of(format)
        self.report = ImportReport()
        self._core = core
        self._format = format
        self._dry_run = dry_run
        self._passphrase = passphrase
        self._progress = progress
        self._homeless: dict[str, list[str]] = {}

    def take(self, path: Given, bounds: Bounds | None) -> None:
        """Import what is at a path. Every failure goes into the report."""
        count = len(self.report.sessions) + len(self.report.errors)
        name = _name_of(path)
        try:
            source = self._take(_source(path, self.report, bounds or Bounds()))
            self._point_agents()
            for passed, reason in source.passed_over():
                # A source that cannot be read is itself the error.
                if not source.is_file or passed != source.name:
                    self.report.skipped.append(Skipped(fit_value(passed), fit_value(reason[:_REASON_CHARS])))
            if len(self.report.sessions) + len(self.report.errors) == count:
                # Raise the reason why nothing was imported from a source.
                if source.refusal is None or isinstance(source.refusal, InvalidData):
                    source.check()
                if source.refusal is not None:
                    # Other remedies address whoever records a value, or owns the store.
                    if source.refusal.remedy == InvalidData.remedy or isinstance(
                        source.refusal, (Forbidden, StoreError)
                    ):
                        source.refusal.remedy = "Nothing of it was recorded; get the file again, or leave it."
                    raise source.refusal
                if source.is_file and source.head(source.name).startswith(b'{"seq":0,"sealed":'):
                    remedy = "Export it as a bundle or as json, where its key is; lines open in their own store only."
                    raise InvalidData(f"{source.name} is the log of a sealed session", remedy=remedy)
                known = ", ".join(sorted(name.replace("_", "-") for name in READERS))
                remedy = f"Supported formats: {known} and bundle. Choose one with --format."
                raise InvalidData(f"{source.name} is not a session file of any supported tool", remedy=remedy)
        except HoldfastError as error:
            self._fail(name, error)

    def _take(self, source: Source) -> Source:
        """Import a source; return the source that was read, which for an archive is its contents."""
        if self._is_bundle(source):
            self._unpack(source)
            return source
        opened = open_archive(source)
        for reader, part in _claimed(opened, self._format):
            if self._progress is not None:
                self._progress(*opened.looked_at())
            if reader is not None:
                self._read(reader, part, opened)
                continue
            try:
                self._unpack(part)
            except HoldfastError as error:
                self._fail(part.name, error)
        return opened

    def _is_bundle(self, source: Source) -> bool:
        if self._format == BUNDLE:
            return source.is_file
        return self._format == "auto" and is_bundle_file(source)

    def _unpack(self, source: Source) -> None:
        """Import a bundle, or a single session of Holdfast."""
        from holdfast.library._bundle_import import bring_whole, unpack

        core = self._core
        if not self._is_bundle(source):
            found = bring_whole(core, [own_session(source)], dry_run=self._dry_run)
        else:
            data, bounds = source.read(source.name, source.bounds.archive_bytes_max), source.bounds
            found = unpack(core, data, passphrase=self._passphrase, bounds=bounds, dry_run=self._dry_run)
        for one in found:
            if one.outcome != "unchanged" and not self._dry_run:
                # Retract the permissions and settings that a bundle would bring, if it has any.
                state = _views.state(core, one.session_id)
                permissions, tools = state.permissions, state.tools
                acting = (permissions.approvals, permissions.allowlist, state.plugins, state.config)
                if any((*acting, tools.enabled, tools.namespaces, tools.priorities)):
                    with _sessions.open_session(core, one.session_id, resume="always", repair="auto") as session:
                        session.append("imported", {"format": BUNDLE, "source": source.name, "trust": "imported"})
            self.report.sessions.append(
                ImportedSession(
                    session_id=one.session_id,
                    tool="holdfast",
                    foreign_id=one.session_id,
                    outcome=one.outcome,
                    source=source.name,
                    events=one.events,
                    problems=one.problems,
                )
            )

    def _read(self, reader: Reader, source: Source, whole: Source) -> None:
        try:
            origin = _import_session.ImportOrigin(fit_value(source.name), source.digest(), source.newest())
            for foreign in reader.read(source):
                if self._progress is not None:
                    self._progress(*whole.looked_at())
                self._bring(foreign, origin)
        except HoldfastError as error:
            self._fail(source.name, error)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            # A hostile file may crash one reader; the sessions of the others are still imported.
            self._fail(source.name, InvalidData(f"{source.name} could not be read: {error!r:.200}"))

    def _bring(self, foreign: Foreign, origin: _import_session.ImportOrigin) -> None:
        try:
            if foreign.refusal is not None:
                raise foreign.refusal
            row = _import_session.bring(self._core, foreign, origin, dry_run=self._dry_run)
            if foreign.agent_id and row.outcome == "imported" and not self._dry_run:
                self._homeless.setdefault(fit_id(foreign.agent_id), []).append(row.session_id)
        except HoldfastError as error:
            _suit(error)
            self.report.errors.append(error)
            row = ImportedSession(
                session_id=session_id_of(foreign.tool, foreign.foreign_id, foreign.scope),
                tool=foreign.tool,
                foreign_id=fit_value(foreign.foreign_id),
                outcome="failed",
                source=origin.name,
                title=fit_value(foreign.title),
                reason=fit_value(str(error)),
            )
        self.report.sessions.append(row)

    def _point_agents(self) -> None:
        """Point each agent to its newest imported session; report those that keep the session they have."""
        core = self._core
        for agent, ids in self._homeless.items():
            newest = max(ids, key=lambda one: _finder.info(core, one).updated_at)
            try:
                documents = core.store.documents(f"agents/{agent}")
                current = read_agent(documents, agent)[0].current_session
                if current is None or not _views.exists(core, current):
                    point_agent(documents, agent, newest)
                    continue
                text = f"the agent {agent} goes on with its session {current}, not with this one"
            except HoldfastError as error:
                text = f"the agent {agent} does not go on with it: {error}"
            at = next(n for n, row in enumerate(self.report.sessions) if row.session_id == newest)
            row = self.report.sessions[at]
            self.report.sessions[at] = replace(row, problems=(*row.problems, text))
        self._homeless.clear()

    def _fail(self, name: str, error: HoldfastError) -> None:
        # Do not keep what raised it, perhaps a large file, in memory with the report.
        error.__traceback__ = error.__cause__ = error.__context__ = None
        _suit(error)
        self.report.errors.append(error)
        self.report.skipped.append(Skipped(fit_value(name), fit_value(str(error))))


def _suit(error: HoldfastError) -> None:
    """Replace a remedy for whoever records a value by one for a file."""
    if error.remedy == InvalidData.remedy:
        error.remedy = "Get the file again, or leave it."


def is_bundle_file(source: Source) -> bool:
    """Return whether a file is one of our bundles, open or sealed."""
    from holdfast.security import is_sealed_file

    if not source.is_file:
        return False
    if is_sealed_file(source.head(source.name, _SEAL_BYTES)):
        return True
    try:
        return is_zip(source) and holds_bundle(open_archive(source))
    except HoldfastError:
        return False


def _name_of(path: Given) -> str:
    if isinstance(path, SignedFile):
        return path.filename
    if isinstance(path, bytes) or hasattr(path, "read"):
        return "bytes"
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"an import is a path, bytes or an open file, not {type(path).__name__}")
    name = os.fspath(path)
    try:
        os.fsencode(name)
    except UnicodeEncodeError as error:
        raise UsageError(f"{name[:60]!a} is no path") from error
    return os.path.basename(name.rstrip("/")) or name


def _source(path: Given, report: ImportReport, bounds: Bounds) -> Source:
    if isinstance(path, SignedFile):
        # Alone: the files beside it were not signed.
        return Source.of_bytes(path.filename, path.getvalue(), bounds)
    if not isinstance(path, (str, os.PathLike)):
        data = path if isinstance(path, bytes) else path.read(bounds.document_bytes_max + 1)
        if not isinstance(data, bytes):
            raise UsageError("an import reads bytes: open the file in binary mode")
        return Source.of_bytes("bytes", data, bounds)
    source = _outside(path, report, bounds)
    if is_own_log(source):  # the files it refers to lie beside it, in folders
        source = _outside(os.path.dirname(os.path.abspath(path)), report, bounds)
    return source


def _outside(path: str | os.PathLike[str], report: ImportReport, bounds: Bounds) -> Source:
    from holdfast.storage import look_outside

    found = look_outside(path, files_max=bounds.files_max, levels_max=bounds.levels_max)
    report.skipped += [Skipped(fit_value(found.name), fit_value(text)) for text in found.passed_over]
    is_file, beside = found.is_file, found.beside if found.is_file else None
    return Source(found.name, found.files, is_file=is_file, beside=beside, folder=found.folder, bounds=bounds)


def tools_in(path: str, bounds: Bounds) -> Iterator[str]:
    """Yield the tool of each group of sessions in a folder or file, without reading the sessions."""
    for reader, _ in _claimed(_outside(path, ImportReport(), bounds), "auto"):
        yield "holdfast" if reader is None else reader.tool


def _claimed(source: Source, format: str, *, general: bool = True) -> Iterator[tuple[Reader | None, Source]]:
    """Yield the parts of a source that readers claim, the whole first; None claims a bundle or a session of ours."""
    if source.is_used():
        return
    if format == "auto":
        if is_bundle_file(source) or is_own_session(source):
            yield None, source
            return
        reader = reader_for(source, general=general)
    else:
        wanted = reader_of(format)
        reader = wanted if (source.is_file and general) or claims(wanted, source) else None
    if reader is not None:
        yield reader, source
    if source.is_file:
        return
    # Next to files that a reader took, a list of messages is more likely a part of those than a session by itself.
    taken = source.is_partly_used()
    for child in (source if reader is None else source.rest()).children():
        yield from _claimed(child, format, general=format == "auto" and not (child.is_file and taken))
    # Files next to the sessions that are damaged and that no reader recognised.
    for file in source.rest().children() if source.is_partly_used() else ():
        if file.is_file and file.name.endswith(_DOCUMENTS) and (reason := file.damage(file.name)) is not None:
            file.pass_over(file.name, reason)
