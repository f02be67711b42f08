SET ROLE dedupe_owner;
DROP TABLE dedupe.schema_version;
RESET ROLE;
DROP SCHEMA dedupe;

-- A role that another database of the cluster still uses stays.
DO $$
DECLARE
  role_name text;
BEGIN
  FOREACH role_name IN ARRAY ARRAY[
    'dedupe_reader', 'dedupe_runtime', 'dedupe_migrator', 'dedupe_owner']
  LOOP
    BEGIN
      EXECUTE format('DROP ROLE IF EXISTS %I', role_name);
    EXCEPTION WHEN dependent_objects_still_exist OR insufficient_privilege THEN
      RAISE NOTICE 'role % stays: it is in use elsewhere', role_name;
    END;
  END LOOP;
END
$$;
