-- PostgreSQL's first way to compress takes far longer than all else that an append does. A server
-- that was built without the other one keeps the first; both can be read side by side.
DO $$
DECLARE part regclass;
BEGIN
    FOR part IN
        SELECT c.oid::regclass FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
            AND c.relname ~ '^(pieces|documents)(_[0-9]+)?$'
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN data SET COMPRESSION lz4', part);
    END LOOP;
EXCEPTION WHEN feature_not_supported THEN
    RAISE NOTICE 'this server has no lz4';
END $$;
