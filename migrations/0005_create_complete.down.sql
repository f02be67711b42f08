SET ROLE dedupe_owner;
DROP FUNCTION dedupe.complete_batch(
  text[], text[], text[], bigint[], integer[], jsonb[], bytea[]);
DROP TYPE dedupe.complete_answer;
DROP FUNCTION dedupe.judge_holder(dedupe.record, text, bigint, timestamptz);
DELETE FROM dedupe.schema_version WHERE version = 5;
RESET ROLE;
