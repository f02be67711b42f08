SET ROLE dedupe_owner;
DROP FUNCTION dedupe.extend_batch(
  text[], text[], text[], bigint[], bigint[], bytea[]);
DROP TYPE dedupe.extend_answer;
DELETE FROM dedupe.schema_version WHERE version = 6;
RESET ROLE;
