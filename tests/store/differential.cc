#include "tests/store/differential.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "tests/store/blocking_store.h"
#include "tests/store/outcomes.h"

namespace dedupe::testing {
namespace {

constexpr size_t kKeys = 64;
// Only a store that has lost a call takes so long.
constexpr absl::Duration kPatience = absl::Seconds(60);

// Puts the command to the store; `done` gets the answer in words.
template <typename Done>
void Ask(Store& store, const Command& command, Done done) {
  const auto describe = [done](const auto& answer) { done(Describe(answer)); };
  const CallScope scope = Within(kPatience);
  std::visit(
      [&](const auto& c) {
        using Type = std::decay_t<decltype(c)>;
        if constexpr (std::is_same_v<Type, BeginCommand>) {
          store.Begin(c, scope, describe);
        } else if constexpr (std::is_same_v<Type, CompleteCommand>) {
          store.Complete(c, scope, describe);
        } else if constexpr (std::is_same_v<Type, ExtendCommand>) {
          store.Extend(c, scope, describe);
        } else if constexpr (std::is_same_v<Type, ReleaseCommand>) {
          store.Release(c, scope, describe);
        } else if constexpr (std::is_same_v<Type, LookupCommand>) {
          store.Lookup(c, scope, describe);
        } else {
          store.Watch(c, scope, describe);
        }
      },
      command);
}

// Up to the first detail: "Begin: replay of", "Complete: refused: LEASE_LOST".
std::string KindOf(const std::string& answer) {
  if (answer.starts_with("refused")) return answer;
  std::string kind = answer.substr(0, answer.find_first_of(",{"));
  kind = kind.substr(0, kind.find_first_of("0123456789"));
  for (const char* mark : {"resumed", "taken over"}) {
    if (answer.find(absl::StrCat(", ", mark)) != std::string::npos) {
      absl::StrAppend(&kind, ", ", mark);
    }
  }
  return kind;
}

std::string VerbOf(const Command& command) {
  const std::string text = Describe(command);
  return text.substr(0, text.find(' '));
}

}  // namespace

Differential::Differential(Store& postgres, TestClock& clock)
    : postgres_(postgres),
      clock_(clock),
      model_(std::make_unique<MemoryStore>([this] { return clock_.Now(); })) {}

std::optional<std::string> Differential::Run(const Options& options) {
  random_.seed(options.seed);
  std::vector<Key> keys = MakeKeys(absl::StrCat("seed-", options.seed));
  for (operations_ = 0; operations_ < options.operations;) {
    MoveClock(keys);
    if (Pick(random_, 20) == 0) {
      const int rows = static_cast<int>(1 + Pick(random_, 200));
      // Sweeping forgets fences that are ahead of the clock.
      if (absl::ToUnixMicros(clock_.Now()) > newest_fence_) {
        Sweep(rows);
        for (Key& key : keys) {
          key.history.push_back({clock_.Now(), std::nullopt, rows});
        }
      }
    }
    const auto differing = PlayRound(keys);
    if (differing.has_value()) {
      return Report(options, Shortest(keys[*differing].history));
    }
  }
  return std::nullopt;
}

std::vector<Differential::Key> Differential::MakeKeys(
    const std::string& client_id) const {
  std::vector<Key> keys(kKeys);
  for (size_t i = 0; i < kKeys; ++i) {
    keys[i].id = {client_id, absl::StrCat("k", i)};
  }
  return keys;
}

// Small steps, so that leases are met alive; exact ones, so that their ends are
// met to the microsecond; and large ones, so that records expire.
void Differential::MoveClock(const std::vector<Key>& keys) {
  static constexpr int64_t kStepsUs[] = {
      0,       0,       0,         0,         1,         100'000,   100'000,
      100'000, 250'000, 1'000'000, 1'000'000, 2'500'000, 5'000'000, 30'000'000};
  const size_t dice = Pick(random_, 100);
  if (dice < 1) {
    clock_.Advance(absl::Hours(25));
  } else if (dice < 3) {
    clock_.Advance(absl::Hours(1));
  } else if (dice < 5) {
    clock_.Set(std::max(swept_at_, clock_.Now() - absl::Seconds(2)));
  } else if (dice < 40) {
    clock_.Set(SomeBoundary(keys));
  } else {
    clock_.Advance(
        absl::Microseconds(kStepsUs[Pick(random_, std::size(kStepsUs))]));
  }
}

// When something of some key ends, or just before; now if nothing does.
absl::Time Differential::SomeBoundary(const std::vector<Key>& keys) {
  const absl::Time now = clock_.Now();
  const auto watched =
      BlockingStore(*model_).Watch(keys[Pick(random_, keys.size())].id);
  const auto end =
      Pick(random_, 2) == 0 ? watched->lease_expires_at : watched->expires_at;
  const absl::Duration early = absl::Microseconds(Pick(random_, 2));
  return std::max(now, end.value_or(now) - early);
}

void Differential::Sweep(int rows) {
  ReapCommand command;
  command.row_limit = rows;
  const auto answer = BlockingStore(postgres_, kPatience).Reap(command);
  EXPECT_TRUE(answer.ok() && answer->decided_at == clock_.Now())
      << Describe(answer);
  swept_at_ = clock_.Now();
}

std::optional<size_t> Differential::PlayRound(std::vector<Key>& keys) {
  // Now and then few calls, which makes small batches.
  const size_t calls =
      Pick(random_, 4) == 0 ? 1 + Pick(random_, 4) : keys.size();
  const size_t first = Pick(random_, keys.size());
  std::vector<Exchange> exchanges;
  for (size_t i = 0; i < calls; ++i) {
    Key& key = keys[(first + i) % keys.size()];
    const RandomCall call = MakeRandomCall(random_);
    key.history.push_back({clock_.Now(), call, 0});
    exchanges.push_back(AskModel(Resolve(call, key.id, key.holders), key));
  }
  AskPostgres(exchanges);
  for (size_t i = 0; i < calls; ++i) {
    ++operations_;
    Count(exchanges[i]);
    if (exchanges[i].of_model != exchanges[i].of_postgres) {
      return (first + i) % keys.size();
    }
  }
  return std::nullopt;
}

Differential::Exchange Differential::AskModel(const Command& command,
                                              Key& key) {
  Exchange exchange = {command, "", ""};
  if (const auto* begin = std::get_if<BeginCommand>(&command)) {
    const auto answer = BlockingStore(*model_).Begin(*begin);
    exchange.of_model = Describe(answer);
    if (Is<Started>(answer)) {
      const int64_t fence = std::get<Started>(answer->outcome).fence;
      newest_fence_ = std::max(newest_fence_, fence);
      if (key.holders.empty() || key.holders.back().fence != fence) {
        key.holders.push_back({begin->attempt_id, fence});
      }
    }
    return exchange;
  }
  Ask(*model_, command,
      [&exchange](std::string text) { exchange.of_model = std::move(text); });
  return exchange;
}

void Differential::AskPostgres(std::vector<Exchange>& exchanges) {
  absl::BlockingCounter open(static_cast<int>(exchanges.size()));
  for (Exchange& exchange : exchanges) {
    Ask(postgres_, exchange.command, [&](std::string text) {
      exchange.of_postgres = std::move(text);
      open.DecrementCount();
    });
  }
  open.Wait();
}

void Differential::Count(const Exchange& exchange) {
  ++seen_[absl::StrCat(VerbOf(exchange.command), ": ",
                       KindOf(exchange.of_model))];
}

std::pair<std::vector<Differential::Exchange>, bool> Differential::Replay(
    const History& history) {
  Key key;
  key.id = {absl::StrCat("replay-", ++replays_), "k"};
  std::vector<Exchange> exchanges;
  // Later than all before, because sweeping remembers the greatest fence; by
  // whole hours, because the reaper looks at whole seconds.
  const absl::Duration shift =
      absl::Ceil(clock_.Now() - history.front().at, absl::Hours(1)) +
      absl::Hours(1);
  for (const Event& event : history) {
    clock_.Set(event.at + shift);
    if (!event.call.has_value()) {
      Sweep(event.sweep_rows);
      exchanges.push_back({});
      continue;
    }
    std::vector<Exchange> one = {
        AskModel(Resolve(*event.call, key.id, key.holders), key)};
    AskPostgres(one);
    exchanges.push_back(one[0]);
    if (one[0].of_model != one[0].of_postgres) return {exchanges, true};
  }
  return {exchanges, false};
}

// Drops ever smaller parts for as long as what is left still fails.
Differential::History Differential::Shortest(History history) {
  const auto [exchanges, fails] = Replay(history);
  if (!fails) return history;
  history.resize(exchanges.size());
  for (size_t part = std::max<size_t>(1, history.size() / 2);; part /= 2) {
    for (size_t at = 0; at + part < history.size();) {
      History shorter = history;
      const auto begin = shorter.begin() + static_cast<ptrdiff_t>(at);
      shorter.erase(begin, begin + static_cast<ptrdiff_t>(part));
      const auto [again, still_fails] = Replay(shorter);
      if (!still_fails) {
        at += part;
        continue;
      }
      shorter.resize(again.size());
      history = std::move(shorter);
    }
    if (part <= 1) return history;
  }
}

std::string Differential::Report(const Options& options,
                                 const History& history) {
  const auto [exchanges, fails] = Replay(history);
  std::string report = absl::StrCat(
      "the model and PostgreSQL differ at operation ", operations_,
      "; repeat with DEDUPE_SEED=", options.seed,
      " DEDUPE_OPERATIONS=", operations_, "\n",
      fails ? "the shortest history on one key that shows it:\n"
            : "alone, the history of the key does not show it; its end:\n");
  constexpr size_t kShown = 60;
  const size_t first =
      exchanges.size() > kShown ? exchanges.size() - kShown : 0;
  for (size_t i = first; i < exchanges.size(); ++i) {
    const Event& event = history[i];
    absl::StrAppend(&report, "  ",
                    absl::FormatDuration(event.at - history[0].at), ": ");
    if (!event.call.has_value()) {
      absl::StrAppend(&report, "Reap of ", event.sweep_rows, " rows\n");
      continue;
    }
    const Exchange& exchange = exchanges[i];
    absl::StrAppend(&report, Describe(exchange.command), "\n");
    if (exchange.of_model == exchange.of_postgres) {
      absl::StrAppend(&report, "      both: ", exchange.of_model, "\n");
    } else {
      absl::StrAppend(&report, "      model: ", exchange.of_model,
                      "\n      PostgreSQL: ", exchange.of_postgres, "\n");
    }
  }
  return report;
}

}  // namespace dedupe::testing
