SET ROLE dedupe_owner;
DROP FUNCTION dedupe.probe();
DROP TYPE dedupe.probe_answer;
DROP TABLE dedupe.probe;
DELETE FROM dedupe.schema_version WHERE version = 10;
RESET ROLE;
