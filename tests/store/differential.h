// Random calls against the model in memory and against PostgreSQL, time
// included: every answer and every refusal must be the same.
//
// Many keys are at work at once, one call each in every round, because their
// answers do not depend on each other: the calls reach the database in batches,
// as they do in production, and a hundred thousand take seconds.
#ifndef DEDUPE_TESTS_STORE_DIFFERENTIAL_H_
#define DEDUPE_TESTS_STORE_DIFFERENTIAL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/service/store.h"
#include "tests/store/random_call.h"
#include "tests/support/memory_store.h"
#include "tests/support/test_clock.h"

namespace dedupe::testing {

class Differential {
 public:
  struct Options {
    uint64_t seed = 1;
    int64_t operations = 0;
  };

  // clock: of the database behind `postgres`. Both must outlive it.
  Differential(Store& postgres, TestClock& clock);

  // Where the two first differ: the shortest history that could be found, ready
  // to be read and repeated. nullopt: they agreed to the end.
  std::optional<std::string> Run(const Options& options);

  // How often each kind of answer was seen, such as "Begin: replay".
  const std::map<std::string, int64_t>& seen() const { return seen_; }
  int64_t operations() const { return operations_; }

 private:
  // What happened to one key, and when: a call, or a sweep of the whole table.
  struct Event {
    absl::Time at;
    std::optional<RandomCall> call;
    int sweep_rows = 0;
  };
  using History = std::vector<Event>;

  struct Key {
    RecordId id;
    Holders holders;
    History history;
  };

  // A call put to both.
  struct Exchange {
    Command command;
    std::string of_model;
    std::string of_postgres;
  };

  std::vector<Key> MakeKeys(const std::string& client_id) const;
  void MoveClock(const std::vector<Key>& keys);
  absl::Time SomeBoundary(const std::vector<Key>& keys);
  void Sweep(int rows);
  // Index of the first key whose answers differ.
  std::optional<size_t> PlayRound(std::vector<Key>& keys);
  Exchange AskModel(const Command& command, Key& key);
  void AskPostgres(std::vector<Exchange>& exchanges);
  void Count(const Exchange& exchange);

  // Plays a history on a key of its own: what was asked and answered, up to the
  // first difference; the flag tells whether there was one.
  std::pair<std::vector<Exchange>, bool> Replay(const History& history);
  History Shortest(History history);
  std::string Report(const Options& options, const History& history);

  Store& postgres_;
  TestClock& clock_;
  std::unique_ptr<MemoryStore> model_;
  Random random_;
  int64_t operations_ = 0;
  int replays_ = 0;
  // The clock never goes back to before a sweep, which has forgotten things.
  absl::Time swept_at_ = absl::InfinitePast();
  int64_t newest_fence_ = 0;
  std::map<std::string, int64_t> seen_;
};

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_STORE_DIFFERENTIAL_H_
