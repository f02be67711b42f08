-- The SQL door: the same calls for one key each, for services whose own tables
-- share the database. They take values rather than arrays, and where a call is
-- refused they raise, so that a business transaction cannot commit past it.
--
-- Granted to nobody here: a deployment grants them to the service's own role.
SET ROLE dedupe_owner;

CREATE FUNCTION dedupe.to_us(span interval) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = dedupe, pg_temp
AS $$
BEGIN
  RETURN (extract(epoch FROM span) * 1000000)::bigint;
END
$$;

-- Raises what an outcome means to a caller who must not go on. The message
-- begins with the reason that the gRPC service gives for the same refusal.
CREATE FUNCTION dedupe.raise_refusal(outcome text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = dedupe, pg_temp
AS $$
BEGIN
  CASE outcome
    WHEN 'lease_lost' THEN
      RAISE EXCEPTION 'LEASE_LOST: another attempt holds this key, or it was released'
        USING ERRCODE = 'DD001', HINT = 'Roll back, then begin again.';
    WHEN 'key_unknown' THEN
      RAISE EXCEPTION 'KEY_UNKNOWN: no record of this key, or it is past its window'
        USING ERRCODE = 'DD002', HINT = 'Roll back, then begin again.';
    WHEN 'response_conflict' THEN
      RAISE EXCEPTION 'RESPONSE_CONFLICT: this attempt has stored another response'
        USING ERRCODE = 'DD003', HINT = 'Roll back: the work was done before.';
    WHEN 'already_completed' THEN
      RAISE EXCEPTION 'ALREADY_COMPLETED: this attempt was completed before'
        USING ERRCODE = 'DD004', HINT = 'Roll back: the work was done before.';
    WHEN 'attempt_finished' THEN
      RAISE EXCEPTION 'ATTEMPT_FINISHED: this attempt has released the key'
        USING ERRCODE = 'DD005', HINT = 'Begin with a new attempt id.';
    WHEN 'damaged' THEN
      RAISE EXCEPTION 'RECORD_DAMAGED: the stored record breaks its own rules'
        USING ERRCODE = 'DD006', HINT = 'An administrator has to look.';
    ELSE
      RAISE EXCEPTION 'others kept changing this record'
        USING ERRCODE = 'serialization_failure', HINT = 'Try again.';
  END CASE;
END
$$;

-- In a transaction of its own, before the work: so that others are told
-- in_progress meanwhile, and a crash leaves a trace.
CREATE FUNCTION dedupe.begin(
  client_id text,
  key text,
  operation text,
  fingerprint bytea,
  attempt_id text,
  lease interval DEFAULT NULL,
  ttl interval DEFAULT NULL,
  on_lease_expiry dedupe.lease_policy DEFAULT NULL
) RETURNS dedupe.begin_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
AS $$
DECLARE
  answer dedupe.begin_answer;
BEGIN
  SELECT * INTO STRICT answer FROM dedupe.begin_batch(
    ARRAY[client_id], ARRAY[key], ARRAY[operation], ARRAY[fingerprint],
    ARRAY[attempt_id], ARRAY[dedupe.to_us(lease)], ARRAY[dedupe.to_us(ttl)],
    ARRAY[on_lease_expiry]);
  IF answer.outcome IN ('attempt_finished', 'damaged', 'retry') THEN
    PERFORM dedupe.raise_refusal(answer.outcome);
  END IF;
  RETURN answer;
END
$$;

-- Inside the business transaction: work and completion commit together or not
-- at all. Returns only where this very call stores the response. Even its own
-- repetition raises: then an earlier transaction committed the work, and this
-- one must not commit it again. A NULL body is one that is left out.
--
-- The ttl counts from this call, not from the commit, so it has to be longer
-- than the longest business transaction.
CREATE FUNCTION dedupe.complete(
  client_id text,
  key text,
  attempt_id text,
  fence bigint,
  code integer,
  body bytea,
  headers jsonb DEFAULT NULL
) RETURNS dedupe.complete_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
AS $$
DECLARE
  answer dedupe.complete_answer;
BEGIN
  -- More patience than a batch of strangers' calls has, because a business
  -- transaction that gives up has work to repeat: up to a second.
  FOR try IN 1..20 LOOP
    BEGIN
      SELECT * INTO STRICT answer FROM dedupe.complete_batch(
        ARRAY[client_id], ARRAY[key], ARRAY[attempt_id], ARRAY[fence],
        ARRAY[code], ARRAY[headers], ARRAY[body]);
      EXIT;
    EXCEPTION WHEN lock_not_available THEN
      IF try = 20 THEN
        RAISE;
      END IF;
    END;
  END LOOP;
  IF answer.outcome <> 'completed' THEN
    PERFORM dedupe.raise_refusal(answer.outcome);
  END IF;
  RETURN answer;
END
$$;

CREATE FUNCTION dedupe.extend(
  client_id text,
  key text,
  attempt_id text,
  fence bigint,
  lease interval DEFAULT NULL,
  checkpoint bytea DEFAULT NULL
) RETURNS dedupe.extend_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
AS $$
DECLARE
  answer dedupe.extend_answer;
BEGIN
  SELECT * INTO STRICT answer FROM dedupe.extend_batch(
    ARRAY[client_id], ARRAY[key], ARRAY[attempt_id], ARRAY[fence],
    ARRAY[dedupe.to_us(lease)], ARRAY[checkpoint]);
  IF answer.outcome <> 'extended' THEN
    PERFORM dedupe.raise_refusal(answer.outcome);
  END IF;
  RETURN answer;
END
$$;

CREATE FUNCTION dedupe.release(
  client_id text,
  key text,
  attempt_id text,
  fence bigint,
  forget_fingerprint boolean DEFAULT false
) RETURNS dedupe.release_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
AS $$
DECLARE
  answer dedupe.release_answer;
BEGIN
  SELECT * INTO STRICT answer FROM dedupe.release_batch(
    ARRAY[client_id], ARRAY[key], ARRAY[attempt_id], ARRAY[fence],
    ARRAY[forget_fingerprint]);
  IF answer.outcome <> 'released' THEN
    PERFORM dedupe.raise_refusal(answer.outcome);
  END IF;
  RETURN answer;
END
$$;

CREATE FUNCTION dedupe.lookup(client_id text, key text)
RETURNS dedupe.lookup_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
AS $$
DECLARE
  answer dedupe.lookup_answer;
BEGIN
  SELECT * INTO STRICT answer
  FROM dedupe.lookup_batch(ARRAY[client_id], ARRAY[key], true);
  RETURN answer;
END
$$;

REVOKE EXECUTE ON FUNCTION
  dedupe.to_us(interval),
  dedupe.raise_refusal(text),
  dedupe.begin(
    text, text, text, bytea, text, interval, interval, dedupe.lease_policy),
  dedupe.complete(text, text, text, bigint, integer, bytea, jsonb),
  dedupe.extend(text, text, text, bigint, interval, bytea),
  dedupe.release(text, text, text, bigint, boolean),
  dedupe.lookup(text, text)
FROM PUBLIC;
-- Looking at one key is a reader's right too.
GRANT EXECUTE ON FUNCTION dedupe.lookup(text, text) TO dedupe_reader;

INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (11, 'create_door', 10);

RESET ROLE;
