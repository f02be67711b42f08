-- The only clock: leases and expiry are reckoned by the database alone.
SET ROLE dedupe_owner;

-- Microseconds since 1970. A function of our own, so that there is one place
-- to read it and a test can put its own clock in. Whole numbers, because the
-- times made of them, to_timestamp(us::float8 / 1000000), are exact until the
-- year 2255, and IMMUTABLE where `timestamptz + interval` is not: they may
-- stand in an UPDATE that a distributed PostgreSQL sends to its workers.
CREATE FUNCTION dedupe.now_us() RETURNS bigint
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
  RETURN (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint;
END
$$;

REVOKE EXECUTE ON FUNCTION dedupe.now_us() FROM PUBLIC;

INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (3, 'create_clock', 3);

RESET ROLE;
