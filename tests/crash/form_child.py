"""A process that branches, detaches and archives without end, until it is killed."""

from __future__ import annotations

import sys

from holdfast.storage import FileStore

LINE = b'{"text":"words that compress and words that do not"}\n' * 4000


def append(store, key, data):
    """One line more, under the lease."""
    lease, log = store.lease(key), store.log(key)
    log.append(data, 0, 1, lease.acquire("child", 0))
    log.sync()
    log.close()
    lease.release()


def main(root, number):
    """Say each line that is safe; then go on with the next."""
    store = FileStore(root)
    newest = f"sessions/r{number}-0"
    append(store, newest, b"0\n" + LINE)
    for step in range(1, 10_000):
        print("safe", newest, store.log(newest).size(), flush=True)  # noqa: T201 - to the other side
        older, newest = newest, f"sessions/r{number}-{step}"
        store.branch(older, newest, store.log(older).size())
        store.archive(older)
        append(store, newest, b"%d\n" % step)
        append(store, older, b"more\n")
        store.detach(newest)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
