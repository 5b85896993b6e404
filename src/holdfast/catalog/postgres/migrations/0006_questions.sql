-- What is kept of a session knows the questions that it waits for, and which sessions have some.
TRUNCATE catalog_sessions, catalog_labels, catalog_folds, catalog_said, catalog_words;
ALTER TABLE catalog_sessions ADD COLUMN asks boolean NOT NULL;
CREATE INDEX catalog_by_asks ON catalog_sessions (id) WHERE asks;
UPDATE catalog_state SET generation = gen_random_uuid(), mark = '';
