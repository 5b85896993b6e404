-- The heads of a store that was made before they were kept as the first step makes them now.
DO $$
DECLARE part regclass;
BEGIN
    IF EXISTS (
        SELECT 1 FROM pg_attribute
        WHERE attrelid = 'heads'::regclass AND attname = 'changed' AND NOT attisdropped
    ) THEN
        RETURN;
    END IF;
    DROP INDEX heads_by_version;
    FOR part IN
        SELECT c.oid::regclass FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
            AND c.relname ~ '^heads(_[0-9]+)?$'
    LOOP
        EXECUTE format('ALTER TABLE %s SET (fillfactor = 70)', part);
    END LOOP;
    ALTER TABLE heads ADD COLUMN changed bigint NOT NULL GENERATED ALWAYS AS (version::text::bigint >> 8) STORED;
    CREATE INDEX heads_by_change ON heads (changed);
END $$;
