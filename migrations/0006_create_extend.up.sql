-- Extend: a holder that needs longer renews its lease.
SET ROLE dedupe_owner;

CREATE TYPE dedupe.extend_answer AS (
  client_id text,
  key text,
  -- extended; or, refused with nothing changed: already_completed, lease_lost,
  -- key_unknown, damaged, retry.
  outcome text,
  lease_expires_at timestamptz,
  decided_at timestamptz
);

-- One answer per item, in no promised order; the pairs (client_id, key) must
-- differ and be sorted. NULL in leases_us is the default, NULL in checkpoints
-- keeps the one that is there. Never shortens a lease.
CREATE FUNCTION dedupe.extend_batch(
  client_ids text[],
  keys text[],
  attempt_ids text[],
  fences bigint[],
  leases_us bigint[],
  checkpoints bytea[]
) RETURNS SETOF dedupe.extend_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
SET lock_timeout = '50ms'
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
  lease_default_us CONSTANT bigint := 30 * 1000000;
  now_us CONSTANT bigint := dedupe.now_us();
  now_at CONSTANT timestamptz := to_timestamp(now_us::float8 / 1000000);
  settled integer[] := '{}';
  item record;
  answer dedupe.extend_answer;
BEGIN
  IF 100000 > ANY (leases_us) OR 900000000 < ANY (leases_us) THEN
    RAISE EXCEPTION 'a lease is between 100 ms and 15 minutes'
      USING ERRCODE = 'invalid_parameter_value';
  END IF;

  FOR item IN
    UPDATE dedupe.record AS t
    SET
      lease_expires_at = greatest(t.lease_expires_at, w.lease_end),
      expires_at = CASE
        WHEN t.expires_at IS NULL OR t.lease_expires_at >= w.lease_end
          THEN t.expires_at
        ELSE to_timestamp((w.lease_end_us + t.ttl_us)::float8 / 1000000) END,
      checkpoint = coalesce(checkpoints[w.position], t.checkpoint)
    FROM (
      SELECT p AS position, e.lease_end_us,
        to_timestamp(e.lease_end_us::float8 / 1000000) AS lease_end
      FROM generate_series(1, cardinality(keys)) AS p
      CROSS JOIN LATERAL (
        SELECT now_us + coalesce(leases_us[p], lease_default_us)
          AS lease_end_us) AS e
    ) AS w
    WHERE t.client_id = client_ids[w.position]
      AND t.key = keys[w.position]
      AND t.attempt_id = attempt_ids[w.position]
      AND t.fence = fences[w.position]
      AND t.state = 'in_progress'
      AND (t.expires_at <= now_at) IS NOT TRUE
    RETURNING w.position, t.client_id, t.key, t.lease_expires_at
  LOOP
    settled := settled || item.position;
    answer.client_id := item.client_id;
    answer.key := item.key;
    answer.outcome := 'extended';
    answer.lease_expires_at := item.lease_expires_at;
    answer.decided_at := now_at;
    RETURN NEXT answer;
  END LOOP;
  IF cardinality(settled) = cardinality(keys) THEN
    RETURN;
  END IF;

  FOR item IN
    SELECT
      client_ids[p] AS client_id,
      keys[p] AS key,
      dedupe.judge_holder(t, attempt_ids[p], fences[p], now_at) AS verdict
    FROM generate_series(1, cardinality(keys)) AS p
    LEFT JOIN dedupe.record AS t
      ON t.client_id = client_ids[p] AND t.key = keys[p]
    WHERE p <> ALL (settled)
  LOOP
    answer := NULL;
    answer.client_id := item.client_id;
    answer.key := item.key;
    answer.decided_at := now_at;
    answer.outcome := CASE item.verdict
      WHEN 'absent' THEN 'key_unknown'
      WHEN 'lost' THEN 'lease_lost'
      WHEN 'released' THEN 'lease_lost'
      WHEN 'held' THEN 'retry'
      WHEN 'completed' THEN 'already_completed'
      ELSE 'damaged' END;
    RETURN NEXT answer;
  END LOOP;
END
$$;

REVOKE EXECUTE ON FUNCTION
  dedupe.extend_batch(text[], text[], text[], bigint[], bigint[], bytea[])
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
  dedupe.extend_batch(text[], text[], text[], bigint[], bigint[], bytea[])
TO dedupe_runtime;

INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (6, 'create_extend', 6);

RESET ROLE;
