-- Figures and words know the calls of messages that say of themselves what they ask for.
TRUNCATE catalog_sessions, catalog_labels, catalog_folds, catalog_said, catalog_words;
UPDATE catalog_state SET generation = gen_random_uuid(), mark = '';
