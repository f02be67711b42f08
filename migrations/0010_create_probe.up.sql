-- Probe: can this database be written to, and which schema does it hold?
SET ROLE dedupe_owner;

-- Rows to write, again and again: so many that servers seldom meet at one, and
-- with room on their page, which keeps every update HOT.
CREATE TABLE dedupe.probe (
  id integer NOT NULL,
  probed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT probe_pkey PRIMARY KEY (id),
  CONSTRAINT probe_id_range CHECK (id BETWEEN 0 AND 63)
) WITH (fillfactor = 10);
INSERT INTO dedupe.probe (id) SELECT generate_series(0, 63);

CREATE TYPE dedupe.probe_answer AS (
  schema_version integer,
  -- The oldest server, by the newest migration it knows, that may serve.
  compatible_from integer,
  decided_at timestamptz
);

-- Only a write that commits proves that this is a primary with room on its
-- disk and, where replication is synchronous, with its standbys at hand.
CREATE FUNCTION dedupe.probe() RETURNS dedupe.probe_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
SET lock_timeout = '250ms'
AS $$
DECLARE
  answer dedupe.probe_answer;
BEGIN
  answer.decided_at := to_timestamp(dedupe.now_us()::float8 / 1000000);
  UPDATE dedupe.probe SET probed_at = answer.decided_at
  WHERE id = pg_backend_pid() % 64;
  SELECT v.version, v.compatible_from
  INTO answer.schema_version, answer.compatible_from
  FROM dedupe.schema_version AS v
  ORDER BY v.version DESC
  LIMIT 1;
  RETURN answer;
END
$$;

REVOKE EXECUTE ON FUNCTION dedupe.probe() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dedupe.probe() TO dedupe_runtime;

INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (10, 'create_probe', 10);

RESET ROLE;
