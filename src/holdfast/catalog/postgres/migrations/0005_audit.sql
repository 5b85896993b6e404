-- When a comparison with the logs began last, or the tables were made: in ms since 1970.
ALTER TABLE catalog_state ADD audited bigint NOT NULL
    DEFAULT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
