"""Holdfast: the one facade that agents, apps and adapters call.

Each method is a signature, its contract and one call. What it does is in the module that the call
names, which is loaded when it is first needed: a program that records loads none of them.
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
    # Opening a store needs none of them: together they take longer to load than all that an open needs.
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
        """Whether it was closed; then it opens and reads nothing any more."""
        return self._core.closed

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self._core.limits

    @property
    def redaction(self) -> str:
        """How secrets are treated in what is recorded here: off, mark or block."""
        return self._core.redaction

    @property
    def keys(self) -> _keys.Keys:
        """Encryption at rest: what is sealed, and which keys open it."""
        return _keys.Keys(self._core)

    @property
    def inbox(self) -> _inbox.Inbox:
        """What can go on since it was answered, tokens for others to answer with, events that sessions wait for."""
        return _inbox.Inbox(self._core)

    @property
    def trash(self) -> _trash.Trash:
        """The deleted sessions that can still be brought back."""
        return _trash.Trash(self._core)

    @property
    def policies(self) -> _retention.Policies:
        """The policies that ``prune`` carries out, and what they must leave alone."""
        return _retention.Policies(self._core)

    @property
    def agents(self) -> _health.AgentDocuments:
        """The documents of agents: which cannot be read, and their repair."""
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

        One id gives one live object within a process. ``seal`` says whether a new session is sealed, if the store's
        settings are not to decide. While another process has it, this waits for ``wait_ms`` at most, then raises
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

        Returns a function that ends it. A listener that fails disturbs nobody. Raises UsageError.
        """
        return _sessions.subscribe(self._core, listener)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Measure the sessions that are opened from now on, also in spaces; end it by the result.

        ``observer`` (``holdfast.observe.Metrics``) is told what each operation did and how long it took.
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
        """Return when something was last recorded (UTC); None if there is no such session."""
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
        """Return the events of a session, lazily: every valid one, also of a damaged log."""
        return _views.events(self._core, id, start, stop, types, reverse, limit)

    def follow(self, id: str, start: int | None = None) -> Follower:
        """Return what is there (from ``start`` on), then what comes, also from other processes."""
        return _views.follow(self._core, id, start)

    def state(self, id: str, at: int | None = None) -> replay.State:
        """Return the state after the newest event, or after ``at``; NotFound if it is not there."""
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

        ``at`` stops after that event. What was changed is also a warning in the log of the program, once. A session
        that is open here and has no event yet gives an empty list. Raises NotFound for one that does not exist.
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
        """Return the sessions that fit, newest first: at most ``limit``, or all for None.

        All ``tags`` must be there, given by people or the catalogue; ``since`` and ``until`` are of the last change;
        ``cwd`` is where the agent worked. Each word of ``text`` must be in the title, id, agent, model or a tag, case
        and accents aside. ``sort`` is updated, created, title, messages, tokens, cost or size: newest and most first,
        titles from A to Z, unless ``:asc`` or ``:desc`` is appended. ``next`` of the page, given as ``after``,
        returns the page that follows, also if sessions were added meanwhile. Raises UsageError.
        """
        wanted = (tags, since, until, agent_id, model, status, parent, cwd, archived, text)
        return _finder.list_sessions(self._core, limit, *wanted, sort=sort, after=after)

    def waiting(self, agent: str | None = None, session: str | None = None) -> builtins.list[live.Waiting]:
        """Return the questions that are open, of sessions that are not in the archive; the oldest first."""
        return _inbox.waiting(self._core, agent, session)

    def answer(self, id: str, answer: Any, *, by: str = "user", **said: Any) -> Answer:
        """Answer a question, from any process, with what ``Agent.resume`` takes; ``because`` is told. UsageError."""
        return _inbox.give_answer(self._core, id, answer, by=by, **said)

    def info(self, id: str) -> SessionMetadata:
        """Return one session in the form of ``list``, read from its log at this moment."""
        return _finder.info(self._core, id)

    def session_ids(self, prefix: str = "") -> builtins.list[str]:
        """Return the ids that begin with ``prefix``, case aside, in no order."""
        return _finder.session_ids(self._core, prefix)

    def short_ids(self, ids: Iterable[str]) -> dict[str, str]:
        """Return as much of each id as tells it from every other, at least 7 characters; all of one that is short."""
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
        """Return the events in which something was said, best first; all with ``limit=None``.

        Words must all be in one event; ``"…"`` is a phrase, ``word*`` a beginning, ``-word`` an exclusion, ``a OR b``
        a choice; whatever else is in a query is text. ``since`` and ``until`` are of the event; ``tags``,
        ``agent_id``, ``model``, ``status`` and ``archived`` of its session, as in ``list``; ``role`` may be "tool"
        for calls and results. What any process appended before the call is found. Raises NotFound for a session that
        does not exist, and UsageError.
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
        """Count tokens, cost, activity, tools and topics of the sessions that fit.

        Only what happened from ``since`` to ``until`` counts, to the hour. With ``model`` only its tokens count. Days
        are those of the time zone ``tz``, by default of this machine. What has no price is counted in
        ``unpriced_tokens``. Raises UsageError for an unknown time zone or period.
        """
        return _finder.stats(self._core, tz, by, tags, since, until, agent_id, model)

    def timeline(self, id: str) -> catalog.Timeline:
        """Return the course of a session: its turns, what each took and used, and the pauses."""
        return _finder.timeline(self._core, id)

    def reindex(self, progress: catalog.Progress | None = None) -> catalog.Reindexed:
        """Make the catalogue anew from the logs, with its statistics; return how much was read.

        Never needed: a catalogue that is missing or wrong is made anew by itself. It also forgets
        that a log was once longer. ``progress(done, total)`` is called with bytes.
        """
        return _finder.reindex(self._core, progress)

    def catalog_health(self, *, check: bool = False) -> catalog.Health:
        """Return how the catalogue is, with ``check`` after comparing it with logs up to 16 MB."""
        return self._core.catalog.health(check=check)

    def title(self, id: str, text: str | None = None) -> str | None:
        """Return the title of a session; with ``text``, set it first. Raises TooLarge."""
        return _finder.info(self._core, id).title if text is None else _sessions.title(self._core, id, text)

    def tag(self, id: str, *tags: str) -> builtins.list[str]:
        """Add tags and return all that the session then has; one that is there changes nothing.

        Raises UsageError for an empty one, TooLarge for one over ``limits.tag_chars_max``; none is recorded then.
        """
        return _sessions.tag(self._core, id, *tags)

    def untag(self, id: str, *tags: str) -> builtins.list[str]:
        """Take tags away and return all that the session then has."""
        return _sessions.untag(self._core, id, *tags)

    def topics(self, id: str, n: int = 3) -> builtins.list[catalog.Topic]:
        """Return the automatic tags of a session with the reason for each, strongest first."""
        return _finder.topics(self._core, id, n)

    def fork(self, id: str, at: int | None = None, *, new_id: str | None = None, title: str | None = None) -> str:
        """Make a session with the events of this one up to ``at`` (default: all); return its id.

        Works on a session that is open, here or elsewhere, and in the middle of a turn; inside a batch it takes the
        whole batch. The fork is at rest and has the state of that moment. On files it takes the same time at any
        length. Raises NotFound, Damaged (``at`` lies behind damage), UsageError (a negative ``at``, an id that is
        taken), InvalidId, TooNew.
        """
        return _branches.fork(self._core, id, at, new_id=new_id, title=title)

    def restore(self, id: str, at: int, *, new_id: str | None = None) -> str:
        """Go back to an earlier moment: fork at ``at``, let the agent go on there; return its id.

        The session itself stays. Its title is kept. Raises what ``fork`` raises, and Locked while
        another process has it open, since that would make it the current one again.
        """
        return _branches.restore(self._core, id, at, new_id=new_id)

    def lineage(self, id: str) -> _branches.Lineage:
        """Return where a session comes from, and which were forked from it, without circles."""
        return _branches.lineage(self._core, id)

    def compare(self, a: str, b: str) -> replay.Comparison:
        """Compare two sessions, also copies, since the last event that both logs begin with."""
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
        message, by ``summary`` or, without it, one line for each. Memory, variables and todos are merged with regard
        to what both had; where both changed the same, ``policy`` decides: ours, theirs, both, or ``ask``.
        ``merge_report`` tells what was done. Raises what ``fork`` raises, and UsageError for unknown turns and, with
        the policy "ask" and no ``ask`` function, for the conflicts.
        """
        return _branches.merge(self._core, a, b, turns, policy, summary, ask, new_id=new_id, title=title)

    def merge_report(self, id: str) -> replay.MergeReport | None:
        """Return what the last merge in a session did, with its conflicts; None without a merge."""
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

        ``to`` is a path or a file that it is written to, piece by piece; then there is no result. A path is written
        whole or not at all, for this user only, and never in the place of a file unless ``overwrite``. ``at`` stops
        after that event. ``zone`` is the time zone of documents: a name, "local", or a tzinfo. ``cwd`` is the project
        of a native file, ``passphrase`` seals a bundle; ``sign`` is the key of a signature in the format of minisign,
        which is written beside a path that is given. ``progress`` is called now and then with how much is done, and
        of how much. Raises NotFound, UsageError, and TooNew for a format that is not known here.
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
        """Put a session where a coding agent of this user finds it, and say how to go on there.

        ``tool`` is claude-code or codex, which look into their own folder, or gemini-cli or
        opencode, which are given a file in ``cwd``. Raises what :meth:`export` raises.
        """
        return _export.install(self._core, id, tool, cwd, at, model, overwrite)

    def import_(
        self, path: Source, format: str = "auto", *, passphrase: str | None = None, verify_key: str | None = None
    ) -> builtins.list[str]:
        """Bring in the sessions of a file, a folder, or bytes; return their ids, always the same.

        Only what is new in the source is added. Raises InvalidData if no known tool wrote it, UsageError, and, after
        all others were brought in, what stopped one of them, such as Locked. ``verify_key`` is a public key of minisign
        or its path, with which the file must be signed: Tampered, or KeyMissing without a signature beside it.
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
        """Bring in several sources, and report errors in place of raising them.

        ``dry_run`` records nothing. ``passphrase`` opens bundles that were sealed with one. ``bounds`` are the limits
        for what is not trusted. ``progress(done, total)`` counts the files of a source that were read.
        """
        return _imports.import_all(self._core, paths, format, dry_run, passphrase, bounds, progress)

    def copy_to(
        self,
        other: str | os.PathLike[str] | Store | Holdfast,
        ids: Collection[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> _copy.Copied:
        """Copy sessions with all they have, and agents with their lasting documents.

        ``ids`` names the sessions; all of them, and every agent, if None. Made again, a copy goes on where it
        stopped: what is there is compared and not sent twice, and a session that went on gets only what is new. One
        that differs in the other store is told in ``failed`` and left alone, and so are documents of an agent.
        ``progress(done, total)`` counts bytes.
        """
        target = other._core if isinstance(other, Holdfast) else other  # noqa: SLF001 - one of ours
        return _copy.copy_to(self._core, target, ids, progress)

    def verify(self, id: str, *, head: str | None = None) -> Report:
        """Look at every byte of a session and report what is whole. Changes nothing.

        The log must still begin with what ``head``, that of an earlier report, stands for.
        """
        return _health.verify(self._core, id, head=head)

    def repair(self, id: str) -> builtins.list[Gap]:
        """Write a whole log in the place of a damaged one; return what was missing from it.

        The old bytes are kept in quarantine. An undamaged session is left alone. Raises TooNew.
        """
        return _health.repair(self._core, id)

    def redact(
        self, id: str, *, find: Sequence[str] = (), relatives: bool = True, dry_run: bool = False
    ) -> _redaction.RedactionReport:
        """Take secrets out of a session that is recorded already.

        What the rules find, and every text in ``find``, is replaced by a mark: in the log, whose old bytes are
        destroyed, in payloads, snapshots, quarantine, its agent's memory, and the catalogue; with ``relatives`` also
        in its forks, what it was forked from, and the trash. ``dry_run`` only counts. Before anything is changed it
        raises Locked while one of them is open, Forbidden while one is held, Damaged for a log that has to be
        repaired first.
        """
        return _redaction.redact(self._core, id, find=find, relatives=relatives, dry_run=dry_run)

    def archive(self, id: str) -> None:
        """Compress a session's log; readers notice nothing, a writer restores it first.

        Raises Locked while anyone has it open, TooNew. Harmless if it is archived already.
        """
        _retention.archive(self._core, id)

    def unarchive(self, id: str) -> None:
        """Take a session out of the archive. Opening it to write does so by itself."""
        _retention.unarchive(self._core, id)

    def prune(
        self,
        *,
        dry_run: bool = False,
        policies: Sequence[catalog.Policy] | None = None,
        progress: Progress | None = None,
    ) -> Pruned:
        """Do what the policies say, empty the trash of what is too old, and drop old snapshots.

        ``policies`` replace those of the configuration. Beyond ``limits.sessions_live_max`` the least recently used
        are archived in any case. What is deleted goes to the trash. Open, pinned, held and ``keep`` sessions stay.
        """
        return _retention.prune(self._core, dry_run=dry_run, policies=policies, progress=progress)

    def delete(self, id: str) -> None:
        """Put a session into the trash. Raises Locked while it is open, Forbidden while held."""
        _trash.delete(self._core, id)

    def undelete(self, id: str) -> None:
        """Bring the session of that id that was deleted last back from the trash."""
        _trash.undelete(self._core, id)

    def purge_agent(self, agent_id: str, instructions: bool = False) -> int:  # noqa: FBT001, FBT002 - called so since the first version
        """Put an agent's sessions into the trash, remove its documents; return how many sessions.

        ``custom_instructions.md`` stays unless ``instructions``. Raises Locked or Forbidden before anything is removed.
        """
        return _trash.purge_agent(self._core, agent_id, instructions=instructions)

    def erase(self, id: str, *, forks: bool = True) -> _trash.Erased:
        """Destroy a session, in use or in the trash, so that nothing of it is left in the store.

        The data keys go first, then log, snapshots, payloads and quarantine; then those of every fork, since it
        begins with the same events, unless ``forks`` is false; then the index. What could not be reached is told.
        Raises NotFound; before anything is destroyed Locked while one of them is open, Forbidden while one is held.
        Broken off, the same call goes on.
        """
        return _trash.erase(self._core, id, forks=forks)
