// Keys and responses are other people's data, and a connection string holds a
// password: none of them reaches the log, the arguments or the text of a
// status, on whatever path a call goes wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/end_to_end/deployment.h"

namespace dedupe::testing {
namespace {

using nlohmann::json;

constexpr char kClientId[] = "alice@example.com";
constexpr char kKey[] = "key-of-alice-4711";
constexpr char kOperation[] = "POST /v1/patients/alice";
constexpr char kAttemptId[] = "attempt-secret-17";
constexpr char kFingerprint[] = "fingerprint-of-alice-0815";
constexpr char kBody[] = "ssn=123-45-6789";
constexpr char kHeaderValue[] = "session=topsecret";
constexpr char kCheckpoint[] = "checkpoint-of-alice";
constexpr char kPassword[] = "hunter2";

// In the forms that a log or PostgreSQL could give them.
std::vector<std::string> Secrets() {
  std::vector<std::string> secrets;
  for (const std::string secret :
       {kClientId, kKey, kOperation, kAttemptId, kFingerprint, kBody,
        kHeaderValue, kCheckpoint, kPassword}) {
    secrets.push_back(secret);
    secrets.push_back(absl::AsciiStrToUpper(secret));
    secrets.push_back(absl::BytesToHexString(secret));
    secrets.push_back(absl::Base64Escape(secret));
  }
  return secrets;
}

void ExpectNoSecretIn(const std::string& text, const std::string& where) {
  for (const std::string& secret : Secrets()) {
    const size_t found = text.find(secret);
    EXPECT_EQ(found, std::string::npos)
        << "\"" << secret << "\" in " << where << ": "
        << text.substr(found < 200 ? 0 : found - 200, 400);
  }
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

v1::BeginRequest SecretBegin(const std::string& attempt_id = kAttemptId) {
  v1::BeginRequest request;
  request.set_client_id(kClientId);
  request.set_key(kKey);
  request.set_operation(kOperation);
  request.set_fingerprint(kFingerprint);
  request.set_attempt_id(attempt_id);
  return request;
}

v1::CompleteRequest SecretComplete(int64_t fence) {
  v1::CompleteRequest request = CompleteOf(SecretBegin(), fence, kBody);
  v1::Header& header = *request.mutable_response()->add_headers();
  header.set_name("Set-Cookie");
  header.set_value(kHeaderValue);
  return request;
}

// Drives a server into every kind of trouble and collects what callers are
// told.
class Troublemaker {
 public:
  explicit Troublemaker(const std::string& log_format)
      : database_(cluster_.CreateMigratedDatabase()),
        url_(cluster_.Url(database_)),
        address_(absl::StrCat("127.0.0.1:", FreePort())),
        server_({DedupeBinary(), "serve", "--listen-address=" + address_,
                 "--drain-delay=0s", "--log-level=debug",
                 "--log-format=" + log_format, "--connections=2"},
                {{"DEDUPE_DATABASE_URL",
                  absl::StrCat(cluster_.Url(database_, kServerRole),
                               " password=", kPassword)},
                 kLosesResults.front()},
                absl::StrCat(ScratchDirectory(), "/", database_, "-",
                             log_format, ".log")),
        client_(address_) {
    EXPECT_TRUE(server_.WaitForOutput("ready"));
  }

  // All that callers were told so far.
  const std::string& told() const { return told_; }
  std::string Log() const { return server_.Output(); }
  std::string Arguments() {
    return ReadFile(absl::StrCat("/proc/", server_.pid(), "/cmdline"));
  }

  void RefusedByTheRules() {
    Note(client_.Begin(SecretBegin()));
    const int64_t fence = Fence();
    Note(client_.Begin(SecretBegin("attempt-2")));
    v1::BeginRequest other = SecretBegin();
    other.set_fingerprint(absl::StrCat(kFingerprint, "x"));
    Note(client_.Begin(other));
    v1::ExtendRequest extend = ExtendOf(SecretBegin(), fence);
    extend.set_checkpoint(kCheckpoint);
    Note(client_.Extend(extend));
    Note(client_.Complete(SecretComplete(fence + 1)));
    Note(client_.Complete(SecretComplete(fence)));
    Note(client_.Release(ReleaseOf(SecretBegin(), fence)));
    v1::CompleteRequest conflict = SecretComplete(fence);
    conflict.mutable_response()->set_code(500);
    Note(client_.Complete(conflict));
    v1::BeginRequest absent = SecretBegin();
    absent.set_key(absl::StrCat(kKey, "-absent"));
    Note(client_.Complete(CompleteOf(absent, fence, kBody)));
  }

  void RefusedByTheBounds() {
    v1::BeginRequest long_key = SecretBegin();
    while (long_key.key().size() < 300) long_key.mutable_key()->append(kKey);
    Note(client_.Begin(long_key));
    v1::BeginRequest control = SecretBegin();
    control.mutable_key()->append("\n");
    Note(client_.Begin(control));
    v1::CompleteRequest large = SecretComplete(1);
    while (large.response().body().size() < 300'000) {
      large.mutable_response()->mutable_body()->append(kBody);
    }
    Note(client_.Complete(large));
    const RawReply malformed =
        CallRaw(client_.channel(), MethodPath("Begin"),
                SecretBegin().SerializeAsString() + "\x12\x02\xff\xfe");
    told_ += Describe(malformed.status);
  }

  // The database answers with errors that quote what was sent, in their text or
  // in their detail, when it sees these attempt ids.
  void RefusedByTheDatabase(const std::vector<std::string>& attempt_ids) {
    Sql(url_,
        "CREATE FUNCTION public.shout() RETURNS trigger LANGUAGE plpgsql AS $$"
        " BEGIN IF NEW.attempt_id = 'check' THEN RAISE EXCEPTION"
        " 'new row violates a rule' USING ERRCODE = 'check_violation',"
        " DETAIL = NEW::text; ELSIF NEW.attempt_id = 'data' THEN RAISE "
        "EXCEPTION"
        " 'invalid input: %', NEW::text USING ERRCODE = '22P02';"
        " ELSIF NEW.attempt_id = 'own' THEN RAISE EXCEPTION 'bad: %',"
        " NEW::text; ELSIF NEW.attempt_id = 'warn' THEN RAISE WARNING"
        " 'odd: %', NEW::text; END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER shout BEFORE INSERT ON dedupe.record FOR EACH ROW"
        " EXECUTE FUNCTION public.shout()");
    for (const std::string& attempt_id : attempt_ids) {
      v1::BeginRequest begin = SecretBegin(attempt_id);
      begin.set_key(absl::StrCat(kKey, attempt_id));
      Note(client_.Begin(begin));
    }
  }

  void DamagedRecord() {
    Sql(url_,
        "ALTER TABLE dedupe.record DROP CONSTRAINT record_fingerprint_bound;"
        "UPDATE dedupe.record SET fingerprint = NULL WHERE state ="
        " 'completed'");
    Note(client_.Begin(SecretBegin()));
    Note(client_.Lookup(LookupOf(SecretBegin())));
  }

  void LostDatabase() {
    Sql(url_,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename ="
        " 'dedupe_server'");
    Note(client_.Begin(SecretBegin("attempt-3")));
    cluster_.Stop("immediate");
    Note(client_.Begin(SecretBegin("attempt-4")));
    Note(client_.Begin(SecretBegin("attempt-5"), absl::Milliseconds(20)));
    cluster_.Start();
    EXPECT_TRUE(server_.WaitForOutput("not_ready"));
  }

  void Drained() {
    PendingBegin in_flight(client_, SecretBegin("attempt-6"));
    server_.Signal(SIGTERM);
    told_ += Describe(in_flight.reply().status);
    EXPECT_EQ(server_.Wait(), 0);
    Note(client_.Begin(SecretBegin("attempt-7"), absl::Milliseconds(200)));
  }

 private:
  template <typename Message>
  void Note(const Reply<Message>& reply) {
    told_ += Describe(reply.status);
  }

  int64_t Fence() {
    return client_.Begin(SecretBegin()).message.started().fence();
  }

  PostgresCluster cluster_{{}};
  const std::string database_;
  const std::string url_;
  const std::string address_;
  Process server_;
  Client client_;
  std::string told_;
};

std::vector<std::string> Lines(const std::string& log) {
  std::vector<std::string> lines = absl::StrSplit(log, '\n', absl::SkipEmpty());
  EXPECT_GT(lines.size(), 20u) << log;
  return lines;
}

void MakeAllTrouble(Troublemaker& trouble) {
  trouble.RefusedByTheRules();
  trouble.RefusedByTheBounds();
  trouble.RefusedByTheDatabase({"check", "data"});
  trouble.DamagedRecord();
  trouble.LostDatabase();
  ExpectNoSecretIn(trouble.Arguments(), "the arguments");
  trouble.Drained();
  ExpectNoSecretIn(trouble.told(), "what callers were told");
  ExpectNoSecretIn(trouble.Log(), "the log");
}

TEST(SecretsTest, StayOutOfAJsonLogAndOfWhatCallersAreTold) {
  Troublemaker trouble("json");
  MakeAllTrouble(trouble);

  std::set<std::string> events;
  for (const std::string& line : Lines(trouble.Log())) {
    const json entry = json::parse(line, nullptr, false);
    ASSERT_TRUE(entry.is_object()) << line;
    for (const char* field : {"time", "severity", "event"}) {
      ASSERT_TRUE(entry.contains(field) && entry[field].is_string()) << line;
    }
    events.insert(entry["event"].get<std::string>());
    // A key is named by sixteen digits, or its calls could not be told apart.
    if (entry["event"] == "call" && entry["reason"] == "LEASE_LOST") {
      EXPECT_EQ(entry["key_digest"].get<std::string>().size(), 16u) << line;
    }
  }
  // That there was something to find.
  for (const char* event : {"serving", "ready", "call", "database_error",
                            "not_ready", "draining", "stopped"}) {
    EXPECT_TRUE(events.contains(event)) << event;
  }
  absl::PrintF("events: %s\n", absl::StrJoin(events, " "));
}

TEST(SecretsTest, StayOutOfATextLogToo) {
  Troublemaker trouble("text");
  MakeAllTrouble(trouble);
  for (const std::string& line : Lines(trouble.Log())) {
    EXPECT_THAT(line, ::testing::MatchesRegex(
                          "[0-9-]+T[0-9:.]+Z (debug|info|warning|error)"
                          " [a-z_]+( [a-z_]+=.*)?"));
  }
}

// An operator's own trigger may quote anything.
TEST(SecretsTest, TextsOfForeignTriggersStayOutOfTheLog) {
  Troublemaker trouble("json");
  trouble.RefusedByTheDatabase({"own", "warn"});
  ExpectNoSecretIn(trouble.told(), "what callers were told");
  ExpectNoSecretIn(trouble.Log(), "the log");
}

TEST(SecretsTest, PasswordOfABadConnectionStringIsNotShown) {
  for (const std::string url :
       {"host=db.internal password=hunter2 and=more",
        "postgresql://a:hunter2@[", "postgresql://a:p@hunter2@db/x",
        "password='hunter2"}) {
    const ProcessResult result =
        RunProcess({DedupeBinary(), "serve"}, {{"DEDUPE_DATABASE_URL", url}},
                   absl::Seconds(20));
    EXPECT_EQ(result.exit_code, 2);
    ExpectNoSecretIn(result.standard_error + result.standard_output, url);
  }
}

}  // namespace
}  // namespace dedupe::testing
