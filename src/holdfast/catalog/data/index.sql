-- The tables of an index in SQLite. With every change of a table, or of what a row holds, raise
-- the version in sqlite/schema.py: an index of another version is made anew.

CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB, crc INTEGER) WITHOUT ROWID;
CREATE TABLE sessions (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    folder TEXT NOT NULL,
    folded TEXT NOT NULL,
    updated INTEGER NOT NULL,
    agent BLOB,
    model BLOB,
    parent BLOB,
    cwd BLOB,
    status TEXT NOT NULL,
    archived INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    asks INTEGER NOT NULL,
    created INTEGER NOT NULL,
    title BLOB NOT NULL,
    messages INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    cost INTEGER NOT NULL,
    size INTEGER NOT NULL,
    text BLOB NOT NULL,
    data BLOB NOT NULL,
    crc INTEGER NOT NULL,
    trace BLOB NOT NULL,
    trace_crc INTEGER NOT NULL
);
CREATE UNIQUE INDEX by_id ON sessions (id);
-- All that a look at the folders asks for, so that it reads little.
CREATE INDEX by_folder ON sessions (id, folder);
CREATE INDEX by_time ON sessions (updated, id);
CREATE INDEX by_agent ON sessions (agent, updated, id);
CREATE INDEX by_model ON sessions (model, updated, id);
CREATE INDEX by_parent ON sessions (parent, updated, id);
CREATE INDEX by_cwd ON sessions (cwd, updated, id);
CREATE INDEX by_status ON sessions (status, updated, id);
CREATE INDEX by_folded ON sessions (folded);
CREATE INDEX by_asks ON sessions (id) WHERE asks;
CREATE INDEX by_created ON sessions (created, id);
CREATE INDEX by_title ON sessions (title, id);
CREATE INDEX by_messages ON sessions (messages, id);
CREATE INDEX by_tokens ON sessions (tokens, id);
CREATE INDEX by_cost ON sessions (cost, id);
CREATE INDEX by_size ON sessions (size, id);
-- All that a list can be narrowed and sorted by, so that looking at everything reads little.
CREATE INDEX by_text ON sessions (
    updated, id, text, created, title, messages, tokens, cost, size, agent, model, parent, cwd,
    status, archived
);
CREATE TABLE labels (
    tag BLOB NOT NULL, updated INTEGER NOT NULL, id TEXT NOT NULL, row INTEGER NOT NULL,
    PRIMARY KEY (tag, updated, id)
) WITHOUT ROWID;
CREATE INDEX by_row ON labels (row);
CREATE TABLE folds (
    row INTEGER PRIMARY KEY, state BLOB NOT NULL, tally BLOB NOT NULL, crc INTEGER NOT NULL
);
-- Statistics that were added up before, one sum for each block of rows.
CREATE TABLE figures (
    block INTEGER NOT NULL, variant TEXT NOT NULL, data BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (block, variant)
) WITHOUT ROWID;
