-- Rows of sessions, their labels, what is kept to go on from, and the words that were said.
-- What is left of tables whose version is not known goes first.
DROP TABLE IF EXISTS
    catalog_state, catalog_sessions, catalog_labels, catalog_folds, catalog_said, catalog_words;
CREATE TABLE catalog_state (
    version int NOT NULL, generation uuid NOT NULL, mark text NOT NULL
);
INSERT INTO catalog_state VALUES (0, gen_random_uuid(), '');
CREATE TABLE catalog_sessions (
    id text COLLATE "C" PRIMARY KEY,
    folded text COLLATE "C" NOT NULL,
    updated bigint NOT NULL,
    agent bytea,
    model bytea,
    parent bytea,
    cwd bytea,
    status text NOT NULL,
    archived boolean NOT NULL,
    settled boolean NOT NULL,
    etag text NOT NULL,
    folder text NOT NULL,
    priced text NOT NULL,
    data bytea NOT NULL,
    crc bigint NOT NULL,
    trace bytea NOT NULL,
    trace_crc bigint NOT NULL
);
CREATE INDEX catalog_by_time ON catalog_sessions (updated, id);
CREATE INDEX catalog_by_agent ON catalog_sessions (agent, updated, id);
CREATE INDEX catalog_by_model ON catalog_sessions (model, updated, id);
CREATE INDEX catalog_by_parent ON catalog_sessions (parent, updated, id);
CREATE INDEX catalog_by_cwd ON catalog_sessions (cwd, updated, id);
CREATE INDEX catalog_by_status ON catalog_sessions (status, updated, id);
CREATE INDEX catalog_by_folded ON catalog_sessions (folded);
CREATE TABLE catalog_labels (
    tag bytea NOT NULL,
    updated bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    auto boolean NOT NULL,
    PRIMARY KEY (tag, updated, id)
);
CREATE INDEX catalog_labels_by_id ON catalog_labels (id);
CREATE TABLE catalog_folds (
    id text COLLATE "C" PRIMARY KEY,
    state bytea NOT NULL,
    tally bytea NOT NULL,
    listener bytea NOT NULL,
    said bigint NOT NULL,
    crc bigint NOT NULL
);
CREATE TABLE catalog_said (
    session text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    seq bigint NOT NULL,
    last bigint,
    place bigint NOT NULL,
    time bigint NOT NULL,
    role text NOT NULL,
    name bytea,
    streaming boolean NOT NULL,
    words tsvector NOT NULL,
    PRIMARY KEY (session, number)
);
CREATE INDEX catalog_said_by_seq ON catalog_said (session, seq);
CREATE INDEX catalog_said_by_time ON catalog_said (time, session, number);
CREATE INDEX catalog_said_words ON catalog_said USING gin (words);
CREATE TABLE catalog_words (word text COLLATE "C" PRIMARY KEY);
