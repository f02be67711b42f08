-- Receipts: one table and two functions, for the database of a service that
-- asks dedupe over the network. Plain SQL, for PostgreSQL 13 and later: run it
-- as the database's owner, in one transaction.
--
-- The service's own role needs the two functions and nothing else. They run
-- with the owner's rights, for any client's key, so grant them only to services
-- that you trust with all of them:
--
--   GRANT USAGE ON SCHEMA dedupe_receipts TO shop;
--   GRANT EXECUTE ON FUNCTION
--     dedupe_receipts.record(
--       text, text, bigint, boolean, integer, jsonb, bytea, boolean),
--     dedupe_receipts.void(text, text, bigint, timestamptz)
--   TO shop;
--
-- Old rows are the service's to delete, say once a day:
--
--   DELETE FROM dedupe_receipts.receipt
--   WHERE recorded_at < now() - interval '40 days';
--
-- Keep them for longer than dedupe keeps the record (31 days at most, on top of
-- its last lease) and longer than any attempt may go on: without the receipt, a
-- takeover would do the work again; without the void marker, a lost attempt
-- could still commit. recorded_at has no index: the one scan a day costs less
-- than an entry in each business transaction.
--
-- A commit has to be on the disk when it is answered (synchronous_commit on),
-- and a failover must not lose it, as for everything that money depends on.
-- Let idle_in_transaction_session_timeout end what a dead attempt left open.

CREATE SCHEMA dedupe_receipts;

-- For each key its receipt, or the void marker that stands in its place.
CREATE TABLE dedupe_receipts.receipt (
  -- Of the attempt that wrote the row: microseconds of dedupe's clock, or more.
  fence bigint NOT NULL,
  recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  code integer,
  body_omitted boolean NOT NULL DEFAULT false,
  kind text COLLATE "C" NOT NULL,
  client_id text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  -- [["name", "value"], ...]
  headers jsonb,
  body bytea,

  CONSTRAINT receipt_pkey PRIMARY KEY (client_id, key),
  CONSTRAINT receipt_client_id_length
    CHECK (octet_length(client_id) BETWEEN 1 AND 255),
  CONSTRAINT receipt_key_length CHECK (octet_length(key) BETWEEN 1 AND 255),
  CONSTRAINT receipt_fence_positive CHECK (fence > 0),
  CONSTRAINT receipt_kind_known CHECK (kind IN ('receipt', 'void')),
  CONSTRAINT receipt_response_complete
    CHECK ((kind = 'receipt') = (code IS NOT NULL)
           AND (kind = 'receipt') = (headers IS NOT NULL)),
  CONSTRAINT receipt_body_complete
    CHECK ((body IS NOT NULL) = (kind = 'receipt' AND NOT body_omitted)),
  CONSTRAINT receipt_body_length CHECK (octet_length(body) <= 262144),
  CONSTRAINT receipt_headers_form
    CHECK (jsonb_typeof(headers) = 'array'
           AND NOT jsonb_path_exists(
             headers, 'strict $[*] ? (@.type() != "array" || @.size() != 2)')
           -- Silent about an element that is no array: that is the rule above.
           AND NOT jsonb_path_exists(
             headers, 'strict $[*][*] ? (@.type() != "string")', '{}', true)
           AND pg_column_size(headers) <= 65536)
);

-- The last statement of the business transaction. Returns only if this receipt
-- is now in its place; otherwise it raises, and the transaction cannot commit:
--
--   DR001  VOIDED: a later attempt has this key
--   DR002  ALREADY_RECORDED: the work was committed before; void() will find it
--   55P03  another attempt's transaction has been open for 2 s
--   40001  the row kept changing, or, in a transaction stricter than READ
--          COMMITTED, has changed
--
-- headers NULL is none. body is NULL if, and only if, it is omitted.
CREATE FUNCTION dedupe_receipts.record(
  client_id text,
  key text,
  fence bigint,
  taken_over boolean,
  code integer,
  headers jsonb,
  body bytea,
  body_omitted boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe_receipts, pg_temp
SET lock_timeout = '2s'
AS $$
#variable_conflict use_column
DECLARE
  rounds_max CONSTANT integer := 3;
  found_row dedupe_receipts.receipt;
BEGIN
  FOR round IN 1..rounds_max LOOP
    -- Waits for whoever has inserted this key and not committed yet.
    INSERT INTO receipt (
      client_id, key, kind, fence, code, headers, body, body_omitted)
    VALUES (
      record.client_id, record.key, 'receipt', record.fence, record.code,
      coalesce(record.headers, '[]'), record.body, record.body_omitted)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
      RETURN;
    END IF;

    SELECT * INTO found_row FROM receipt
    WHERE client_id = record.client_id AND key = record.key
    FOR UPDATE;
    -- Deleted since.
    CONTINUE WHEN NOT FOUND;

    IF found_row.fence > record.fence THEN
      RAISE EXCEPTION 'VOIDED: a later attempt has this key'
        USING ERRCODE = 'DR001', HINT = 'Roll back: it is not yours any more.';
    END IF;
    -- An older receipt is an expired record's, and this a new request, unless
    -- an earlier attempt at this record may have acted: then reconciling has
    -- made sure that no receipt of an expired record is left.
    IF found_row.kind = 'receipt'
      AND (found_row.fence = record.fence OR taken_over IS NOT FALSE)
    THEN
      RAISE EXCEPTION 'ALREADY_RECORDED: the work was committed before'
        USING ERRCODE = 'DR002', HINT = 'Roll back: the work was done before.';
    END IF;
    UPDATE receipt
    SET kind = 'receipt', fence = record.fence, code = record.code,
      headers = coalesce(record.headers, '[]'), body = record.body,
      body_omitted = record.body_omitted, recorded_at = clock_timestamp()
    WHERE client_id = record.client_id AND key = record.key;
    RETURN;
  END LOOP;
  RAISE EXCEPTION 'others kept changing this receipt'
    USING ERRCODE = 'serialization_failure', HINT = 'Try again.';
END
$$;

-- What became of the earlier attempts of this key? On takeover, in a
-- transaction of its own, at READ COMMITTED; the answer holds once that has
-- committed:
--
--   voided      they have committed nothing, and never will
--   recorded    one of them has committed, with this response
--   superseded  a later attempt has asked or committed; this one is lost
--
-- Raises 55P03 if an earlier attempt's transaction stays open for 2 s, and
-- 40001 if the row kept changing: ask again.
--
-- first_seen_at is when dedupe's record of the key began its life. A receipt
-- with an older fence belongs to a record that has expired, and does not count.
-- NULL: every receipt counts.
CREATE FUNCTION dedupe_receipts.void(
  client_id text,
  key text,
  fence bigint,
  first_seen_at timestamptz,
  OUT outcome text,
  OUT code integer,
  OUT headers jsonb,
  OUT body bytea,
  OUT body_omitted boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe_receipts, pg_temp
SET lock_timeout = '2s'
AS $$
#variable_conflict use_column
DECLARE
  rounds_max CONSTANT integer := 3;
  first_seen_us CONSTANT bigint :=
    coalesce(extract(epoch FROM first_seen_at) * 1000000, 0);
  found_row dedupe_receipts.receipt;
BEGIN
  FOR round IN 1..rounds_max LOOP
    INSERT INTO receipt (client_id, key, kind, fence)
    VALUES (void.client_id, void.key, 'void', void.fence)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
      void.outcome := 'voided';
      RETURN;
    END IF;

    SELECT * INTO found_row FROM receipt
    WHERE client_id = void.client_id AND key = void.key
    FOR UPDATE;
    CONTINUE WHEN NOT FOUND;

    IF found_row.fence > void.fence THEN
      void.outcome := 'superseded';
      RETURN;
    END IF;
    IF found_row.kind = 'receipt' AND found_row.fence >= first_seen_us THEN
      void.outcome := 'recorded';
      void.code := found_row.code;
      void.headers := found_row.headers;
      void.body := found_row.body;
      void.body_omitted := found_row.body_omitted;
      RETURN;
    END IF;
    UPDATE receipt
    SET kind = 'void', fence = void.fence, code = NULL, headers = NULL,
      body = NULL, body_omitted = false, recorded_at = clock_timestamp()
    WHERE client_id = void.client_id AND key = void.key;
    void.outcome := 'voided';
    RETURN;
  END LOOP;
  RAISE EXCEPTION 'others kept changing this receipt'
    USING ERRCODE = 'serialization_failure', HINT = 'Try again.';
END
$$;

REVOKE EXECUTE ON FUNCTION
  dedupe_receipts.record(
    text, text, bigint, boolean, integer, jsonb, bytea, boolean),
  dedupe_receipts.void(text, text, bigint, timestamptz)
FROM PUBLIC;
