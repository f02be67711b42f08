-- Begin: may this attempt run, or what became of the key?
SET ROLE dedupe_owner;

-- Only the columns that belong to the outcome are set.
CREATE TYPE dedupe.begin_answer AS (
  client_id text,
  key text,
  -- started, replay, in_progress (a lease is live, or has lapsed while its
  -- holder's transaction is still open), mismatch, in_doubt; or, refused with nothing
  -- changed: attempt_finished, damaged (the row breaks our own rules), retry
  -- (others kept changing the row: ask again).
  outcome text,
  fence bigint,
  attempt_number integer,
  -- This same attempt held the lease already.
  resumed boolean,
  -- An earlier attempt may have acted: find out before acting again.
  taken_over boolean,
  checkpoint bytea,
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

-- One answer per item, in no promised order. The pairs (client_id, key) must
-- differ, and be sorted alike by every caller, or two batches may deadlock.
-- NULL in leases_us, ttls_us or policies is the default.
--
-- Read first, then write only what must change: replays, mismatches and
-- in-progress answers take no row lock and never wait for somebody's open
-- transaction. What was read is changed under compare-and-set; whoever lost a
-- race is judged anew on a fresh snapshot.
CREATE FUNCTION dedupe.begin_batch(
  client_ids text[],
  keys text[],
  operations text[],
  fingerprints bytea[],
  attempt_ids text[],
  leases_us bigint[],
  ttls_us bigint[],
  policies dedupe.lease_policy[]
) RETURNS SETOF dedupe.begin_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
-- A lock held for longer than commits take is somebody's open transaction.
SET lock_timeout = '50ms'
-- Only look-ups by key, whatever the statistics say.
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
  lease_default_us CONSTANT bigint := 30 * 1000000;
  ttl_default_us CONSTANT bigint := 24 * 3600 * 1000000::bigint;
  rounds_max CONSTANT integer := 3;
  fence_floor bigint;
  now_us bigint;
  now_at timestamptz;
  lease_us bigint;
  ttl_us bigint;
  -- Positions in the arrays: those without an answer, and of these in this
  -- round the keys to claim and the rows to change.
  open_items integer[] := ARRAY(SELECT generate_series(1, cardinality(keys)));
  claims integer[];
  changes integer[];
  -- For each change: why, the lease to give, and what was seen.
  verdicts text[];
  lease_ends_us bigint[];
  seen_fences bigint[];
  seen_states dedupe.record_state[];
  seen_leases timestamptz[];
  seen_starts timestamptz[];
  -- What this round's writes have settled.
  won_client_ids text[];
  won_keys text[];
  changed integer[];
  item_position integer;
  item record;
  answer dedupe.begin_answer;
BEGIN
  -- Every round must see what others have committed meanwhile.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'begin needs isolation level read committed'
      USING ERRCODE = 'DD007',
            HINT = 'Call it in a transaction of its own, before the work.';
  END IF;
  -- NULL equals nothing, not even another request's fingerprint.
  IF array_position(operations, NULL) IS NOT NULL
    OR array_position(fingerprints, NULL) IS NOT NULL
    OR array_position(attempt_ids, NULL) IS NOT NULL
  THEN
    RAISE EXCEPTION 'operation, fingerprint and attempt_id must not be NULL'
      USING ERRCODE = 'null_value_not_allowed';
  END IF;

  FOR round IN 1..rounds_max LOOP
    EXIT WHEN cardinality(open_items) = 0;
    claims := '{}';
    changes := '{}';
    verdicts := '{}';
    lease_ends_us := '{}';
    seen_fences := '{}';
    seen_states := '{}';
    seen_leases := '{}';
    seen_starts := '{}';
    won_client_ids := '{}';
    won_keys := '{}';
    changed := '{}';
    now_us := dedupe.now_us();
    now_at := to_timestamp(now_us::float8 / 1000000);

    FOR item IN
      SELECT p AS position, t.*,
        CASE
          WHEN t.client_id IS NULL THEN 'claim'
          WHEN t.expires_at <= now_at THEN 'renew'
          WHEN t.fingerprint IS NULL AND t.state <> 'released' THEN 'damaged'
          -- First of all for a live record: whoever brings another request
          -- learns nothing about this one.
          WHEN t.fingerprint <> fingerprints[p]
            OR (t.operation <> operations[p] AND t.fingerprint IS NOT NULL)
            THEN 'mismatch'
          WHEN t.state = 'completed' THEN 'replay'
          WHEN attempt_ids[p] = ANY (t.finished_attempts)
            THEN 'attempt_finished'
          WHEN t.state = 'released' THEN 'restart'
          WHEN t.state <> 'in_progress' THEN 'damaged'
          WHEN t.attempt_id = attempt_ids[p] THEN 'resume'
          WHEN t.lease_expires_at > now_at THEN 'in_progress'
          WHEN t.on_lease_expiry = 'hold' THEN 'in_doubt'
          ELSE 'takeover'
        END AS verdict
      FROM unnest(open_items) AS p
      LEFT JOIN dedupe.record AS t
        ON t.client_id = client_ids[p] AND t.key = keys[p]
    LOOP
      lease_us := coalesce(leases_us[item.position], lease_default_us);
      IF lease_us NOT BETWEEN 100000 AND 900000000 THEN
        RAISE EXCEPTION 'a lease is between 100 ms and 15 minutes'
          USING ERRCODE = 'invalid_parameter_value';
      END IF;
      ttl_us := coalesce(ttls_us[item.position], ttl_default_us);
      IF ttl_us NOT BETWEEN 100000 AND 2678400000000 THEN
        RAISE EXCEPTION 'a ttl is between 100 ms and 31 days'
          USING ERRCODE = 'invalid_parameter_value';
      END IF;
      IF item.verdict = 'claim' THEN
        claims := claims || item.position;
        CONTINUE;
      END IF;
      IF item.verdict IN ('renew', 'restart', 'resume', 'takeover') THEN
        changes := changes || item.position;
        verdicts := verdicts || item.verdict;
        lease_ends_us := lease_ends_us || CASE item.verdict
          WHEN 'resume' THEN greatest(
            now_us + lease_us,
            (extract(epoch FROM item.lease_expires_at) * 1000000)::bigint)
          ELSE now_us + lease_us END;
        seen_fences := seen_fences || item.fence;
        seen_states := seen_states || item.state;
        seen_leases := array_append(seen_leases, item.lease_expires_at);
        seen_starts := seen_starts || item.started_at;
        CONTINUE;
      END IF;
      answer := NULL;
      answer.client_id := client_ids[item.position];
      answer.key := keys[item.position];
      answer.outcome := item.verdict;
      -- What was read may have been written since the clock was.
      answer.decided_at := greatest(now_at, item.started_at, item.completed_at);
      IF item.verdict = 'replay' THEN
        answer.completed_at := item.completed_at;
        answer.expires_at := item.expires_at;
        answer.response_code := item.response_code;
        answer.response_headers := item.response_headers;
        answer.response_body := item.response_body;
        answer.body_omitted := item.body_omitted;
      ELSIF item.verdict = 'in_progress' THEN
        answer.started_at := item.started_at;
        answer.lease_expires_at := item.lease_expires_at;
      ELSIF item.verdict = 'mismatch' THEN
        answer.created_at := item.created_at;
      ELSIF item.verdict = 'in_doubt' THEN
        answer.lease_expires_at := item.lease_expires_at;
        answer.attempt_number := item.attempt_number;
      END IF;
      RETURN NEXT answer;
    END LOOP;

    -- New rows first, then changes, each in order: so no two batches can come
    -- to wait for each other. (The other way round one could hold a row that
    -- it changes while it waits to insert what the other has inserted, and the
    -- other, which has not yet seen that row, wait to insert that.)
    IF cardinality(claims) > 0 THEN
      -- Read after the rows were found absent: whoever deleted them has raised
      -- it in the same transaction.
      SELECT f.fence INTO STRICT fence_floor
      FROM dedupe.fence_floor AS f WHERE f.id;
      FOR item IN
        INSERT INTO dedupe.record (
          client_id, key, operation, fingerprint, state, on_lease_expiry,
          attempt_id, attempt_number, taken_over, fence, ttl_us, created_at,
          started_at, lease_expires_at, expires_at, reap_after)
        SELECT
          client_ids[p], keys[p], operations[p], fingerprints[p],
          'in_progress', coalesce(policies[p], 'takeover'),
          attempt_ids[p], 1, false, greatest(now_us, fence_floor + 1), w.ttl_us,
          now_at,
          now_at,
          to_timestamp((now_us + w.lease_us)::float8 / 1000000),
          CASE WHEN policies[p] = 'hold' THEN NULL ELSE to_timestamp(
            (now_us + w.lease_us + w.ttl_us)::float8 / 1000000) END,
          -- A guess: work that takes an eighth of the ttl, or a second, has
          -- expired by then. In whole seconds, so that the index can store
          -- many rows under one value.
          to_timestamp(ceil(
            (now_us + w.ttl_us
             + least(w.lease_us, greatest(1000000, w.ttl_us / 8))
            )::float8 / 1000000))
        FROM unnest(claims) AS p
        CROSS JOIN LATERAL (SELECT
          coalesce(leases_us[p], lease_default_us) AS lease_us,
          coalesce(ttls_us[p], ttl_default_us) AS ttl_us) AS w
        ON CONFLICT (client_id, key) DO NOTHING
        RETURNING client_id, key, fence, lease_expires_at
      LOOP
        answer := NULL;
        answer.client_id := item.client_id;
        answer.key := item.key;
        answer.outcome := 'started';
        answer.fence := item.fence;
        answer.attempt_number := 1;
        answer.resumed := false;
        answer.taken_over := false;
        answer.lease_expires_at := item.lease_expires_at;
        answer.decided_at := now_at;
        won_client_ids := won_client_ids || item.client_id;
        won_keys := won_keys || item.key;
        RETURN NEXT answer;
      END LOOP;
    END IF;

    IF cardinality(changes) > 0 THEN
      BEGIN
        FOR item IN
          UPDATE dedupe.record AS t
          SET
            fence = CASE c.verdict WHEN 'resume' THEN t.fence
              ELSE greatest(t.fence + 1, now_us) END,
            attempt_number = CASE c.verdict WHEN 'renew' THEN 1
              WHEN 'resume' THEN t.attempt_number
              ELSE t.attempt_number + 1 END,
            state = 'in_progress',
            operation = operations[c.position],
            fingerprint = fingerprints[c.position],
            attempt_id = attempt_ids[c.position],
            ttl_us = coalesce(ttls_us[c.position], ttl_default_us),
            on_lease_expiry = coalesce(policies[c.position], 'takeover'),
            lease_expires_at = to_timestamp(c.lease_end_us::float8 / 1000000),
            expires_at = CASE WHEN policies[c.position] = 'hold' THEN NULL
              ELSE to_timestamp(
                (c.lease_end_us + coalesce(ttls_us[c.position], ttl_default_us)
                )::float8 / 1000000) END,
            created_at = CASE c.verdict WHEN 'renew' THEN now_at
              ELSE t.created_at END,
            started_at = CASE c.verdict WHEN 'resume' THEN t.started_at
              ELSE now_at END,
            taken_over = CASE c.verdict WHEN 'renew' THEN false
              WHEN 'takeover' THEN true
              ELSE t.taken_over END,
            finished_attempts = CASE c.verdict WHEN 'renew' THEN NULL
              ELSE t.finished_attempts END,
            checkpoint = CASE c.verdict WHEN 'renew' THEN NULL
              ELSE t.checkpoint END,
            completed_at = NULL,
            response_code = NULL,
            response_headers = NULL,
            response_body = NULL,
            body_omitted = false
          FROM unnest(changes, verdicts, lease_ends_us, seen_fences, seen_states,
                      seen_leases)
            AS c (position, verdict, lease_end_us, fence, state, lease)
          WHERE t.client_id = client_ids[c.position]
            AND t.key = keys[c.position]
            AND t.fence = c.fence
            AND t.state = c.state
            AND t.lease_expires_at IS NOT DISTINCT FROM c.lease
          RETURNING c.position, c.verdict, t.client_id, t.key, t.fence,
            t.attempt_number, t.taken_over, t.checkpoint, t.lease_expires_at
        LOOP
          answer := NULL;
          answer.client_id := item.client_id;
          answer.key := item.key;
          answer.outcome := 'started';
          answer.fence := item.fence;
          answer.attempt_number := item.attempt_number;
          answer.resumed := item.verdict = 'resume';
          answer.taken_over := item.taken_over;
          answer.checkpoint := item.checkpoint;
          answer.lease_expires_at := item.lease_expires_at;
          answer.decided_at := now_at;
          changed := changed || item.position;
          RETURN NEXT answer;
        END LOOP;
      EXCEPTION WHEN lock_not_available THEN
        -- Somebody's open transaction is about to change the row: a holder's
        -- that has completed and not yet committed, as a rule. Among several
        -- items it cannot be told which row it is; the caller then asks for
        -- each alone.
        IF cardinality(changes) > 1 OR verdicts[1] <> 'takeover'
          OR cardinality(open_items) > 1
        THEN
          RAISE;
        END IF;
        answer := NULL;
        answer.client_id := client_ids[changes[1]];
        answer.key := keys[changes[1]];
        answer.outcome := 'in_progress';
        answer.started_at := seen_starts[1];
        answer.lease_expires_at := seen_leases[1];
        answer.decided_at := now_at;
        RETURN NEXT answer;
        RETURN;
      END;
    END IF;

    -- Whoever lost a race goes into the next round.
    IF cardinality(won_keys) = cardinality(claims)
      AND cardinality(changed) = cardinality(changes)
    THEN
      RETURN;
    END IF;
    open_items := ARRAY(
      SELECT p FROM unnest(claims) AS p
      WHERE NOT EXISTS (
        SELECT FROM unnest(won_client_ids, won_keys) AS w (client_id, key)
        WHERE w.client_id = client_ids[p] AND w.key = keys[p])
      UNION ALL
      SELECT p FROM unnest(changes) AS p WHERE p <> ALL (changed)
      ORDER BY p);
    -- But not a batch that holds rows, which a refused UPDATE does as well as
    -- one that took place: to go back for earlier keys would be out of order,
    -- and could deadlock with another batch.
    EXIT WHEN cardinality(keys) > 1
      AND cardinality(won_keys) + cardinality(changes) > 0;
  END LOOP;

  FOREACH item_position IN ARRAY open_items LOOP
    answer := NULL;
    answer.client_id := client_ids[item_position];
    answer.key := keys[item_position];
    answer.outcome := 'retry';
    answer.decided_at := now_at;
    RETURN NEXT answer;
  END LOOP;
END
$$;

REVOKE EXECUTE ON FUNCTION dedupe.begin_batch(
  text[], text[], text[], bytea[], text[], bigint[], bigint[],
  dedupe.lease_policy[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dedupe.begin_batch(
  text[], text[], text[], bytea[], text[], bigint[], bigint[],
  dedupe.lease_policy[]) TO dedupe_runtime;

INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (4, 'create_begin', 4);

RESET ROLE;
