SET ROLE dedupe_owner;
DROP FUNCTION dedupe.reap(integer, timestamptz);
DROP TYPE dedupe.reap_answer;
DELETE FROM dedupe.schema_version WHERE version = 9;
RESET ROLE;
