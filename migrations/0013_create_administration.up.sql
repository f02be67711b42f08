-- What administrators call, to change who may touch what. Each returns an
-- outcome; those that are no change leave everything as it is. They are granted
-- to nobody: whoever is a member of dedupe_owner may call them.
SET ROLE dedupe_owner;

-- Waits for its turn.
CREATE FUNCTION dedupe.lock_access() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = dedupe, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  PERFORM FROM dedupe.access_version WHERE id FOR UPDATE;
END
$$;

-- Not only one more, but the time, if that is greater: a database that was set
-- back to an older state, and changed since, must not come to a version that a
-- server knows with another content.
CREATE FUNCTION dedupe.raise_access_version() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = dedupe, pg_temp
AS $$
BEGIN
  UPDATE dedupe.access_version
  SET version = greatest(version + 1, dedupe.now_us())
  WHERE id;
END
$$;

-- created, replaced (as a whole); certificate_taken: a name is another
-- principal's; too_many: there are 10,000, or all their names and patterns
-- together have 16 MiB, as much as servers are to read at a time.
CREATE FUNCTION dedupe.put_principal(
  name text,
  role dedupe.principal_role,
  client_ids text[],
  certificate_names text[],
  calls_in_flight_max bigint,
  calls_per_second_max bigint,
  live_keys_max bigint,
  stored_bytes_max bigint
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_variable
DECLARE
  outcome text := 'replaced';
BEGIN
  IF cardinality(certificate_names) > 64 THEN
    RAISE EXCEPTION 'a principal has up to 64 certificate names'
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  PERFORM dedupe.lock_access();
  IF EXISTS (
    SELECT FROM dedupe.certificate_name AS c
    WHERE c.name = ANY (certificate_names) AND c.principal <> name)
  THEN
    RETURN 'certificate_taken';
  END IF;

  UPDATE dedupe.principal AS p
  SET role = put_principal.role,
    client_ids = put_principal.client_ids,
    calls_in_flight_max = put_principal.calls_in_flight_max,
    calls_per_second_max = put_principal.calls_per_second_max,
    live_keys_max = put_principal.live_keys_max,
    stored_bytes_max = put_principal.stored_bytes_max
  WHERE p.name = put_principal.name;
  IF NOT FOUND THEN
    IF (SELECT count(*) FROM dedupe.principal) >= 10000 THEN
      RETURN 'too_many';
    END IF;
    INSERT INTO dedupe.principal (
      created_at, calls_in_flight_max, calls_per_second_max, live_keys_max,
      stored_bytes_max, role, name, client_ids)
    VALUES (
      to_timestamp(dedupe.now_us()::float8 / 1000000), calls_in_flight_max,
      calls_per_second_max, live_keys_max, stored_bytes_max, role, name,
      client_ids);
    outcome := 'created';
  END IF;

  DELETE FROM dedupe.certificate_name AS c WHERE c.principal = name;
  INSERT INTO dedupe.certificate_name (name, principal)
  SELECT DISTINCT n, put_principal.name FROM unnest(certificate_names) AS n;
  IF (SELECT coalesce(sum(octet_length(array_to_string(p.client_ids, ''))), 0)
      FROM dedupe.principal AS p)
    + (SELECT coalesce(sum(octet_length(c.name)), 0)
       FROM dedupe.certificate_name AS c) > 16777216
  THEN
    -- Undoes the block's own work, and no more.
    RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded';
  END IF;
  PERFORM dedupe.raise_access_version();
  RETURN outcome;
EXCEPTION WHEN program_limit_exceeded THEN
  RETURN 'too_many';
END
$$;

-- removed, with its tokens and certificate names; unknown.
CREATE FUNCTION dedupe.remove_principal(name text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  PERFORM dedupe.lock_access();
  DELETE FROM dedupe.principal AS p WHERE p.name = remove_principal.name;
  IF NOT FOUND THEN
    RETURN 'unknown';
  END IF;
  PERFORM dedupe.raise_access_version();
  RETURN 'removed';
END
$$;

CREATE TYPE dedupe.create_token_answer AS (
  -- created; principal_unknown; taken: there is a token of that id; too_many:
  -- the principal has two that are neither revoked nor expired.
  outcome text,
  expires_at timestamptz
);

-- Two live tokens are what a rotation needs; a third would be one that nobody
-- remembers. lifetime_us: from now on; NULL: it does not expire.
CREATE FUNCTION dedupe.create_token(
  principal text,
  id text,
  sha256 bytea,
  lifetime_us bigint
) RETURNS dedupe.create_token_answer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_variable
DECLARE
  live_max CONSTANT integer := 2;
  -- How long dead tokens stay to be seen: 90 days.
  history_us CONSTANT bigint := 7776000000000;
  now_us bigint;
  now_at timestamptz;
  answer dedupe.create_token_answer;
BEGIN
  -- Ten years, leap days included.
  IF lifetime_us NOT BETWEEN 1000000 AND 315619200000000 THEN
    RAISE EXCEPTION 'a token lives for 1 second to 3653 days'
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  PERFORM dedupe.lock_access();
  now_us := dedupe.now_us();
  now_at := to_timestamp(now_us::float8 / 1000000);
  IF NOT EXISTS (SELECT FROM dedupe.principal AS p WHERE p.name = principal)
  THEN
    answer.outcome := 'principal_unknown';
    RETURN answer;
  END IF;
  IF EXISTS (SELECT FROM dedupe.token AS t WHERE t.id = create_token.id) THEN
    answer.outcome := 'taken';
    RETURN answer;
  END IF;
  IF live_max <= (
    SELECT count(*) FROM dedupe.token AS t
    WHERE t.principal = create_token.principal
      AND t.revoked_at IS NULL AND (t.expires_at <= now_at) IS NOT TRUE)
  THEN
    answer.outcome := 'too_many';
    RETURN answer;
  END IF;

  DELETE FROM dedupe.token AS t
  WHERE t.principal = create_token.principal
    AND least(t.revoked_at, t.expires_at)
      < to_timestamp((now_us - history_us)::float8 / 1000000);
  answer.expires_at := to_timestamp((now_us + lifetime_us)::float8 / 1000000);
  INSERT INTO dedupe.token (created_at, expires_at, id, principal, sha256)
  VALUES (now_at, answer.expires_at, id, principal, sha256);
  INSERT INTO dedupe.token_use (id) VALUES (id);
  PERFORM dedupe.raise_access_version();
  answer.outcome := 'created';
  RETURN answer;
END
$$;

-- revoked; already_revoked; unknown.
CREATE FUNCTION dedupe.revoke_token(id text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = dedupe, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  PERFORM dedupe.lock_access();
  UPDATE dedupe.token AS t
  SET revoked_at = to_timestamp(dedupe.now_us()::float8 / 1000000)
  WHERE t.id = revoke_token.id AND t.revoked_at IS NULL;
  IF FOUND THEN
    PERFORM dedupe.raise_access_version();
    RETURN 'revoked';
  END IF;
  IF EXISTS (SELECT FROM dedupe.token AS t WHERE t.id = revoke_token.id) THEN
    RETURN 'already_revoked';
  END IF;
  RETURN 'unknown';
END
$$;

CREATE TYPE dedupe.principal_listing AS (
  name text,
  role dedupe.principal_role,
  client_ids text[],
  certificate_names text[],
  calls_in_flight_max bigint,
  calls_per_second_max bigint,
  live_keys_max bigint,
  stored_bytes_max bigint,
  created_at timestamptz
);

CREATE FUNCTION dedupe.list_principals()
RETURNS SETOF dedupe.principal_listing
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = dedupe, pg_temp
AS $$
BEGIN
  RETURN QUERY
  SELECT
    p.name,
    p.role,
    p.client_ids,
    ARRAY(
      SELECT c.name FROM dedupe.certificate_name AS c
      WHERE c.principal = p.name
      ORDER BY c.name),
    p.calls_in_flight_max,
    p.calls_per_second_max,
    p.live_keys_max,
    p.stored_bytes_max,
    p.created_at
  FROM dedupe.principal AS p
  ORDER BY p.name;
END
$$;

CREATE TYPE dedupe.token_listing AS (
  id text,
  principal text,
  created_at timestamptz,
  expires_at timestamptz,
  last_used_at timestamptz,
  -- live, expired, revoked.
  state text
);

-- Never the digests. NULL: of all principals.
CREATE FUNCTION dedupe.list_tokens(principal text)
RETURNS SETOF dedupe.token_listing
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = dedupe, pg_temp
AS $$
DECLARE
  now_at CONSTANT timestamptz :=
    to_timestamp(dedupe.now_us()::float8 / 1000000);
BEGIN
  RETURN QUERY
  SELECT
    t.id,
    t.principal,
    t.created_at,
    t.expires_at,
    u.last_used_at,
    CASE
      WHEN t.revoked_at IS NOT NULL THEN 'revoked'
      WHEN t.expires_at <= now_at THEN 'expired'
      ELSE 'live'
    END
  FROM dedupe.token AS t
  LEFT JOIN dedupe.token_use AS u ON u.id = t.id
  WHERE list_tokens.principal IS NULL OR t.principal = list_tokens.principal
  ORDER BY t.principal, t.created_at, t.id;
END
$$;

REVOKE EXECUTE ON FUNCTION
  dedupe.lock_access(),
  dedupe.raise_access_version(),
  dedupe.put_principal(
    text, dedupe.principal_role, text[], text[], bigint, bigint, bigint, bigint),
  dedupe.remove_principal(text),
  dedupe.create_token(text, text, bytea, bigint),
  dedupe.revoke_token(text),
  dedupe.list_principals(),
  dedupe.list_tokens(text)
FROM PUBLIC;

INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (13, 'create_administration', 10);

RESET ROLE;
