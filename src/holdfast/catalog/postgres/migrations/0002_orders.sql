-- What lists are sorted and narrowed by.
TRUNCATE catalog_sessions, catalog_labels, catalog_folds, catalog_said, catalog_words;
UPDATE catalog_state SET generation = gen_random_uuid(), mark = '';
ALTER TABLE catalog_sessions
    ADD created bigint NOT NULL,
    ADD title text COLLATE "C" NOT NULL,
    ADD messages bigint NOT NULL,
    ADD tokens bigint NOT NULL,
    ADD cost bigint NOT NULL,
    ADD size bigint NOT NULL,
    ADD text text COLLATE "C" NOT NULL;
CREATE INDEX catalog_by_created ON catalog_sessions (created, id);
CREATE INDEX catalog_by_title ON catalog_sessions (title, id);
CREATE INDEX catalog_by_messages ON catalog_sessions (messages, id);
CREATE INDEX catalog_by_tokens ON catalog_sessions (tokens, id);
CREATE INDEX catalog_by_cost ON catalog_sessions (cost, id);
CREATE INDEX catalog_by_size ON catalog_sessions (size, id);
