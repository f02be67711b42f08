// Every SQL text of the server: one call of a function that the migrations
// define, for each verb. The columns are read by number in decode.cc, in the
// order in which they stand here; times come as microseconds since 1970.
#ifndef DEDUPE_SERVER_STORE_STATEMENTS_H_
#define DEDUPE_SERVER_STORE_STATEMENTS_H_

namespace dedupe {

// A time column as a whole number.
#define DEDUPE_US(column) "(extract(epoch FROM " column ") * 1000000)::bigint"
// A bytea column as hexadecimal digits, whatever bytea_output says.
#define DEDUPE_HEX(column) "encode(" column ", 'hex')"

inline constexpr char kBegin[] =
    "SELECT client_id, key, outcome, fence, attempt_number, resumed,"
    " taken_over, " DEDUPE_HEX("checkpoint") ", " DEDUPE_US("created_at") ", "
    DEDUPE_US("started_at") ", " DEDUPE_US("lease_expires_at") ", "
    DEDUPE_US("completed_at") ", " DEDUPE_US("expires_at") ","
    " response_code, response_headers, " DEDUPE_HEX(
        "response_body") ", body_omitted, "
    DEDUPE_US("decided_at")
    " FROM dedupe.begin_batch($1::text[], $2::text[], $3::text[], $4::bytea[],"
    " $5::text[], $6::bigint[], $7::bigint[], $8::dedupe.lease_policy[])";

inline constexpr char kComplete[] =
    "SELECT client_id, key, outcome, " DEDUPE_US("completed_at") ", "
    DEDUPE_US("expires_at") ", " DEDUPE_US("decided_at")
    " FROM dedupe.complete_batch($1::text[], $2::text[], $3::text[], $4::bigint[],"
    " $5::integer[], $6::jsonb[], $7::bytea[])";

inline constexpr char kExtend[] =
    "SELECT client_id, key, outcome, " DEDUPE_US("lease_expires_at") ", "
    DEDUPE_US("decided_at")
    " FROM dedupe.extend_batch($1::text[], $2::text[], $3::text[], $4::bigint[],"
    " $5::bigint[], $6::bytea[])";

inline constexpr char kRelease[] =
    "SELECT client_id, key, outcome, " DEDUPE_US("expires_at") ", "
    DEDUPE_US("decided_at")
    " FROM dedupe.release_batch($1::text[], $2::text[], $3::text[], $4::bigint[],"
    " $5::boolean[])";

inline constexpr char kLookup[] =
    "SELECT client_id, key, state, operation, attempt_number, "
    DEDUPE_US("created_at") ", " DEDUPE_US("started_at") ", "
    DEDUPE_US("lease_expires_at") ", " DEDUPE_US("completed_at") ", "
    DEDUPE_US("expires_at") ","
    " response_code, response_headers, " DEDUPE_HEX(
        "response_body") ", body_omitted, "
    DEDUPE_US("decided_at")
    " FROM dedupe.lookup_batch($1::text[], $2::text[], $3::boolean)";

inline constexpr char kReap[] =
    "SELECT examined, deleted, lag_us, clock_refused, "
    DEDUPE_US("decided_at")
    " FROM dedupe.reap($1::integer,"
    " to_timestamp($2::bigint::float8 / 1000000))";

inline constexpr char kProbe[] =
    "SELECT schema_version, compatible_from, " DEDUPE_US(
        "decided_at") " FROM dedupe.probe()";

inline constexpr char kAccess[] = "SELECT version, document, " DEDUPE_US(
    "decided_at") " FROM dedupe.access($1::bigint, $2::text[])";

inline constexpr char kUsage[] =
    "SELECT examined, live_keys, stored_bytes, last_client_id, last_key, "
    DEDUPE_US("decided_at")
    " FROM dedupe.usage($1::text, $2::text, $3::text, $4::integer)";

// The administrator's, of access_admin.h; an empty number or name is NULL.
inline constexpr char kPutPrincipal[] =
    "SELECT dedupe.put_principal($1::text, $2::dedupe.principal_role,"
    " $3::text[], $4::text[], nullif($5::text, '')::bigint,"
    " nullif($6::text, '')::bigint, nullif($7::text, '')::bigint,"
    " nullif($8::text, '')::bigint)";
inline constexpr char kRemovePrincipal[] =
    "SELECT dedupe.remove_principal($1::text)";
inline constexpr char kCreateToken[] =
    "SELECT outcome, " DEDUPE_US("expires_at")
    " FROM dedupe.create_token($1::text, $2::text, decode($3::text, 'hex'),"
    " nullif($4::text, '')::bigint)";
inline constexpr char kRevokeToken[] = "SELECT dedupe.revoke_token($1::text)";
inline constexpr char kListPrincipals[] =
    "SELECT name, role, to_jsonb(client_ids), to_jsonb(certificate_names),"
    " calls_in_flight_max, calls_per_second_max, live_keys_max,"
    " stored_bytes_max, " DEDUPE_US(
        "created_at") " FROM dedupe.list_principals()";
inline constexpr char kListTokens[] =
    "SELECT id, principal, " DEDUPE_US("created_at") ", "
    DEDUPE_US("expires_at") ", " DEDUPE_US("last_used_at") ", state"
    " FROM dedupe.list_tokens(nullif($1::text, ''))";
// How many of its functions there are, whether this login may call them all,
// and whether it may act as their owner. Of the catalogue, which everybody may
// read.
inline constexpr char kAdministratorRights[] =
    "SELECT count(*), coalesce(bool_and("
    "has_schema_privilege(n.oid, 'USAGE')"
    " AND has_function_privilege(p.oid, 'EXECUTE')), false),"
    " coalesce(bool_and(pg_has_role(p.proowner, 'MEMBER')), false),"
    " current_user"
    " FROM pg_catalog.pg_proc AS p"
    " JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace"
    " WHERE n.nspname = 'dedupe' AND p.proname IN ('put_principal',"
    " 'remove_principal', 'create_token', 'revoke_token', 'list_principals',"
    " 'list_tokens')";
inline constexpr char kActAsOwner[] = "SET LOCAL ROLE dedupe_owner";

#undef DEDUPE_HEX
#undef DEDUPE_US

// Asked once of each new connection.
inline constexpr char kSessionIsolation[] =
    "SELECT current_setting('default_transaction_isolation')";
inline constexpr char kBeginReadCommitted[] =
    "BEGIN ISOLATION LEVEL READ COMMITTED";
inline constexpr char kCommit[] = "COMMIT";
inline constexpr char kRollback[] = "ROLLBACK";

// The migrator's.
inline constexpr char kMigrationLock[] =
    // Any number will do that nobody else locks: 'dedupe' in ASCII.
    "SELECT pg_advisory_xact_lock(110378119688293)";
inline constexpr char kServerEncoding[] =
    "SELECT current_setting('server_encoding')";
inline constexpr char kHasSchemaVersion[] =
    "SELECT to_regclass('dedupe.schema_version') IS NOT NULL";
inline constexpr char kAppliedMigrations[] =
    "SELECT version, name, sha256 FROM dedupe.schema_version ORDER BY version";
inline constexpr char kRecordChecksum[] =
    "UPDATE dedupe.schema_version SET sha256 = $2 WHERE version = $1::integer";

}  // namespace dedupe

#endif  // DEDUPE_SERVER_STORE_STATEMENTS_H_
