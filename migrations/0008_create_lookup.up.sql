-- Lookup: what became of the key? Reads and never writes.
SET ROLE dedupe_owner;

-- No attempt id: whoever may look must not be able to act in a holder's place.
CREATE TYPE dedupe.lookup_answer AS (
  client_id text,
  key text,
  -- absent, in_progress, released, in_doubt, completed, damaged.
  state text,
  operation text,
  attempt_number integer,
  created_at timestamptz,
  started_at timestamptz,
  lease_expires_at timestamptz,
  completed_at timestamptz,
  expires_at timestamptz,
  response_code integer,
  response_headers jsonb,
  response_body bytea,
  body_omitted boolean,
  decided_at timestamptz
);

-- One answer per item, in no promised order. Without with_responses the
-- response columns are NULL: for callers that only watch the state.
CREATE FUNCTION dedupe.lookup_batch(
  client_ids text[],
  keys text[],
  with_responses boolean
) RETURNS SETOF dedupe.lookup_answer
-- VOLATILE, so that the query's snapshot is younger than the clock's reading: a
-- lease that an Extend has renewed by then is not taken for lapsed.
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
  now_at CONSTANT timestamptz :=
    to_timestamp(dedupe.now_us()::float8 / 1000000);
BEGIN
  RETURN QUERY
  SELECT
    client_ids[p],
    keys[p],
    CASE
      WHEN t.client_id IS NULL THEN 'absent'
      WHEN t.fingerprint IS NULL AND t.state <> 'released' THEN 'damaged'
      WHEN t.state = 'in_progress' AND t.on_lease_expiry = 'hold'
        AND t.lease_expires_at <= now_at THEN 'in_doubt'
      ELSE t.state::text
    END,
    t.operation,
    t.attempt_number,
    t.created_at,
    t.started_at,
    t.lease_expires_at,
    t.completed_at,
    t.expires_at,
    CASE WHEN with_responses THEN t.response_code END,
    CASE WHEN with_responses THEN t.response_headers END,
    CASE WHEN with_responses THEN t.response_body END,
    CASE WHEN with_responses THEN t.body_omitted END,
    greatest(now_at, t.started_at, t.completed_at)
  FROM generate_series(1, cardinality(keys)) AS p
  LEFT JOIN dedupe.record AS t
    ON t.client_id = client_ids[p] AND t.key = keys[p]
      AND (t.expires_at <= now_at) IS NOT TRUE;
END
$$;

REVOKE EXECUTE ON FUNCTION dedupe.lookup_batch(text[], text[], boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dedupe.lookup_batch(text[], text[], boolean)
TO dedupe_runtime;

INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (8, 'create_lookup', 8);

RESET ROLE;
