-- What is kept of a session knows the questions that it waits for.
TRUNCATE catalog_sessions, catalog_labels, catalog_folds, catalog_said, catalog_words;
UPDATE catalog_state SET generation = gen_random_uuid(), mark = '';
