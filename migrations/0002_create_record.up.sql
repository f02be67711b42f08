-- The one table: a row per (client_id, key).
SET ROLE dedupe_owner;

CREATE TYPE dedupe.record_state AS ENUM (
  'in_progress', 'released', 'completed');
CREATE TYPE dedupe.lease_policy AS ENUM ('takeover', 'hold');

-- Columns stand by falling alignment, which saves padding in every row.
CREATE TABLE dedupe.record (
  -- Grows with every change of holder; callers show it to downstream stores.
  fence bigint NOT NULL,
  -- How long the record outlives its completion, in microseconds.
  ttl_us bigint NOT NULL,
  -- When the key was first seen.
  created_at timestamptz NOT NULL,
  -- When the present (or last) attempt began.
  started_at timestamptz NOT NULL,
  -- Past this moment the row counts as absent, swept or not. NULL: it never
  -- does, as in progress under HOLD, which only a completion or a person ends.
  expires_at timestamptz,
  -- When the reaper looks at the row. It is the only indexed time, and stays as
  -- it is when the row is completed, because an update of an indexed column
  -- costs an entry in every index (the update is not HOT). So it is a guess:
  -- the reaper moves it on where the row turns out to live longer.
  reap_after timestamptz NOT NULL,
  -- Set exactly while in progress.
  lease_expires_at timestamptz,
  completed_at timestamptz,
  attempt_number integer NOT NULL,
  response_code integer,
  state dedupe.record_state NOT NULL,
  -- The present holder's wish.
  on_lease_expiry dedupe.lease_policy NOT NULL,
  -- An earlier attempt let its lease lapse and may have acted. Stays true
  -- through releases, until the record is completed or expires.
  taken_over boolean NOT NULL,
  body_omitted boolean NOT NULL DEFAULT false,
  client_id text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  operation text COLLATE "C" NOT NULL,
  attempt_id text COLLATE "C" NOT NULL,
  -- NULL only where a Release has unbound the key (forget_fingerprint).
  fingerprint bytea,
  -- The attempts that released this record, newest last, so that a late copy
  -- of their Begin cannot seize the key.
  finished_attempts text[] COLLATE "C",
  checkpoint bytea,
  -- [["name", "value"], ...]; NULL is none.
  response_headers jsonb,
  response_body bytea,

  CONSTRAINT record_pkey PRIMARY KEY (client_id, key),
  CONSTRAINT record_client_id_length
    CHECK (octet_length(client_id) BETWEEN 1 AND 255),
  CONSTRAINT record_client_id_text
    CHECK (client_id !~ '[\u0001-\u001f\u007f-\u009f]'),
  CONSTRAINT record_key_length CHECK (octet_length(key) BETWEEN 1 AND 255),
  CONSTRAINT record_key_text CHECK (key !~ '[\u0001-\u001f\u007f-\u009f]'),
  CONSTRAINT record_operation_length CHECK (octet_length(operation) <= 128),
  CONSTRAINT record_operation_text
    CHECK (operation !~ '[\u0001-\u001f\u007f-\u009f]'),
  CONSTRAINT record_attempt_id_length
    CHECK (octet_length(attempt_id) BETWEEN 1 AND 64),
  CONSTRAINT record_attempt_id_text
    CHECK (attempt_id !~ '[\u0001-\u001f\u007f-\u009f]'),
  CONSTRAINT record_fingerprint_length
    CHECK (octet_length(fingerprint) BETWEEN 1 AND 64),
  CONSTRAINT record_fingerprint_bound
    CHECK (fingerprint IS NOT NULL OR state = 'released'),
  CONSTRAINT record_finished_attempts_count
    CHECK (cardinality(finished_attempts) BETWEEN 1 AND 64),
  CONSTRAINT record_fence_positive CHECK (fence > 0),
  CONSTRAINT record_attempt_number_positive CHECK (attempt_number > 0),
  CONSTRAINT record_ttl_range
    CHECK (ttl_us BETWEEN 100000 AND 2678400000000),
  CONSTRAINT record_times_finite
    CHECK (isfinite(reap_after) AND isfinite(expires_at)
           AND isfinite(lease_expires_at)),
  CONSTRAINT record_expires
    CHECK (expires_at IS NOT NULL
           OR (state = 'in_progress' AND on_lease_expiry = 'hold')),
  CONSTRAINT record_lease_while_in_progress
    CHECK ((lease_expires_at IS NOT NULL) = (state = 'in_progress')),
  CONSTRAINT record_checkpoint_length CHECK (octet_length(checkpoint) <= 4096),
  CONSTRAINT record_response_when_completed
    CHECK ((state = 'completed') = (completed_at IS NOT NULL)
           AND (state = 'completed') = (response_code IS NOT NULL)
           AND (state = 'completed' OR response_headers IS NULL)),
  CONSTRAINT record_body_when_completed
    CHECK ((response_body IS NOT NULL)
           = (state = 'completed' AND NOT body_omitted)),
  CONSTRAINT record_body_length CHECK (octet_length(response_body) <= 262144),
  CONSTRAINT record_headers_form
    CHECK (jsonb_typeof(response_headers) = 'array'
           AND NOT jsonb_path_exists(
             response_headers,
             'strict $[*] ? (@.type() != "array" || @.size() != 2)')
           -- Silent about an element that is no array: that is the rule above.
           AND NOT jsonb_path_exists(
             response_headers, 'strict $[*][*] ? (@.type() != "string")',
             '{}', true)
           AND pg_column_size(response_headers) <= 65536)
) WITH (
  -- Room on each page for the version that Complete writes: keeps it HOT.
  fillfactor = 50,
  -- Rows are born, completed once and deleted: vacuum early and steadily.
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 1,
  -- Truncation takes an exclusive lock, for space that is needed again at once.
  vacuum_truncate = off
);

CREATE INDEX record_reap_after_idx ON dedupe.record (reap_after);

-- The greatest fence among the deleted rows: a key that comes back gets a
-- greater one, even if the clock has been set back since. One row, written by
-- the reaper; room on its page keeps that HOT.
CREATE TABLE dedupe.fence_floor (
  id boolean NOT NULL DEFAULT true,
  fence bigint NOT NULL DEFAULT 0,
  CONSTRAINT fence_floor_pkey PRIMARY KEY (id),
  CONSTRAINT fence_floor_one_row CHECK (id),
  CONSTRAINT fence_floor_not_negative CHECK (fence >= 0)
) WITH (fillfactor = 10);
INSERT INTO dedupe.fence_floor DEFAULT VALUES;

INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (2, 'create_record', 2);

RESET ROLE;
