CREATE TABLE store (version INTEGER NOT NULL);
INSERT INTO store VALUES (0);
CREATE TABLE keys (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    folder TEXT NOT NULL,
    folded TEXT NOT NULL,
    generation INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0,
    modified INTEGER NOT NULL DEFAULT 0,
    version INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0,
    epoch INTEGER NOT NULL DEFAULT 0,
    holder BLOB,
    expires INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX keys_by_fold ON keys (folded);
CREATE INDEX keys_by_version ON keys (folder, version);
CREATE TABLE pieces (
    id INTEGER NOT NULL,
    start INTEGER NOT NULL,
    size INTEGER NOT NULL,
    data BLOB NOT NULL,
    packed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (id, start)
) WITHOUT ROWID;
CREATE TABLE documents (
    id INTEGER NOT NULL,
    name TEXT NOT NULL,
    etag TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (id, name)
);
