"""Sessions in PostgreSQL, and what the server itself says: for the tests of the catalogue there."""

from __future__ import annotations

import asyncio

from holdfast.storage.postgres import link

QUICK = {"autosave_ms": 0, "snapshot_ms": 0}


def run(url, statement, *values):
    """What the server says to a statement, asked by someone who may do anything."""
    import asyncpg

    async def work():
        (address, *_), options = link.read_options(url)
        connection = await asyncpg.connect(address)
        try:
            await connection.execute(f"SET search_path TO {options.schema}, public")
            return [tuple(row) for row in await connection.fetch(statement, *values)]
        finally:
            await connection.close()

    return asyncio.run(work())


def say(hf, id, *texts, tags=(), at=None, **options):
    """A closed session with these words."""
    clock = {} if at is None else {"clock": lambda: at}
    with hf.session(id, **QUICK, **clock, **options) as s:
        for text in texts:
            s.user(text)
        if tags:
            s.tag(*tags)


def found(hits):
    """What was found, order aside."""
    return sorted((hit.session_id, hit.seq, hit.role, hit.tool, hit.snippet) for hit in hits)


def ids(page):
    return [row.session_id for row in page]
