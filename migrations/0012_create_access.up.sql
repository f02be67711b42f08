-- Access: who may call, known by which token or certificate, for which client
-- ids. Kept here so that every server knows the same, and so that a revocation
-- needs no restart.
SET ROLE dedupe_owner;

-- caller: Begin, Complete, Extend, Release, Lookup; reader: Lookup alone.
CREATE TYPE dedupe.principal_role AS ENUM ('caller', 'reader', 'admin');

-- Octets of the longest element; NULL of an empty array. A check constraint
-- cannot look into an array by itself.
CREATE FUNCTION dedupe.longest(texts text[]) RETURNS integer
LANGUAGE plpgsql IMMUTABLE STRICT
SET search_path = dedupe, pg_temp
AS $$
BEGIN
  RETURN (SELECT max(octet_length(t)) FROM unnest(texts) AS t);
END
$$;

CREATE TABLE dedupe.principal (
  created_at timestamptz NOT NULL,
  -- What it may use up; NULL: as much as it likes. The calls are counted by
  -- each server for itself.
  calls_in_flight_max bigint,
  calls_per_second_max bigint,
  -- Of all records of its client ids. 0: no new ones.
  live_keys_max bigint,
  stored_bytes_max bigint,
  role dedupe.principal_role NOT NULL,
  name text COLLATE "C" NOT NULL,
  -- Each one client id, or the beginning of some with a * behind it.
  client_ids text[] COLLATE "C" NOT NULL,

  CONSTRAINT principal_pkey PRIMARY KEY (name),
  CONSTRAINT principal_name_length CHECK (octet_length(name) BETWEEN 1 AND 128),
  CONSTRAINT principal_name_text CHECK (name !~ '[\u0001-\u001f\u007f-\u009f]'),
  CONSTRAINT principal_client_ids_count
    CHECK (array_ndims(client_ids) = 1
           AND cardinality(client_ids) BETWEEN 1 AND 64),
  CONSTRAINT principal_client_ids_length
    CHECK (array_position(client_ids, NULL) IS NULL
           AND '' <> ALL (client_ids)
           AND dedupe.longest(client_ids) <= 255),
  CONSTRAINT principal_client_ids_text
    CHECK (array_to_string(client_ids, '') !~ '[\u0001-\u001f\u007f-\u009f]'),
  CONSTRAINT principal_calls_in_flight_range
    CHECK (calls_in_flight_max BETWEEN 1 AND 1000000),
  CONSTRAINT principal_calls_per_second_range
    CHECK (calls_per_second_max BETWEEN 1 AND 1000000000),
  CONSTRAINT principal_live_keys_range
    CHECK (live_keys_max BETWEEN 0 AND 1000000000000),
  CONSTRAINT principal_stored_bytes_range
    CHECK (stored_bytes_max BETWEEN 0 AND 1000000000000000)
);

CREATE TABLE dedupe.token (
  created_at timestamptz NOT NULL,
  -- NULL: it does not expire.
  expires_at timestamptz,
  -- NULL: it has not been revoked.
  revoked_at timestamptz,
  id text COLLATE "C" NOT NULL,
  principal text COLLATE "C" NOT NULL,
  -- Of the secret, which is random and is kept nowhere.
  sha256 bytea NOT NULL,

  CONSTRAINT token_pkey PRIMARY KEY (id),
  CONSTRAINT token_principal_fkey FOREIGN KEY (principal)
    REFERENCES dedupe.principal (name) ON DELETE CASCADE,
  CONSTRAINT token_id_form CHECK (id ~ '^[0-9a-f]{16}$'),
  CONSTRAINT token_sha256_length CHECK (octet_length(sha256) = 32),
  CONSTRAINT token_expires_later CHECK (expires_at > created_at),
  CONSTRAINT token_times_finite
    CHECK (isfinite(created_at) AND isfinite(expires_at)
           AND isfinite(revoked_at))
);

CREATE INDEX token_principal_idx ON dedupe.token (principal);

-- When each token was last used. Apart, because servers write it: whatever lock
-- one of them holds here, a token can be revoked.
CREATE TABLE dedupe.token_use (
  -- To about a minute. NULL: not yet.
  last_used_at timestamptz,
  id text COLLATE "C" NOT NULL,

  CONSTRAINT token_use_pkey PRIMARY KEY (id),
  CONSTRAINT token_use_token_fkey FOREIGN KEY (id)
    REFERENCES dedupe.token (id) ON DELETE CASCADE,
  CONSTRAINT token_use_time_finite CHECK (isfinite(last_used_at))
) WITH (
  -- Room for the version with another time: keeps it HOT.
  fillfactor = 50
);

-- What a certificate's subject alternative name makes of its bearer.
CREATE TABLE dedupe.certificate_name (
  -- With its kind in front: uri:spiffe://prod/shop, dns:shop.internal.
  name text COLLATE "C" NOT NULL,
  principal text COLLATE "C" NOT NULL,

  CONSTRAINT certificate_name_pkey PRIMARY KEY (name),
  CONSTRAINT certificate_name_principal_fkey FOREIGN KEY (principal)
    REFERENCES dedupe.principal (name) ON DELETE CASCADE,
  CONSTRAINT certificate_name_kind CHECK (name ~ '^(uri|dns):'),
  -- DNS knows no difference of case, so that two spellings would be one name.
  CONSTRAINT certificate_name_dns_lower
    CHECK (name !~ '^dns:' OR name = lower(name)),
  -- The kind, and as much as a SPIFFE ID may have.
  CONSTRAINT certificate_name_length
    CHECK (octet_length(name) BETWEEN 5 AND 2052),
  CONSTRAINT certificate_name_text
    CHECK (name !~ '[\u0001-\u001f\u007f-\u009f]')
);

CREATE INDEX certificate_name_principal_idx
ON dedupe.certificate_name (principal);

-- One row, which grows with every change of the above. Whoever changes something
-- locks it first, so administrators take turns.
CREATE TABLE dedupe.access_version (
  version bigint NOT NULL DEFAULT 1,
  id boolean NOT NULL DEFAULT true,
  CONSTRAINT access_version_pkey PRIMARY KEY (id),
  CONSTRAINT access_version_one_row CHECK (id),
  CONSTRAINT access_version_positive CHECK (version > 0)
) WITH (fillfactor = 10);
INSERT INTO dedupe.access_version DEFAULT VALUES;

CREATE TYPE dedupe.access_answer AS (
  version bigint,
  -- NULL if known_version is the newest, else
  --   {"principals": [{"name", "role", "client_ids": [], and the quotas}],
  --    "tokens": [{"id", "sha256" in hexadecimal, "principal", "expires_us"}],
  --    "certificate_names": [{"name", "principal"}]}
  -- with null where a column is NULL.
  document jsonb,
  decided_at timestamptz
);

-- Everything that is valid, unless the asker has it, and notes which tokens were
-- used. Revoked tokens are left out.
CREATE FUNCTION dedupe.access(known_version bigint, used_token_ids text[])
RETURNS dedupe.access_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
SET lock_timeout = '250ms'
AS $$
#variable_conflict use_column
DECLARE
  now_us CONSTANT bigint := dedupe.now_us();
  now_at CONSTANT timestamptz := to_timestamp(now_us::float8 / 1000000);
  minute_ago CONSTANT timestamptz :=
    to_timestamp((now_us - 60000000)::float8 / 1000000);
  answer dedupe.access_answer;
BEGIN
  IF cardinality(used_token_ids) > 0 THEN
    -- Who may come in matters more than when somebody did: what is locked is
    -- noted another time.
    BEGIN
      UPDATE dedupe.token_use SET last_used_at = now_at
      WHERE id IN (
        SELECT u.id FROM dedupe.token_use AS u
        WHERE u.id = ANY (used_token_ids)
          AND (u.last_used_at > minute_ago) IS NOT TRUE
        FOR NO KEY UPDATE SKIP LOCKED);
    EXCEPTION WHEN lock_not_available THEN
      NULL;
    END;
  END IF;

  -- One statement, so that version and document are of one moment.
  SELECT
    v.version,
    CASE WHEN v.version IS DISTINCT FROM known_version THEN jsonb_build_object(
      'principals', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
          'name', p.name,
          'role', p.role,
          'client_ids', p.client_ids,
          'calls_in_flight_max', p.calls_in_flight_max,
          'calls_per_second_max', p.calls_per_second_max,
          'live_keys_max', p.live_keys_max,
          'stored_bytes_max', p.stored_bytes_max) ORDER BY p.name), '[]')
        FROM dedupe.principal AS p),
      'tokens', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
          'id', t.id,
          'sha256', encode(t.sha256, 'hex'),
          'principal', t.principal,
          'expires_us', (extract(epoch FROM t.expires_at) * 1000000)::bigint)
          ORDER BY t.id), '[]')
        FROM dedupe.token AS t
        WHERE t.revoked_at IS NULL),
      'certificate_names', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
          'name', c.name,
          'principal', c.principal) ORDER BY c.name), '[]')
        FROM dedupe.certificate_name AS c))
    END
  INTO STRICT answer.version, answer.document
  FROM dedupe.access_version AS v;
  answer.decided_at := now_at;
  RETURN answer;
END
$$;

REVOKE EXECUTE ON FUNCTION
  dedupe.longest(text[]),
  dedupe.access(bigint, text[])
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION dedupe.access(bigint, text[]) TO dedupe_runtime;

-- Servers built for the file before know nothing of this, and go on without.
INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (12, 'create_access', 10);

RESET ROLE;
