SET ROLE dedupe_owner;
DROP FUNCTION dedupe.list_tokens(text);
DROP TYPE dedupe.token_listing;
DROP FUNCTION dedupe.list_principals();
DROP TYPE dedupe.principal_listing;
DROP FUNCTION dedupe.revoke_token(text);
DROP FUNCTION dedupe.create_token(text, text, bytea, bigint);
DROP TYPE dedupe.create_token_answer;
DROP FUNCTION dedupe.remove_principal(text);
DROP FUNCTION dedupe.put_principal(
  text, dedupe.principal_role, text[], text[], bigint, bigint, bigint, bigint);
DROP FUNCTION dedupe.raise_access_version();
DROP FUNCTION dedupe.lock_access();
DELETE FROM dedupe.schema_version WHERE version = 13;
RESET ROLE;
