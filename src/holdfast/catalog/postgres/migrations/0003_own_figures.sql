-- Rows and figures say what happened in a session itself, apart from what it took over, and which
-- sessions failed.
TRUNCATE catalog_sessions, catalog_labels, catalog_folds, catalog_said, catalog_words;
UPDATE catalog_state SET generation = gen_random_uuid(), mark = '';
