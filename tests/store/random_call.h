// Calls made up at random, from so few keys, attempts and durations that they
// collide all the time.
#ifndef DEDUPE_TESTS_STORE_RANDOM_CALL_H_
#define DEDUPE_TESTS_STORE_RANDOM_CALL_H_

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/service/record.h"
#include "server/service/store.h"

namespace dedupe::testing {

using Random = std::mt19937_64;

// One of 0 .. count-1; the same on every machine, which the standard's
// distributions do not promise.
inline size_t Pick(Random& random, size_t count) {
  return static_cast<size_t>(random() % count);
}

using Command = std::variant<BeginCommand, CompleteCommand, ExtendCommand,
                             ReleaseCommand, LookupCommand, WatchCommand>;

// Fences are not known beforehand, so a call says which one it means: that of
// the present holder, of the one before, or one that nobody was given.
enum class FenceChoice { kNewest, kBefore, kNobodys };

struct RandomCall {
  // Without id and fence.
  Command command;
  FenceChoice fence = FenceChoice::kNewest;
  // In the name of whoever has the fence, rather than the command's attempt.
  bool as_holder = true;
};

// The attempts that were started on a key so far, with their fences.
using Holders = std::vector<Holder>;

RandomCall MakeRandomCall(Random& random);

// The call about this key, with what it means filled in.
Command Resolve(const RandomCall& call, const RecordId& id,
                const Holders& holders);

// One line, without the key.
std::string Describe(const Command& command);

}  // namespace dedupe::testing

#endif  // DEDUPE_TESTS_STORE_RANDOM_CALL_H_
