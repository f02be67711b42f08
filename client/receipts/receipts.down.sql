-- Takes receipts.up.sql back, with every receipt. Only once no attempt that has
-- written or looked for one can go on.
DROP FUNCTION dedupe_receipts.void(text, text, bigint, timestamptz);
DROP FUNCTION dedupe_receipts.record(
  text, text, bigint, boolean, integer, jsonb, bytea, boolean);
DROP TABLE dedupe_receipts.receipt;
DROP SCHEMA dedupe_receipts;
