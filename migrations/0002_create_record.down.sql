SET ROLE dedupe_owner;
DROP TABLE dedupe.fence_floor;
DROP TABLE dedupe.record;
DROP TYPE dedupe.lease_policy;
DROP TYPE dedupe.record_state;
DELETE FROM dedupe.schema_version WHERE version = 2;
RESET ROLE;
