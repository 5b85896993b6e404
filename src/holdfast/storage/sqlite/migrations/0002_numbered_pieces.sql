-- 36 bits of a number are the place in the log: see rows.py.
CREATE TABLE numbered (
    number INTEGER PRIMARY KEY,
    size INTEGER NOT NULL,
    data BLOB NOT NULL,
    packed INTEGER NOT NULL DEFAULT 0
);
INSERT INTO numbered
    SELECT (id << 36) + start, size, data, packed FROM pieces ORDER BY id, start;
DROP TABLE pieces;
ALTER TABLE numbered RENAME TO pieces;
