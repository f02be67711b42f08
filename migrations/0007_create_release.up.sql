-- Release: the key is free for the next attempt, because nothing happened.
SET ROLE dedupe_owner;

CREATE TYPE dedupe.release_answer AS (
  client_id text,
  key text,
  -- released; or, refused with nothing changed: already_completed, lease_lost,
  -- key_unknown, damaged, retry.
  outcome text,
  expires_at timestamptz,
  decided_at timestamptz
);

-- One answer per item, in no promised order; the pairs (client_id, key) must
-- differ and be sorted. Only right if the attempt has changed nothing anywhere:
-- the next attempt runs at once and is not told to look.
--
-- The record stays, and with it the fence, the attempt ids that are used up
-- and, unless forget_fingerprints says otherwise, the request it is bound to.
CREATE FUNCTION dedupe.release_batch(
  client_ids text[],
  keys text[],
  attempt_ids text[],
  fences bigint[],
  forget_fingerprints boolean[]
) RETURNS SETOF dedupe.release_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
SET lock_timeout = '50ms'
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
  -- A record remembers so many used up attempt ids: more than the copies of
  -- old calls that a network holds, and at most 4 KiB.
  finished_attempts_max CONSTANT integer := 64;
  now_us CONSTANT bigint := dedupe.now_us();
  now_at CONSTANT timestamptz := to_timestamp(now_us::float8 / 1000000);
  settled integer[] := '{}';
  item record;
  answer dedupe.release_answer;
BEGIN
  FOR item IN
    UPDATE dedupe.record AS t
    SET
      state = 'released',
      lease_expires_at = NULL,
      -- The second Release of one attempt changes nothing but, where asked,
      -- the binding.
      expires_at = CASE t.state WHEN 'released' THEN t.expires_at
        ELSE to_timestamp((now_us + t.ttl_us)::float8 / 1000000) END,
      finished_attempts = CASE t.state WHEN 'released' THEN t.finished_attempts
        ELSE (t.finished_attempts || t.attempt_id)[
          greatest(1, cardinality(t.finished_attempts) + 2
                      - finished_attempts_max):] END,
      fingerprint = CASE WHEN forget_fingerprints[p] THEN NULL
        ELSE t.fingerprint END,
      operation = CASE WHEN forget_fingerprints[p] THEN ''
        ELSE t.operation END
    FROM generate_series(1, cardinality(keys)) AS p
    WHERE t.client_id = client_ids[p]
      AND t.key = keys[p]
      AND t.attempt_id = attempt_ids[p]
      AND t.fence = fences[p]
      AND t.state IN ('in_progress', 'released')
      AND (t.expires_at <= now_at) IS NOT TRUE
    RETURNING p AS position, t.client_id, t.key, t.expires_at
  LOOP
    settled := settled || item.position;
    answer.client_id := item.client_id;
    answer.key := item.key;
    answer.outcome := 'released';
    answer.expires_at := item.expires_at;
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
      WHEN 'held' THEN 'retry'
      WHEN 'released' THEN 'retry'
      WHEN 'completed' THEN 'already_completed'
      ELSE 'damaged' END;
    RETURN NEXT answer;
  END LOOP;
END
$$;

REVOKE EXECUTE ON FUNCTION
  dedupe.release_batch(text[], text[], text[], bigint[], boolean[])
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
  dedupe.release_batch(text[], text[], text[], bigint[], boolean[])
TO dedupe_runtime;

INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (7, 'create_release', 7);

RESET ROLE;
