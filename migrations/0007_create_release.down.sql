SET ROLE dedupe_owner;
DROP FUNCTION dedupe.release_batch(text[], text[], text[], bigint[], boolean[]);
DROP TYPE dedupe.release_answer;
DELETE FROM dedupe.schema_version WHERE version = 7;
RESET ROLE;
