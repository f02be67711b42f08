-- Complete: the response of a finished attempt is stored, once.
SET ROLE dedupe_owner;

-- What is a holder's claim on a record worth? `held`: it may change it;
-- `completed` or `released`: it was its own and is settled; `lost`: another
-- attempt's by now; `absent`: no record, or past its window.
CREATE FUNCTION dedupe.judge_holder(
  holder dedupe.record, attempt_id text, fence bigint, now_at timestamptz
) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = dedupe, pg_temp
AS $$
BEGIN
  RETURN CASE
    WHEN holder.client_id IS NULL OR holder.expires_at <= now_at THEN 'absent'
    WHEN holder.attempt_id IS DISTINCT FROM attempt_id
      OR holder.fence IS DISTINCT FROM fence THEN 'lost'
    WHEN holder.state = 'in_progress' THEN 'held'
    WHEN holder.state = 'completed' THEN 'completed'
    WHEN holder.state = 'released' THEN 'released'
    ELSE 'damaged'
  END;
END
$$;

CREATE TYPE dedupe.complete_answer AS (
  client_id text,
  key text,
  -- completed, already_completed; or, refused with nothing changed:
  -- response_conflict, lease_lost, key_unknown, damaged, retry.
  outcome text,
  completed_at timestamptz,
  expires_at timestamptz,
  decided_at timestamptz
);

-- One answer per item, in no promised order; the pairs (client_id, key) must
-- differ and be sorted. A NULL body is one that the caller left out.
--
-- A lease that has lapsed may still complete: only a takeover, which changes
-- attempt and fence, takes the right away.
CREATE FUNCTION dedupe.complete_batch(
  client_ids text[],
  keys text[],
  attempt_ids text[],
  fences bigint[],
  codes integer[],
  headers jsonb[],
  bodies bytea[]
) RETURNS SETOF dedupe.complete_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
SET lock_timeout = '50ms'
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
  now_us CONSTANT bigint := dedupe.now_us();
  now_at CONSTANT timestamptz := to_timestamp(now_us::float8 / 1000000);
  settled integer[] := '{}';
  item record;
  answer dedupe.complete_answer;
BEGIN
  FOR item IN
    UPDATE dedupe.record AS t
    SET
      state = 'completed',
      completed_at = now_at,
      expires_at = to_timestamp((now_us + t.ttl_us)::float8 / 1000000),
      lease_expires_at = NULL,
      checkpoint = NULL,
      finished_attempts = NULL,
      response_code = codes[p],
      response_headers = nullif(headers[p], '[]'),
      response_body = bodies[p],
      body_omitted = bodies[p] IS NULL
    FROM generate_series(1, cardinality(keys)) AS p
    WHERE t.client_id = client_ids[p]
      AND t.key = keys[p]
      AND t.attempt_id = attempt_ids[p]
      AND t.fence = fences[p]
      AND t.state = 'in_progress'
      AND (t.expires_at <= now_at) IS NOT TRUE
    RETURNING p AS position, t.client_id, t.key, t.completed_at, t.expires_at
  LOOP
    settled := settled || item.position;
    answer.client_id := item.client_id;
    answer.key := item.key;
    answer.outcome := 'completed';
    answer.completed_at := item.completed_at;
    answer.expires_at := item.expires_at;
    answer.decided_at := now_at;
    RETURN NEXT answer;
  END LOOP;
  IF cardinality(settled) = cardinality(keys) THEN
    RETURN;
  END IF;

  -- Why not? A new snapshot; whatever stood in the way then does so now.
  FOR item IN
    SELECT
      client_ids[p] AS client_id,
      keys[p] AS key,
      dedupe.judge_holder(t, attempt_ids[p], fences[p], now_at) AS verdict,
      t.response_code = codes[p]
        AND t.response_headers IS NOT DISTINCT FROM nullif(headers[p], '[]')
        AND t.response_body IS NOT DISTINCT FROM bodies[p] AS same_response,
      t.completed_at,
      t.expires_at
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
      WHEN 'completed' THEN CASE WHEN item.same_response
        THEN 'already_completed' ELSE 'response_conflict' END
      ELSE 'damaged' END;
    IF answer.outcome = 'already_completed' THEN
      answer.completed_at := item.completed_at;
      answer.expires_at := item.expires_at;
      -- It may have been completed since the clock was read.
      answer.decided_at := greatest(now_at, item.completed_at);
    END IF;
    RETURN NEXT answer;
  END LOOP;
END
$$;

REVOKE EXECUTE ON FUNCTION
  dedupe.judge_holder(dedupe.record, text, bigint, timestamptz),
  dedupe.complete_batch(text[], text[], text[], bigint[], integer[], jsonb[], bytea[])
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
  dedupe.complete_batch(text[], text[], text[], bigint[], integer[], jsonb[], bytea[])
TO dedupe_runtime;

INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (5, 'create_complete', 5);

RESET ROLE;
