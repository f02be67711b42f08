-- Usage: what the records of some client ids amount to, a few at a time.
SET ROLE dedupe_owner;

CREATE TYPE dedupe.usage_answer AS (
  -- Rows looked at: fewer than the limit, then there are no more.
  examined integer,
  -- Those of them that have not expired, and the bytes of their bodies,
  -- headers (as JSON text) and checkpoints.
  live_keys bigint,
  stored_bytes bigint,
  -- The last of the rows; NULL if there was none.
  last_client_id text,
  last_key text,
  decided_at timestamptz
);

-- Looks at up to row_limit records behind (after_client_id, after_key), byte by
-- byte; both empty at the start. pattern: a client id, or the beginning of some
-- and a *.
CREATE FUNCTION dedupe.usage(
  pattern text,
  after_client_id text,
  after_key text,
  row_limit integer
) RETURNS dedupe.usage_answer
-- VOLATILE, so that the query's snapshot is younger than the clock's reading.
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET lock_timeout = '250ms'
AS $$
#variable_conflict use_column
DECLARE
  now_at CONSTANT timestamptz :=
    to_timestamp(dedupe.now_us()::float8 / 1000000);
  is_prefix CONSTANT boolean := right(pattern, 1) = '*';
  prefix CONSTANT text COLLATE "C" :=
    CASE WHEN is_prefix THEN left(pattern, -1) ELSE pattern END;
  -- The last that can begin so: no character has greater bytes than U+10FFFF,
  -- and 64 of them are longer than any client id.
  last_possible CONSTANT text COLLATE "C" :=
    prefix || CASE WHEN is_prefix THEN repeat(chr(1114111), 64) ELSE '' END;
  from_client_id text COLLATE "C" := after_client_id;
  from_key text COLLATE "C" := after_key;
  answer dedupe.usage_answer;
BEGIN
  IF (row_limit BETWEEN 1 AND 100000) IS NOT TRUE THEN
    RAISE EXCEPTION 'row_limit is between 1 and 100000'
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF (after_client_id < prefix) IS NOT FALSE THEN
    from_client_id := prefix;
    from_key := '';  -- Before every key.
  END IF;

  -- No expression here reads a body: its length is known without.
  WITH page AS MATERIALIZED (
    SELECT
      client_id,
      key,
      (expires_at <= now_at) IS NOT TRUE AS live,
      CASE WHEN (expires_at <= now_at) IS NOT TRUE THEN
        coalesce(octet_length(response_body), 0)
        + coalesce(octet_length(response_headers::text), 0)
        + coalesce(octet_length(checkpoint), 0)
      END AS bytes
    FROM dedupe.record
    WHERE (client_id, key) > (from_client_id, from_key)
      AND client_id <= last_possible
    ORDER BY client_id, key
    LIMIT row_limit
  )
  SELECT t.examined, t.live_keys, t.stored_bytes, l.client_id, l.key
  INTO STRICT answer.examined, answer.live_keys, answer.stored_bytes,
    answer.last_client_id, answer.last_key
  FROM (
    SELECT
      count(*) AS examined,
      count(*) FILTER (WHERE live) AS live_keys,
      coalesce(sum(bytes), 0) AS stored_bytes
    FROM page) AS t
  LEFT JOIN (
    SELECT client_id, key FROM page ORDER BY client_id DESC, key DESC LIMIT 1
  ) AS l ON true;
  answer.decided_at := now_at;
  RETURN answer;
END
$$;

REVOKE EXECUTE ON FUNCTION dedupe.usage(text, text, text, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dedupe.usage(text, text, text, integer)
TO dedupe_runtime;

INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (14, 'create_usage', 10);

RESET ROLE;
