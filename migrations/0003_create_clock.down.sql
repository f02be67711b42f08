SET ROLE dedupe_owner;
DROP FUNCTION dedupe.now_us();
DELETE FROM dedupe.schema_version WHERE version = 3;
RESET ROLE;
