-- The roles, the schema and the list of applied migrations.
--
-- The four roles are groups without a login: a deployment grants them to the
-- login roles of its own making, so no password ever stands in a migration.
-- Roles belong to the whole cluster, so they may be there already: made by an
-- administrator beforehand, or for another database of the same cluster.
DO $$
DECLARE
  role_name text;
BEGIN
  FOREACH role_name IN ARRAY ARRAY[
    'dedupe_owner', 'dedupe_migrator', 'dedupe_runtime', 'dedupe_reader']
  LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
      EXCEPTION WHEN duplicate_object OR unique_violation THEN
        NULL;  -- Another database's migration made it at this very moment.
      END;
    END IF;
  END LOOP;
  -- Whoever migrates acts as the owner, so that everything made here belongs
  -- to the owner, whichever login ran the migration. Only what is missing is
  -- granted: that needs no administrator where an administrator went before.
  IF NOT pg_has_role('dedupe_migrator', 'dedupe_owner', 'MEMBER') THEN
    GRANT dedupe_owner TO dedupe_migrator;
  END IF;
  IF NOT pg_has_role(current_user, 'dedupe_migrator', 'MEMBER') THEN
    EXECUTE format('GRANT dedupe_migrator TO %I', current_user);
  END IF;
END
$$;

CREATE SCHEMA dedupe AUTHORIZATION dedupe_owner;

SET ROLE dedupe_owner;

COMMENT ON SCHEMA dedupe IS
  'Idempotency bookkeeping: use the functions; the tables are granted to nobody.';

-- Each migration adds its own row, so that the list is true whichever tool ran
-- the file. `dedupe migrate` adds the checksum; elsewhere it stays NULL.
CREATE TABLE dedupe.schema_version (
  version integer NOT NULL,
  name text COLLATE "C" NOT NULL,
  -- The oldest server that may serve on this schema, as the newest migration
  -- that this server knows. A migration that old servers survive repeats the
  -- number before it; one that they do not survive gives its own.
  compatible_from integer NOT NULL,
  sha256 text COLLATE "C",
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT schema_version_pkey PRIMARY KEY (version),
  CONSTRAINT schema_version_positive CHECK (version > 0),
  CONSTRAINT schema_version_compatible
    CHECK (compatible_from BETWEEN 1 AND version),
  CONSTRAINT schema_version_name_length
    CHECK (octet_length(name) BETWEEN 1 AND 100),
  CONSTRAINT schema_version_sha256_form CHECK (sha256 ~ '^[0-9a-f]{64}$')
);

INSERT INTO dedupe.schema_version (version, name, compatible_from)
VALUES (1, 'create_schema', 1);

RESET ROLE;

GRANT USAGE ON SCHEMA dedupe TO dedupe_migrator, dedupe_runtime, dedupe_reader;
