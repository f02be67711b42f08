SET ROLE dedupe_owner;
DROP FUNCTION dedupe.usage(text, text, text, integer);
DROP TYPE dedupe.usage_answer;
DELETE FROM dedupe.schema_version WHERE version = 14;
RESET ROLE;
