// Receipts: how a service whose database is not dedupe's closes the crash
// window between its own commit and Complete.
//
// Inside the business transaction, as its last statement, the attempt writes a
// receipt: (client_id, key, fence, response). If the process dies after the
// commit, the next attempt finds the receipt and completes with its response.
// If it died before, or is only slow, the next attempt writes a *void marker*
// in the receipt's place, after which the earlier attempt's transaction can
// never commit. Either way the answer is definite, and there is one business
// commit.
//
// They do not help where dedupe loses its record, by a failover that loses
// commits or a restored backup: a key that is new to dedupe is a new request.
//
// The table and its functions are plain SQL, for the service's own database and
// for any language: receipts.up.sql, installed in share/dedupe, and its
// comments.
//
//   pqxx::work transaction(connection);
//   transaction.exec_params("INSERT INTO charge ...", ...);
//   return CommitWithReceipt(transaction, attempt.info(), response);
//
//   request.reconcile = [&](Attempt& attempt) {
//     return ReconcileByReceipt(connection, attempt.info());
//   };
//
// This is the target dedupe::receipts; it needs libpqxx. No function throws. A
// connection belongs to one thread at a time.
#ifndef DEDUPE_RECEIPTS_H_
#define DEDUPE_RECEIPTS_H_

#include <pqxx/pqxx>

#include "dedupe/outcome.h"
#include "dedupe/response.h"

namespace dedupe::client {

// Writes the receipt and commits. The transaction is over when this returns,
// committed or aborted. It is best at READ COMMITTED; a stricter one may be
// refused with a serialization failure.
//   Done             committed, with this response
//   NothingHappened  nothing was committed: a later attempt has voided this
//                    one, the connection broke before the commit, or the
//                    database refused (a constraint, a serialization failure)
//   Unknown          the connection broke during the commit, and the next
//                    attempt will find out; or the key has a receipt of this
//                    record already (kAlreadyExists), or another transaction
//                    is about to write one (kAborted), which the next attempt
//                    will find; or the transaction was not open
//
// Once for each attempt: after Unknown, return it. Not for a subtransaction,
// whose end is no commit (Unknown, nothing committed). A body over
// kBodyBytesMax is left out of the receipt (body_omitted).
WorkResult CommitWithReceipt(pqxx::transaction_base& transaction,
                             const AttemptInfo& attempt, Response response);

// For RunOnceRequest::reconcile. Runs a transaction of its own on the
// connection, which must have none open.
//   Done             an earlier attempt committed; this was its response
//   NothingHappened  it did not, and cannot any more
//   Unknown          an earlier attempt's transaction is open (waited for
//                    up to 2 s), a later attempt has voided this one, or the
//                    database did not answer
Reconciled ReconcileByReceipt(pqxx::connection& connection,
                              const AttemptInfo& attempt);

}  // namespace dedupe::client

#endif  // DEDUPE_RECEIPTS_H_
