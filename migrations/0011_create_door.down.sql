SET ROLE dedupe_owner;
DROP FUNCTION dedupe.lookup(text, text);
DROP FUNCTION dedupe.release(text, text, text, bigint, boolean);
DROP FUNCTION dedupe.extend(text, text, text, bigint, interval, bytea);
DROP FUNCTION dedupe.complete(
  text, text, text, bigint, integer, bytea, jsonb);
DROP FUNCTION dedupe.begin(
  text, text, text, bytea, text, interval, interval, dedupe.lease_policy);
DROP FUNCTION dedupe.raise_refusal(text);
DROP FUNCTION dedupe.to_us(interval);
DELETE FROM dedupe.schema_version WHERE version = 11;
RESET ROLE;
