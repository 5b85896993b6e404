"""The store contract: branches and archives, which change how a log is stored, but not its content."""

from __future__ import annotations

import time
from contextlib import suppress

import msgspec

from holdfast.errors import Conflict, InvalidId, Locked, NotFound, UsageError
from holdfast.storage import Store
from holdfast.testing.contract.log import ONE, THREE, TWO, ContractBase, read_all, refused

_TO = "sessions/beta"
_BIG = b"".join(b'{"number":%d,"text":"some words of a conversation"}\n' % n for n in range(60_000))


class FormContract(ContractBase):
    """Contracts 58 to 76."""

    def test_c58_branch(self) -> None:
        """A branch begins with the first bytes of a log, and both continue independently."""
        store = self.fresh(ONE, TWO)
        if not self._can_branch(store):
            return
        store.branch(self.KEY, _TO, len(ONE))
        assert read_all(store.log(_TO)) == ONE
        self.write(store, _TO, THREE)
        self.write(store, self.KEY, ONE)
        store = self.again(store)
        assert read_all(store.log(_TO)) == ONE + THREE
        assert read_all(store.log(self.KEY)) == ONE + TWO + ONE

    def test_c59_branch_offsets(self) -> None:
        """Every offset of a branch counts from the beginning of the whole log."""
        store = self.fresh(ONE, TWO)
        if not self._can_branch(store):
            return
        store.branch(self.KEY, _TO, len(ONE + TWO))
        log = self.write(store, _TO, THREE)
        whole = ONE + TWO + THREE
        assert log.size() == len(whole)
        for start in range(len(whole) + 2):
            assert read_all(log, start) == whole[start:]
            assert log.read_tail(start) == (max(0, len(whole) - start), whole[-start:] * (start > 0))

    def test_c60_branch_is_listed(self) -> None:
        """A branch is listed with its size before anything was appended to it; an append changes that."""
        store = self.fresh(ONE, TWO)
        if not self._can_branch(store):
            return
        store.branch(self.KEY, _TO, len(ONE))
        assert store.exists(_TO)
        entries = {entry.key: entry for entry in store.entries()}
        assert {key: entry.size for key, entry in entries.items()} == {self.KEY: len(ONE + TWO), _TO: len(ONE)}
        self.write(store, self.KEY, THREE)
        unchanged = store.entry(_TO)
        assert unchanged is not None
        assert msgspec.structs.replace(unchanged, folder="") == msgspec.structs.replace(entries[_TO], folder="")
        self.write(store, _TO, THREE)
        changed = store.entry(_TO)
        assert changed is not None
        assert (changed.size, changed.etag != entries[_TO].etag) == (len(ONE + THREE), True)

    def test_c61_branch_while_written(self) -> None:
        """A log can be branched while a writer has it."""
        store = self.fresh()
        log, epoch = self.writer(store)
        log.append(ONE, 0, 1, epoch)
        if not self._can_branch(store):
            return
        log.sync()
        store.branch(self.KEY, _TO, len(ONE))
        log.append(TWO, 1, 1, epoch)
        log.sync()
        assert read_all(log) == ONE + TWO
        assert read_all(store.log(_TO)) == ONE

    def test_c62_branch_refused(self) -> None:
        """A branch of nothing, of more than there is, or to a taken or invalid key is refused."""
        store = self.fresh()
        refused(NotFound, store.branch, self.KEY, _TO, 1)
        refused(InvalidId, store.branch, self.KEY, "sessions/..", 1)
        refused(InvalidId, store.branch, "nothing", _TO, 1)
        self.write(store, self.KEY, ONE)
        if not self._can_branch(store):
            return
        for size in (0, -1):
            refused(UsageError, store.branch, self.KEY, _TO, size)
        refused(Conflict, store.branch, self.KEY, _TO, len(ONE) + 1)
        assert not store.exists(_TO)
        self.write(store, _TO, TWO)
        refused(Conflict, store.branch, self.KEY, _TO, len(ONE))
        refused(Conflict, store.branch, self.KEY, self.KEY, len(ONE))
        assert read_all(store.log(_TO)) == TWO
        assert sorted(entry.key for entry in store.entries()) == [self.KEY, _TO]
        kept = store.documents("agents/a")
        kept.put("memory.json", b"kept")
        with suppress(Conflict):
            store.branch(self.KEY, "agents/a", len(ONE))
        assert kept.get("memory.json") is not None

    def test_c63_branch_of_a_branch(self) -> None:
        """Branches of branches, at any place, twenty deep."""
        store = self.fresh()
        whole = ONE
        log = self.write(store, "sessions/b0", ONE)
        if not self._can_branch(store):
            return
        for depth in range(1, 21):
            key, line = f"sessions/b{depth}", b'{"depth":%d}\n' % depth
            store.branch(f"sessions/b{depth - 1}", key, len(whole))
            log = self.write(store, key, line)
            whole += line
            assert read_all(log) == whole
        assert log.size() == len(whole)
        for size in (len(ONE), len(whole) - 1, len(whole)):
            store.branch("sessions/b20", f"sessions/at-{size}", size)
            assert read_all(store.log(f"sessions/at-{size}")) == whole[:size]

    def test_c64_branch_outlives_its_parent(self) -> None:
        """Cutting, replacing, moving or dropping a log does not affect its branches."""
        store = self.fresh(ONE, TWO)
        if not self._can_branch(store):
            return
        store.branch(self.KEY, _TO, len(ONE + TWO))
        lease = store.lease(self.KEY)
        epoch = lease.acquire("me", 60_000)
        log = store.log(self.KEY)
        log.cut(len(ONE), epoch)
        assert (read_all(log), read_all(store.log(_TO))) == (ONE, ONE + TWO)
        log.append(THREE, 1, 1, epoch)
        assert (read_all(log), read_all(store.log(_TO))) == (ONE + THREE, ONE + TWO)
        log.replace([THREE], epoch)
        assert (read_all(log), read_all(store.log(_TO))) == (THREE, ONE + TWO)
        log.close()
        lease.release()
        store.move(self.KEY, "trash/alpha")
        store.drop("trash/alpha")
        assert read_all(self.again(store).log(_TO)) == ONE + TWO

    def test_c65_parent_outlives_its_branch(self) -> None:
        """Cutting, replacing, or dropping a branch does not affect its parent."""
        store = self.fresh(ONE, TWO)
        if not self._can_branch(store):
            return
        store.branch(self.KEY, _TO, len(ONE + TWO))
        lease = store.lease(_TO)
        epoch = lease.acquire("me", 60_000)
        log = store.log(_TO)
        log.append(THREE, 2, 1, epoch)
        for offset in (len(ONE + TWO), len(ONE)):
            log.cut(offset, epoch)
            assert read_all(log) == (ONE + TWO)[:offset]
            log.append(THREE, 2, 1, epoch)
            assert read_all(log) == (ONE + TWO)[:offset] + THREE
        kept = [name for name in store.documents(_TO).names("quarantine/") if "torn" in name]
        assert len(kept) == 2
        log.replace([THREE], epoch)
        assert read_all(log) == THREE
        log.close()
        lease.release()
        store.drop(_TO)
        assert read_all(store.log(self.KEY)) == ONE + TWO

    def test_c66_branch_takes_blobs_along(self) -> None:
        """A branch has the documents below blobs/, even after the parent is dropped, and no others."""
        store = self.fresh(ONE)
        if not self._can_branch(store):
            return
        documents = store.documents(self.KEY)
        documents.put("blobs/x", b"payload", sync=False)
        documents.put("memory.json", b"{}")
        store.branch(self.KEY, _TO, len(ONE))
        documents.delete("blobs/x")
        assert store.documents(_TO).names() == ["blobs/x"]
        assert read_all(store.log(_TO)) == ONE
        store.documents(_TO).put("blobs/x", b"other")
        assert self.content(store, "blobs/x", _TO) == b"other"

    def test_c67_branch_into_a_crashed_beginning(self) -> None:
        """Documents without a log, or a released lease, do not occupy a key."""
        store = self.fresh(ONE)
        if not self._can_branch(store):
            return
        store.documents(_TO).put("blobs/old", b"1")
        lease = store.lease(_TO)
        lease.acquire("me", 60_000)
        refused(Locked, store.branch, self.KEY, _TO, len(ONE))
        lease.release()
        store.branch(self.KEY, _TO, len(ONE))
        assert read_all(store.log(_TO)) == ONE

    def test_c68_detach(self) -> None:
        """A detached branch is the same log, shares nothing with another, and can be appended to."""
        store = self.fresh(ONE, TWO)
        refused(NotFound, store.detach, "sessions/nothing")
        if not self._can_branch(store):
            return
        store.branch(self.KEY, _TO, len(ONE))
        self.write(store, _TO, THREE)
        assert store.base_size(_TO) in (0, len(ONE))
        for _ in range(2):
            store.detach(_TO)
            assert store.base_size(_TO) == 0
            assert read_all(store.log(_TO)) == ONE + THREE
        store.detach(self.KEY)
        self.write(store, _TO, TWO)
        store = self.again(store)
        assert read_all(store.log(_TO)) == ONE + THREE + TWO
        assert read_all(store.log(self.KEY)) == ONE + TWO

    def test_c69_detach_refused(self) -> None:
        """A key is not detached, archived or unarchived while a writer has it."""
        store = self.fresh(ONE)
        if not store.capabilities.stores:
            return
        store.branch(self.KEY, _TO, len(ONE))
        lease = store.lease(_TO)
        lease.acquire("me", 60_000)
        calls = [store.archive, store.unarchive] if store.capabilities.archives else []
        if store.base_size(_TO):
            calls.append(store.detach)
        for call in calls:
            refused(Locked, call, _TO)
        lease.release()
        assert read_all(store.log(_TO)) == ONE

    def test_c70_archive(self) -> None:
        """An archived log reads as before, from every offset; its entry keeps size and time."""
        store = self.fresh()
        log = self.write(store, self.KEY, _BIG, ONE)
        if not self._can_archive(store):
            return
        before = store.entry(self.KEY)
        assert not store.is_archived(self.KEY)
        if store.capabilities.shared:
            time.sleep(1.1)  # servers tell the time in seconds: it has to be another one
        for _ in range(2):
            store.archive(self.KEY)
            assert store.is_archived(self.KEY)
        whole = _BIG + ONE
        after = store.entry(self.KEY)
        assert before is not None
        assert after is not None
        assert (after.size, after.modified) == (before.size, before.modified)
        assert log.size() == len(whole)
        for start in (0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, len(_BIG), len(whole), 1 << 30):
            assert read_all(log, start) == whole[start:]
        assert log.read_tail(len(ONE)) == (len(_BIG), ONE)
        assert log.read_part(1, len(_BIG) + 1) == (_BIG + ONE)[1 : len(_BIG) + 1]
        assert read_all(self.again(store).log(self.KEY)) == whole

    def test_c71_archive_goes_on(self) -> None:
        """A writer's first change unarchives a log."""
        store = self.fresh(ONE, TWO)
        if not self._can_archive(store):
            return
        lease = store.lease(self.KEY)
        for change in ("append", "cut", "replace"):
            store.archive(self.KEY)
            epoch, log = lease.acquire("me", 60_000), store.log(self.KEY)
            before = read_all(log)
            assert store.is_archived(self.KEY)
            if change == "append":
                log.append(THREE, 2, 1, epoch)
                expected = before + THREE
            elif change == "cut":
                log.cut(len(ONE), epoch)
                expected = ONE
            else:
                log.replace([TWO], epoch)
                expected = TWO
            log.sync()
            assert read_all(log) == expected
            assert not store.is_archived(self.KEY)
            log.close()
            lease.release()
        assert read_all(self.again(store).log(self.KEY)) == TWO

    def test_c72_unarchive(self) -> None:
        """A log can be unarchived explicitly; one that is not archived is not changed."""
        store = self.fresh(ONE)
        if not store.capabilities.stores:
            return
        store.unarchive(self.KEY)
        if self._can_archive(store):
            store.archive(self.KEY)
            store.unarchive(self.KEY)
            assert not store.is_archived(self.KEY)
        assert read_all(store.log(self.KEY)) == ONE

    def test_c73_archive_refused(self) -> None:
        """A key without a log is not archived; a store that cannot archive says so and changes nothing."""
        store = self.fresh()
        for call in (store.archive, store.unarchive):
            refused(NotFound, call, self.KEY)
        assert not store.is_archived(self.KEY)
        self.write(store, self.KEY, ONE)
        if store.capabilities.stores and not store.capabilities.archives:
            refused(UsageError, store.archive, self.KEY)
            assert read_all(store.log(self.KEY)) == ONE
            assert not store.is_archived(self.KEY)

    def test_c74_archive_of_a_branch(self) -> None:
        """A branch can be archived, and an archived log branched; documents stay where they are."""
        store = self.fresh(ONE, TWO)
        if not self._can_archive(store):
            return
        store.branch(self.KEY, _TO, len(ONE))
        self.write(store, _TO, THREE)
        store.documents(_TO).put("memory.json", b"{}")
        store.archive(_TO)
        store.archive(self.KEY)
        assert store.is_archived(_TO)
        assert store.base_size(_TO) == 0
        assert read_all(store.log(_TO)) == ONE + THREE
        assert store.documents(_TO).names() == ["memory.json"]
        store.branch(_TO, "sessions/gamma", len(ONE + THREE))
        self.write(store, "sessions/gamma", TWO)
        assert read_all(store.log("sessions/gamma")) == ONE + THREE + TWO
        assert store.is_archived(_TO)
        assert not store.is_archived("sessions/gamma")

    def test_c75_forms_move_and_drop(self) -> None:
        """Branches and archives are moved and dropped like any other key."""
        store = self.fresh(ONE, TWO)
        if not self._can_branch(store):
            return
        store.branch(self.KEY, _TO, len(ONE))
        if store.capabilities.archives:
            store.archive(self.KEY)
        for key in (self.KEY, _TO):
            name = key.rpartition("/")[2]
            whole = read_all(store.log(key))
            store.move(key, f"trash/{name}")
            assert read_all(store.log(f"trash/{name}")) == whole
            assert not store.exists(key)
            store.move(f"trash/{name}", key)
            assert read_all(self.again(store).log(key)) == whole
            store.drop(key)
        assert list(store.entries()) == []

    def test_c76_reserved_names(self) -> None:
        """The names that a store may use for a log are not allowed for documents."""
        documents = self.fresh().documents(self.KEY)
        for name in ("base.json", "base.jsonl", "base.2.jsonl", "own.jsonl", "events.jsonl.zst"):
            refused(InvalidId, documents.put, name, b"1")

    def _can_branch(self, store: Store) -> bool:
        """Return whether there is anything to branch; a branch of nothing is NotFound."""
        if store.capabilities.stores:
            return True
        refused(NotFound, store.branch, self.KEY, _TO, 1)
        return False

    def _can_archive(self, store: Store) -> bool:
        return store.capabilities.stores and store.capabilities.archives
