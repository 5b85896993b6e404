-- Names, heads, pieces and documents of sessions, split by session; where the version is kept.
CREATE TABLE migrations (version int NOT NULL);
INSERT INTO migrations VALUES (0);
CREATE TABLE names (
    key text PRIMARY KEY,
    folder text NOT NULL,
    folded text NOT NULL,
    id uuid NOT NULL
);
CREATE INDEX names_by_folder ON names (folder, key);
CREATE INDEX names_by_fold ON names (folded);
CREATE TABLE heads (
    id uuid PRIMARY KEY,
    generation bigint NOT NULL DEFAULT 0,
    size bigint NOT NULL DEFAULT 0,
    modified timestamptz NOT NULL DEFAULT clock_timestamp(),
    version xid8 NOT NULL DEFAULT pg_current_xact_id(),
    archived boolean NOT NULL DEFAULT false,
    epoch bigint NOT NULL DEFAULT 0,
    holder bytea,
    expires timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- See CHANGES_TOGETHER_BITS in schema.py.
    changed bigint NOT NULL GENERATED ALWAYS AS (version::text::bigint >> 8) STORED
) PARTITION BY HASH (id);
CREATE INDEX heads_by_change ON heads (changed);
CREATE TABLE pieces (
    id uuid NOT NULL,
    generation bigint NOT NULL,
    start bigint NOT NULL,
    size bigint NOT NULL,
    data bytea NOT NULL,
    packed boolean NOT NULL DEFAULT false,
    PRIMARY KEY (id, generation, start)
) PARTITION BY HASH (id);
CREATE TABLE documents (
    id uuid NOT NULL,
    name text NOT NULL,
    etag text NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (id, name)
) PARTITION BY HASH (id);
CREATE TABLE identity (name uuid NOT NULL DEFAULT gen_random_uuid());
INSERT INTO identity DEFAULT VALUES;
DO $$
BEGIN
    FOR number IN 0..15 LOOP
        -- Heads are moved inside their page, which keeps room for that.
        EXECUTE format('CREATE TABLE heads_%1$s PARTITION OF heads'
            ' FOR VALUES WITH (MODULUS 16, REMAINDER %1$s) WITH (fillfactor = 70)', number);
        EXECUTE format('CREATE TABLE pieces_%1$s PARTITION OF pieces'
            ' FOR VALUES WITH (MODULUS 16, REMAINDER %1$s)', number);
        EXECUTE format('CREATE TABLE documents_%1$s PARTITION OF documents'
            ' FOR VALUES WITH (MODULUS 16, REMAINDER %1$s)', number);
    END LOOP;
END $$;
