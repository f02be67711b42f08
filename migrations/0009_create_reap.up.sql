-- Reap: records past their window are deleted, a few at a time.
SET ROLE dedupe_owner;

CREATE TYPE dedupe.reap_answer AS (
  -- Rows looked at: as many as the limit, then there may be more.
  examined integer,
  deleted integer,
  -- How long the oldest of them had been due.
  lag_us bigint,
  -- The clock ran past latest, so nothing was done.
  clock_refused boolean,
  decided_at timestamptz
);

-- Looks at up to row_limit rows that are due, passing over those that are
-- locked just now, deletes the expired and puts the others off. latest is the
-- latest time that the caller finds believable: a clock that jumped ahead must
-- not delete what is still needed. NULL trusts the clock.
CREATE FUNCTION dedupe.reap(row_limit integer, latest timestamptz)
RETURNS dedupe.reap_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
SET enable_seqscan = off
SET lock_timeout = '250ms'
AS $$
#variable_conflict use_column
DECLARE
  -- When to look again at a record in doubt, which does not expire.
  hold_recheck CONSTANT interval := '3600 seconds';
  now_at CONSTANT timestamptz :=
    to_timestamp(dedupe.now_us()::float8 / 1000000);
  due tid[];
  oldest timestamptz;
  answer dedupe.reap_answer;
BEGIN
  answer.decided_at := now_at;
  answer.clock_refused := coalesce(now_at > latest, false);
  answer.examined := 0;
  answer.deleted := 0;
  answer.lag_us := 0;
  IF answer.clock_refused THEN
    RETURN answer;
  END IF;

  SELECT array_agg(d.row_id), min(d.reap_after) INTO due, oldest
  FROM (
    SELECT ctid AS row_id, reap_after FROM dedupe.record
    WHERE reap_after <= now_at
    ORDER BY reap_after
    LIMIT row_limit
    FOR UPDATE SKIP LOCKED
  ) AS d;
  IF due IS NULL THEN
    RETURN answer;
  END IF;
  answer.examined := cardinality(due);
  answer.lag_us := (extract(epoch FROM now_at - oldest) * 1000000)::bigint;

  -- Expiry is tested again on the locked row. Two reapers at once wait for each
  -- other here, and not for the rows.
  UPDATE dedupe.fence_floor
  SET fence = greatest(fence, (
    SELECT max(r.fence) FROM dedupe.record AS r
    WHERE r.ctid = ANY (due) AND r.expires_at <= now_at))
  WHERE id AND fence < (
    SELECT max(r.fence) FROM dedupe.record AS r
    WHERE r.ctid = ANY (due) AND r.expires_at <= now_at);
  DELETE FROM dedupe.record
  WHERE ctid = ANY (due) AND expires_at <= now_at;
  GET DIAGNOSTICS answer.deleted = ROW_COUNT;

  IF answer.deleted < answer.examined THEN
    UPDATE dedupe.record
    SET reap_after = to_timestamp(ceil(
      extract(epoch FROM coalesce(expires_at, now_at + hold_recheck))::float8))
    WHERE ctid = ANY (due);
  END IF;
  RETURN answer;
END
$$;

REVOKE EXECUTE ON FUNCTION dedupe.reap(integer, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dedupe.reap(integer, timestamptz) TO dedupe_runtime;

INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (9, 'create_reap', 9);

RESET ROLE;
