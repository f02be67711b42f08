SET ROLE dedupe_owner;
DROP FUNCTION dedupe.lookup_batch(text[], text[], boolean);
DROP TYPE dedupe.lookup_answer;
DELETE FROM dedupe.schema_version WHERE version = 8;
RESET ROLE;
