-- The SQL door: a service whose own tables share the database with dedupe
-- completes the key in the transaction that does the work. Either both are
-- there afterwards or neither, whatever crashes when.
--
-- On a database that `dedupe migrate` has prepared, as an administrator:
--
--   psql --set ON_ERROR_STOP=1 --file docs/examples/sql_door.sql DATABASE
--
-- It leaves the schema door_example and the role door_example_service behind:
-- DROP SCHEMA door_example CASCADE; DROP OWNED BY door_example_service;
-- DROP ROLE door_example_service; and its key, until its ttl is over.

\set ON_ERROR_STOP on
\pset format unaligned
\pset tuples_only on

-- Once: the service's role may call the five functions and touch nothing else
-- of dedupe.
CREATE ROLE door_example_service LOGIN;
GRANT USAGE ON SCHEMA dedupe TO door_example_service;
GRANT EXECUTE ON FUNCTION
  dedupe.begin(
    text, text, text, bytea, text, interval, interval, dedupe.lease_policy),
  dedupe.complete(text, text, text, bigint, integer, bytea, jsonb),
  dedupe.extend(text, text, text, bigint, interval, bytea),
  dedupe.release(text, text, text, bigint, boolean),
  dedupe.lookup(text, text)
TO door_example_service;

-- Its business table. The UNIQUE constraint on what is charged for is the last
-- line of defence, should a client ever send one order under two keys.
CREATE SCHEMA door_example AUTHORIZATION door_example_service;
SET ROLE door_example_service;
CREATE TABLE door_example.charge (
  order_number text NOT NULL,
  amount_cents bigint NOT NULL,
  CONSTRAINT charge_order_number_key UNIQUE (order_number)
);

-- 1. Begin, in a transaction of its own and before the work, so that others are
--    told in_progress meanwhile. client_id and key are the request's; the
--    fingerprint is the SHA-256 of what was asked; the attempt id is minted
--    here, one for each try.
SELECT gen_random_uuid() AS attempt_id \gset
SELECT outcome, fence, taken_over
FROM dedupe.begin(
  'acme', '0b3c8c3e-6f0f-4c0e-9a0e-2d0c7b1d9f10', 'POST /v1/charges',
  sha256('{"order": "A-1001", "amount": 2500}'), :'attempt_id',
  lease => interval '30 seconds') \gset begin_
\echo first request: :begin_outcome

-- Only `started` may go on. If taken_over is true, an earlier attempt may have
-- acted outside this database: find out before acting again.

-- 2. The work and its completion commit together. complete() raises if the key
--    is no longer ours, and then nothing of the work can be committed.
BEGIN;
INSERT INTO door_example.charge VALUES ('A-1001', 2500);
SELECT 'completed for: ' || (expires_at - completed_at)
FROM dedupe.complete(
  'acme', '0b3c8c3e-6f0f-4c0e-9a0e-2d0c7b1d9f10', :'attempt_id', :begin_fence,
  201, '{"charged": 2500}', '[["content-type", "application/json"]]');
COMMIT;

-- 3. The client has not seen the answer and sends the same request again: it is
--    handed the stored response, and nothing is charged.
SELECT outcome, response_code, convert_from(response_body, 'UTF8') AS body
FROM dedupe.begin(
  'acme', '0b3c8c3e-6f0f-4c0e-9a0e-2d0c7b1d9f10', 'POST /v1/charges',
  sha256('{"order": "A-1001", "amount": 2500}'), gen_random_uuid()::text)
\gset again_
\echo same request again: :again_outcome :again_response_code :again_body

-- 4. The same key with another request is a bug of the client's: answer 422.
SELECT outcome
FROM dedupe.begin(
  'acme', '0b3c8c3e-6f0f-4c0e-9a0e-2d0c7b1d9f10', 'POST /v1/charges',
  sha256('{"order": "A-1002", "amount": 9900}'), gen_random_uuid()::text)
\gset other_
\echo another request with that key: :other_outcome

SELECT 'charges: ' || count(*) FROM door_example.charge;
