SET ROLE dedupe_owner;
DROP FUNCTION dedupe.begin_batch(
  text[], text[], text[], bytea[], text[], bigint[], bigint[],
  dedupe.lease_policy[]);
DROP TYPE dedupe.begin_answer;
DELETE FROM dedupe.schema_version WHERE version = 4;
RESET ROLE;
