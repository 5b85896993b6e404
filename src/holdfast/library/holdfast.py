"""Holdfast: the facade that agents, apps and adapters call.

Each method is a signature, its contract and one call. The code is in the module that the call names,
which is loaded when it is first needed: a program that records loads none of them.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Self

from holdfast._config import Given, settle
from holdfast._lazy import lazy_modules
from holdfast.errors import UsageError
from holdfast.library._core import Core
from holdfast.model import Event, Limits, SessionMetadata
from holdfast.storage import Store, shown_url

if TYPE_CHECKING:
    import datetime as dt

    from holdfast import catalog, replay
    from holdfast import session as live
    from holdfast.formats import Bounds
    from holdfast.library import (
        _branches,
        _copy,
        _export,
        _finder,
        _health,
        _imports,
        _inbox,
        _keys,
        _redaction,
        _retention,
        _sessions,
        _trash,
        _views,
    )
    from holdfast.library._core import Progress
    from holdfast.library._imports import Source
    from holdfast.library._keychain import GivenKey
    from holdfast.library.answers.store import Pruned
    from holdfast.model import Gap
    from holdfast.session import Answer, Durability, Follower, Observer, Repair, Report, Resume, Session, Subscriber
else:
    # Opening a store needs none of them: together they take longer to load than an open needs.
    _branches, _copy, _export, _finder, _health, _imports = lazy_modules(
        "holdfast.library", "_branches _copy _export _finder _health _imports"
    )
    _inbox, _keys, _redaction, _retention, _sessions, _trash, _views = lazy_modules(
        "holdfast.library", "_inbox _keys _redaction _retention _sessions _trash _views"
    )


class Holdfast:
    """The sessions of one store. Every method may be called from any thread."""

    def __init__(
        self,
        where: str | os.PathLike[str] | Store | None = None,
        *,
        config: Given = None,
        limits: Limits | None = None,
        timers: bool = True,
        redaction: str = "off",
        space: str | None = None,
        seal: bool | None = None,
        key: GivenKey | None = None,
    ) -> None:
        settings = settle(where, config, limits, space)
        self._core = Core(settings, timers=timers, redaction=redaction, seal=seal, key=key)

    @property
    def store(self) -> Store:
        """The store itself."""
        return self._core.store

    @property
    def url(self) -> str:
        """The store's address."""
        return self._core.store.url

    @property
    def closed(self) -> bool:
        """True once this object was closed; it then refuses to open or read sessions."""
        return self._core.closed

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self._core.limits

    @property
    def redaction(self) -> str:
        """The redaction mode of events recorded here: off, mark or block."""
        return self._core.redaction

    @property
    def keys(self) -> _keys.Keys:
        """Encryption at rest: which sessions are sealed, and which keys open them."""
        return _keys.Keys(self._core)

    @property
    def inbox(self) -> _inbox.Inbox:
        """Answered sessions that can go on, tokens for others to answer with, and events that sessions wait for."""
        return _inbox.Inbox(self._core)

    @property
    def trash(self) -> _trash.Trash:
        """The deleted sessions that can be restored."""
        return _trash.Trash(self._core)

    @property
    def policies(self) -> _retention.Policies:
        """The policies that ``prune`` carries out, and their exceptions."""
        return _retention.Policies(self._core)

    @property
    def agents(self) -> _health.AgentDocuments:
        """Unreadable documents of agents, and their repair."""
        return _health.AgentDocuments(self._core)

    @property
    def foreign(self) -> _imports.ForeignSessions:
        """The sessions of other tools on this machine, and what was imported of them."""
        return _imports.ForeignSessions(self._core)

    def __repr__(self) -> str:
        inside = "" if self.store.space is None else f" space {self.store.space}"
        return f"<Holdfast {shown_url(self.url)}{inside}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.store.capabilities.shared:
            raise UsageError(f"{self.url} lives in this process and cannot be pickled")
        space = self.store.space
        make = type(self) if space is None else partial(type(self), space=space)
        return make, (self.url,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def session(
        self,
        id: str | None = None,
        *,
        resume: Resume = "auto",
        title: str | None = None,
        agent_id: str | None = None,
        read_only: bool = False,
        repair: Repair = "raise",
        durability: Durability | None = None,
        staged: bool = False,
        seal: bool | None = None,
        wait_ms: float | None = None,
        **options: Any,
    ) -> Session:
        """Create or resume a session, and take the right to write it.

        One id gives one live object within a process. ``seal`` decides whether a new session is sealed, instead of
        the store's settings. While another process holds it, this waits for ``wait_ms`` at most, then raises
        Locked; inside an event loop ``async with`` does the waiting, and the object can be used for nothing else
        before. Raises NotFound with ``resume="always"`` if there is none, Damaged unless ``repair="auto"``,
        KeyMissing or Tampered for a sealed one that does not open.
        """
        options |= {"resume": resume, "repair": repair, "durability": durability, "staged": staged}
        options |= {"title": title, "agent_id": agent_id, "seal": seal, "wait_ms": wait_ms}
        return _sessions.open_session(self._core, id, read_only=read_only, **options)

    def space(self, name: str) -> Holdfast:
        """Open one space of this store, such as the sessions of one user among many.

        Close it before this object, whose connection it shares. InvalidId unless ``name`` is an id in small letters.
        """
        made = object.__new__(type(self))
        made._core = self._core.within(name)
        return made

    def subscribe(self, listener: Subscriber) -> Callable[[], None]:
        """Call ``listener(session_id, event_or_notice)`` for sessions opened through this object.

        Returns a function that unsubscribes. A failing listener does not affect others. Raises UsageError.
        """
        return _sessions.subscribe(self._core, listener)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Measure the sessions that are opened from now on, also in spaces; returns a function that ends it.

        ``observer`` (``holdfast.observe.Metrics``) receives each operation and how long it took.
        """
        return _sessions.observe(self._core, observer)

    def close(self) -> None:
        """Close the store; sessions that are still open are closed first."""
        self._core.close()

    def exists(self, id: str) -> bool:
        """Return whether there is a session of that id."""
        return _views.exists(self._core, id)

    def location(self, id: str) -> str:
        """Return where a session is kept, for people to look."""
        return _views.location(self._core, id)

    def last_modified(self, id: str) -> dt.datetime | None:
        """Return when an event was last recorded (UTC); None if there is no such session."""
        return _views.last_modified(self._core, id)

    def events(  # noqa: PLR0917 - in the order that users know
        self,
        id: str,
        start: int = 0,
        stop: int | None = None,
        types: Collection[str] | None = None,
        reverse: bool = False,  # noqa: FBT001, FBT002 - called so since the first version
        limit: int | None = None,
    ) -> Iterator[Event]:
        """Return the events of a session, lazily: all valid ones, also of a damaged log."""
        return _views.events(self._core, id, start, stop, types, reverse, limit)

    def follow(self, id: str, start: int | None = None) -> Follower:
        """Yield the events from ``start`` on, then new ones as they come, also from other processes."""
        return _views.follow(self._core, id, start)

    def state(self, id: str, at: int | None = None) -> replay.State:
        """Return the state after the newest event, or after ``at``. Raises NotFound if that event is not there."""
        return _views.state(self._core, id, at)

    def recover(
        self,
        id: str,
        provider: replay.Provider = "neutral",
        incomplete: replay.Incomplete = "mark",
        window_tokens: int | None = None,
        at: int | None = None,
    ) -> replay.Recovery:
        """Return a valid conversation from whatever the log holds; content never makes it raise.

        ``at`` stops after that event. Repairs are also logged as a warning, once. A session that is open here
        and has no event yet gives an empty list. Raises NotFound for one that does not exist.
        """
        return _views.recover(self._core, id, provider, incomplete, window_tokens, at)

    def snapshots(self, id: str) -> builtins.list[_views.SnapshotInfo]:
        """Return the snapshots of a session, newest first."""
        return _views.snapshots(self._core, id)

    def list(
        self,
        limit: int | None = 50,
        tags: Collection[str] = (),
        since: dt.datetime | None = None,
        until: dt.datetime | None = None,
        agent_id: str | None = None,
        *,
        sort: str = "updated",
        after: str | None = None,
        model: str | None = None,
        status: str | None = None,
        parent: str | None = None,
        cwd: str | None = None,
        archived: bool | None = None,
        text: str | None = None,
    ) -> catalog.Page:
        """Return the matching sessions, newest first: at most ``limit``, or all for None.

        A session needs all ``tags``, set by people or the catalogue; ``since`` and ``until`` refer to the last change;
        ``cwd`` is where the agent worked. Each word of ``text`` must be in the title, id, agent, model or a tag, case
        and accents aside. ``sort`` is updated, created, title, messages, tokens, cost or size: newest and most first,
        titles from A to Z, unless ``:asc`` or ``:desc`` is appended. ``next`` of the page, given as ``after``,
        returns the page that follows, also if sessions were added meanwhile. Raises UsageError.
        """
        wanted = (tags, since, until, agent_id, model, status, parent, cwd, archived, text)
        return _finder.list_sessions(self._core, limit, *wanted, sort=sort, after=after)

    def waiting(self, agent: str | None = None, session: str | None = None) -> builtins.list[live.Waiting]:
        """Return the open questions of sessions that are not archived, the oldest first."""
        return _inbox.waiting(self._core, agent, session)

    def answer(self, id: str, answer: Any, *, by: str = "user", **said: Any) -> Answer:
        """Answer a question, from any process, with what ``Agent.resume`` takes; ``because`` is the reason."""
        return _inbox.give_answer(self._core, id, answer, by=by, **said)

    def info(self, id: str) -> SessionMetadata:
        """Return one session in the form of ``list``, read from its log at this moment."""
        return _finder.info(self._core, id)

    def session_ids(self, prefix: str = "") -> builtins.list[str]:
        """Return the ids that begin with ``prefix``, case aside, in no order."""
        return _finder.session_ids(self._core, prefix)

    def short_ids(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the shortest unique prefix of each id, at least 7 characters; short ids are returned whole."""
        return _finder.short_ids(self._core, ids)

    def search(
        self,
        query: str,
        session_id: str | None = None,
        *,
        tags: Collection[str] = (),
        since: dt.datetime | None = None,
        until: dt.datetime | None = None,
        agent_id: str | None = None,
        model: str | None = None,
        status: str | None = None,
        archived: bool | None = None,
        role: str | None = None,
        tool: str | None = None,
        limit: int | None = 20,
    ) -> builtins.list[catalog.Hit]:
        """Return the events that match a query, best first; all with ``limit=None``.

        All words must be in one event; ``"…"`` is a phrase, ``word*`` a prefix, ``-word`` an exclusion, ``a OR b``
        a choice; anything else in a query is text. ``since`` and ``until`` refer to the event; ``tags``,
        ``agent_id``, ``model``, ``status`` and ``archived`` to its session, as in ``list``; ``role`` may be "tool"
        for calls and results. Everything that any process appended before the call is found. Raises NotFound for a
        session that does not exist, and UsageError.
        """
        wanted = (tags, since, until, agent_id, model, status, None, None, archived)
        return _finder.search(self._core, query, session_id, role, tool, limit, *wanted)

    def stats(
        self,
        since: dt.datetime | None = None,
        until: dt.datetime | None = None,
        *,
        tags: Collection[str] = (),
        agent_id: str | None = None,
        model: str | None = None,
        tz: str | dt.tzinfo | None = None,
        by: _finder.By = "day",
    ) -> catalog.Stats:
        """Count tokens, cost, activity, tools and topics of the matching sessions.

        Only events from ``since`` to ``until`` count, to the hour. With ``model`` only its tokens count. Days
        are those of the time zone ``tz``, by default of this machine. Tokens without a price are counted in
        ``unpriced_tokens``. Raises UsageError for an unknown time zone or period.
        """
        return _finder.stats(self._core, tz, by, tags, since, until, agent_id, model)

    def timeline(self, id: str) -> catalog.Timeline:
        """Return the course of a session: its turns, the time and tokens of each, and the pauses."""
        return _finder.timeline(self._core, id)

    def reindex(self, progress: catalog.Progress | None = None) -> catalog.Reindexed:
        """Rebuild the catalogue from the logs, with its statistics; return how much was read.

        Never needed: a missing or wrong catalogue is rebuilt automatically. It also forgets
        that a log was once longer. ``progress(done, total)`` is called with bytes.
        """
        return _finder.reindex(self._core, progress)

    def catalog_health(self, *, check: bool = False) -> catalog.Health:
        """Return the health of the catalogue; with ``check`` compare it with logs up to 16 MB first."""
        return self._core.catalog.health(check=check)

    def title(self, id: str, text: str | None = None) -> str | None:
        """Return the title of a session; with ``text``, set it first. Raises TooLarge."""
        return _finder.info(self._core, id).title if text is None else _sessions.title(self._core, id, text)

    def tag(self, id: str, *tags: str) -> builtins.list[str]:
        """Add tags and return all that the session then has; one that is there already changes nothing.

        Raises UsageError for an empty one, TooLarge for one over ``limits.tag_chars_max``; none is recorded then.
        """
        return _sessions.tag(self._core, id, *tags)

    def untag(self, id: str, *tags: str) -> builtins.list[str]:
        """Remove tags and return all that the session then has."""
        return _sessions.untag(self._core, id, *tags)

    def topics(self, id: str, n: int = 3) -> builtins.list[catalog.Topic]:
        """Return the automatic tags of a session with the reason for each, strongest first."""
        return _finder.topics(self._core, id, n)

    def fork(self, id: str, at: int | None = None, *, new_id: str | None = None, title: str | None = None) -> str:
        """Create a session with the events of this one up to ``at`` (default: all); return its id.

        Works on a session that is open, here or elsewhere, and in the middle of a turn; inside a batch it takes the
        whole batch. The fork is idle and has the state of that moment. On files it takes the same time at any
        length. Raises NotFound, Damaged (``at`` lies behind damage), UsageError (a negative ``at``, an id that is
        taken), InvalidId, TooNew.
        """
        return _branches.fork(self._core, id, at, new_id=new_id, title=title)

    def restore(self, id: str, at: int, *, new_id: str | None = None) -> str:
        """Go back to an earlier moment: fork at ``at``, and let the agent continue there; return the fork's id.

        The session itself stays, and the fork keeps its title. Raises what ``fork`` raises, and Locked while
        another process has the session open, since that would make it the current one again.
        """
        return _branches.restore(self._core, id, at, new_id=new_id)

    def lineage(self, id: str) -> _branches.Lineage:
        """Return the origin of a session, and the sessions forked from it, without cycles."""
        return _branches.lineage(self._core, id)

    def compare(self, a: str, b: str) -> replay.Comparison:
        """Compare two sessions, also copies, since the last event that their logs have in common."""
        return _branches.compare(self._core, a, b)

    def merge(
        self,
        a: str,
        b: str,
        *,
        turns: str | Sequence[int] = "all",
        policy: str = "ours",
        summary: Callable[[builtins.list[replay.TurnView]], str] | None = None,
        ask: Callable[[replay.Clash], str] | None = None,
        new_id: str | None = None,
        title: str | None = None,
    ) -> str:
        """Fork ``a``, add what ``b`` did since they parted, and return the new session's id.

        ``turns`` are all of them, those of the given numbers (which ``compare`` shows), or a "summary" of them in one
        message, by ``summary`` or, without it, one line for each. Memory, variables and todos are merged three-way;
        where both changed the same entry, ``policy`` decides: ours, theirs, both, or ``ask``.
        ``merge_report`` has the details. Raises what ``fork`` raises, and UsageError for unknown turns and, with
        the policy "ask" and no ``ask`` function, for the conflicts.
        """
        return _branches.merge(self._core, a, b, turns, policy, summary, ask, new_id=new_id, title=title)

    def merge_report(self, id: str) -> replay.MergeReport | None:
        """Return the report of the last merge in a session, with its conflicts; None without a merge."""
        return _branches.merge_report(self._core, id)

    def export(
        self,
        id: str,
        format: str = "markdown",
        *,
        to: str | os.PathLike[str] | IO[Any] | None = None,
        at: int | None = None,
        zone: dt.tzinfo | str = "UTC",
        cwd: str | os.PathLike[str] | None = None,
        passphrase: str | None = None,
        model: str | None = None,
        incomplete: replay.Incomplete = "mark",
        overwrite: bool = False,
        sign: str | bytes | None = None,
        progress: Progress | None = None,
    ) -> Any:
        """Return a session in another form: a str, or bytes for a bundle.

        ``to`` is a path or an open file to write to, piece by piece; then there is no result. A path is written
        whole or not at all, readable for this user only, and replaces a file only with ``overwrite``. ``at`` stops
        after that event. ``zone`` is the time zone of documents: a name, "local", or a tzinfo. ``cwd`` is the project
        of a native file, ``passphrase`` seals a bundle; ``sign`` is the key of a signature in the format of minisign,
        which is written beside a path that is given. ``progress`` is called now and then with the amount done and
        the total. Raises NotFound, UsageError, and TooNew for an unknown format.
        """
        asked = _export.asked(format, zone, cwd, passphrase, model, incomplete)
        return _export.export(self._core, id, asked, to, at, overwrite, sign, progress)

    def install(
        self,
        id: str,
        tool: str,
        *,
        cwd: str | os.PathLike[str] | None = None,
        at: int | None = None,
        model: str | None = None,
        overwrite: bool = False,
    ) -> _export.Installed:
        """Write a session where a coding agent of this user finds it; return the command that continues it there.

        ``tool`` is claude-code or codex, which look into their own folder, or gemini-cli or
        opencode, which are given a file in ``cwd``. Raises what :meth:`export` raises.
        """
        return _export.install(self._core, id, tool, cwd, at, model, overwrite)

    def import_(
        self, path: Source, format: str = "auto", *, passphrase: str | None = None, verify_key: str | None = None
    ) -> builtins.list[str]:
        """Import the sessions of a file, a folder, or bytes; return their ids, always the same.

        Only what is new in the source is added. Raises InvalidData if no known tool wrote it, UsageError, and, after
        all others were imported, the error of one that failed, such as Locked. ``verify_key`` is a public key of
        minisign or its path, with which the file must be signed: Tampered, or KeyMissing without a signature beside it.
        """
        return _imports.import_(self._core, path, format, passphrase, verify_key)

    def import_all(
        self,
        paths: Iterable[Source],
        format: str = "auto",
        *,
        dry_run: bool = False,
        passphrase: str | None = None,
        bounds: Bounds | None = None,
        progress: Progress | None = None,
    ) -> _imports.ImportReport:
        """Import several sources, and report errors instead of raising them.

        ``dry_run`` records nothing. ``passphrase`` opens bundles that were sealed with one. ``bounds`` are the limits
        for untrusted input. ``progress(done, total)`` counts the files of a source that were read.
        """
        return _imports.import_all(self._core, paths, format, dry_run, passphrase, bounds, progress)

    def copy_to(
        self,
        other: str | os.PathLike[str] | Store | Holdfast,
        ids: Collection[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> _copy.Copied:
        """Copy sessions with all their data, and agents with their lasting documents.

        ``ids`` names the sessions; all of them, and every agent, if None. A repeated copy continues where it
        stopped: existing data is compared and not sent twice, and a session that went on gets only what is new.
        A session that differs in the other store is reported in ``failed`` and left alone; so are documents of
        an agent. ``progress(done, total)`` counts bytes.
        """
        target = other._core if isinstance(other, Holdfast) else other  # noqa: SLF001 - one of ours
        return _copy.copy_to(self._core, target, ids, progress)

    def verify(self, id: str, *, head: str | None = None) -> Report:
        """Check every byte of a session and report what is intact. Changes nothing.

        With ``head``, from an earlier report, the log must still begin with the events of then.
        """
        return _health.verify(self._core, id, head=head)

    def repair(self, id: str) -> builtins.list[Gap]:
        """Replace a damaged log by a valid one; return what was lost.

        The old bytes are kept in quarantine. An undamaged session is left alone. Raises TooNew.
        """
        return _health.repair(self._core, id)

    def redact(
        self, id: str, *, find: Sequence[str] = (), relatives: bool = True, dry_run: bool = False
    ) -> _redaction.RedactionReport:
        """Remove secrets from a session that is already recorded.

        Everything that the rules find, and every text in ``find``, is replaced by a mark: in the log, whose old bytes
        are destroyed, in payloads, snapshots, quarantine, its agent's memory, and the catalogue; with ``relatives``
        also in its forks, its ancestors, and the trash. ``dry_run`` only counts. Before anything is changed it
        raises Locked while one of them is open, Forbidden while one is held, Damaged for a log that has to be
        repaired first.
        """
        return _redaction.redact(self._core, id, find=find, relatives=relatives, dry_run=dry_run)

    def archive(self, id: str) -> None:
        """Compress a session's log; readers notice nothing, a writer restores it first.

        Raises Locked while anyone has it open, TooNew. Does nothing if it is archived already.
        """
        _retention.archive(self._core, id)

    def unarchive(self, id: str) -> None:
        """Take a session out of the archive. Opening it for writing does so as well."""
        _retention.unarchive(self._core, id)

    def prune(
        self,
        *,
        dry_run: bool = False,
        policies: Sequence[catalog.Policy] | None = None,
        progress: Progress | None = None,
    ) -> Pruned:
        """Apply the retention policies, empty the trash of what is too old, and drop old snapshots.

        ``policies`` replace those of the configuration. Beyond ``limits.sessions_live_max`` the least recently used
        are archived in any case. Deleted sessions go to the trash. Open, pinned, held and ``keep`` sessions stay.
        """
        return _retention.prune(self._core, dry_run=dry_run, policies=policies, progress=progress)

    def delete(self, id: str) -> None:
        """Move a session to the trash. Raises Locked while it is open, Forbidden while held."""
        _trash.delete(self._core, id)

    def undelete(self, id: str) -> None:
        """Restore the last deleted session of that id from the trash."""
        _trash.undelete(self._core, id)

    def purge_agent(self, agent_id: str, instructions: bool = False) -> int:  # noqa: FBT001, FBT002 - called so since the first version
        """Move an agent's sessions to the trash, remove its documents; return how many sessions.

        ``custom_instructions.md`` stays unless ``instructions``. Raises Locked or Forbidden before anything is removed.
        """
        return _trash.purge_agent(self._core, agent_id, instructions=instructions)

    def erase(self, id: str, *, forks: bool = True) -> _trash.Erased:
        """Destroy a session, in use or in the trash, so that nothing of it is left in the store.

        The data keys go first, then log, snapshots, payloads and quarantine; then those of every fork, since it
        begins with the same events, unless ``forks`` is false; then the index. The result names what could not be
        reached. Raises NotFound; before anything is destroyed Locked while one of them is open, Forbidden while one
        is held. If it is interrupted, repeat the call.
        """
        return _trash.erase(self._core, id, forks=forks)
