-- What was said where, and the words of it: a full-text table without the text itself.

CREATE TABLE said (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    last INTEGER,
    place INTEGER NOT NULL,
    time INTEGER NOT NULL,
    role INTEGER NOT NULL,
    tool INTEGER NOT NULL,
    name TEXT,
    streaming INTEGER NOT NULL
);
CREATE INDEX said_by_session ON said (session, seq);
CREATE VIRTUAL TABLE said_words USING fts5 (text, content = '', tokenize = 'ascii');
CREATE VIRTUAL TABLE said_vocabulary USING fts5vocab (said_words, row);
CREATE VIRTUAL TABLE said_instances USING fts5vocab (said_words, instance);
CREATE TABLE said_listeners (session INTEGER PRIMARY KEY, listener BLOB NOT NULL);
