#include "tests/support/fake_store.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace dedupe::testing {

void AwaitConditionOrDie(absl::Mutex& mutex, const absl::Condition& condition) {
  if (mutex.AwaitWithTimeout(condition, absl::Seconds(20))) return;
  std::fprintf(stderr, "a test waits in vain for a call of the store\n");
  std::abort();
}

void FakeStore::Begin(BeginCommand command, CallScope scope,
                      Callback<BeginAnswer> done) {
  begins.Receive(std::move(command), std::move(scope), std::move(done));
}

void FakeStore::Complete(CompleteCommand command, CallScope scope,
                         Callback<CompleteAnswer> done) {
  completes.Receive(std::move(command), std::move(scope), std::move(done));
}

void FakeStore::Extend(ExtendCommand command, CallScope scope,
                       Callback<ExtendAnswer> done) {
  extends.Receive(std::move(command), std::move(scope), std::move(done));
}

void FakeStore::Release(ReleaseCommand command, CallScope scope,
                        Callback<ReleaseAnswer> done) {
  releases.Receive(std::move(command), std::move(scope), std::move(done));
}

void FakeStore::Lookup(LookupCommand command, CallScope scope,
                       Callback<LookupAnswer> done) {
  lookups.Receive(std::move(command), std::move(scope), std::move(done));
}

void FakeStore::Watch(WatchCommand command, CallScope scope,
                      Callback<LookupAnswer> done) {
  watches.Receive(std::move(command), std::move(scope), std::move(done));
}

void FakeStore::Reap(ReapCommand command, CallScope scope,
                     Callback<ReapAnswer> done) {
  reaps.Receive(command, std::move(scope), std::move(done));
}

void FakeStore::Probe(ProbeCommand command, CallScope scope,
                      Callback<ProbeAnswer> done) {
  probes.Receive(command, std::move(scope), std::move(done));
}

void FakeStore::LoadAccess(AccessCommand command, CallScope scope,
                           Callback<AccessAnswer> done) {
  accesses.Receive(std::move(command), std::move(scope), std::move(done));
}

void FakeStore::MeasureUsage(UsageCommand command, CallScope scope,
                             Callback<UsageAnswer> done) {
  usages.Receive(std::move(command), std::move(scope), std::move(done));
}

size_t FakeStore::calls() const {
  return begins.count() + completes.count() + extends.count() +
         releases.count() + lookups.count() + watches.count() + reaps.count() +
         probes.count() + accesses.count() + usages.count();
}

}  // namespace dedupe::testing
