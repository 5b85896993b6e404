-- What went leaves a row here for a while, so that whoever keeps a list need not compare all names.
CREATE TABLE removals (
    key text PRIMARY KEY,
    folder text NOT NULL,
    version xid8 NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX removals_by_version ON removals (folder, version);
CREATE INDEX removals_by_time ON removals (at);
CREATE INDEX names_by_id ON names (id);
ALTER TABLE identity ADD COLUMN forgotten xid8 NOT NULL DEFAULT '0';
