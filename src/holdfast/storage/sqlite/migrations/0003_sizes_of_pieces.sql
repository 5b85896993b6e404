-- The size of a log is where its last piece ends: an append need not write it a second time.
ALTER TABLE keys DROP COLUMN size;
CREATE INDEX keys_by_time ON keys (folder, modified);
