// Packaged Abseil is built without ThreadSanitizer, which therefore sees no
// absl::Mutex taken or released and reports a race for everything that one
// guards. The functions here stand in front of the library's own: they tell
// ThreadSanitizer what happens before what, and call on. Linked into tests of
// the tsan preset only.
//
// Lost is what a Condition reads: Abseil evaluates it inside any thread's call,
// where accesses are not recorded, since it does not tell who holds the lock.

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}

// How the names of Debian 12's Abseil begin, and its inline namespace within.
#define DEDUPE_ABSEIL(name) "_ZN4absl7debian3" name
#define DEDUPE_ABSEIL_CONST(name) "_ZNK4absl7debian3" name

namespace {

// The library's function of that name, behind ours.
template <typename Function>
Function* Real(const char* mangled_name) {
  void* found = dlsym(RTLD_NEXT, mangled_name);
  if (found == nullptr) {
    std::fprintf(stderr, "tsan_abseil.cc: Abseil has no %s\n", mangled_name);
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}

class Unrecorded {
 public:
  Unrecorded() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;
  ~Unrecorded() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
};

template <typename Call>
auto Take(const void* address, Call call) {
  struct Acquire {
    void* address;
    ~Acquire() { __tsan_acquire(address); }
  } acquire{const_cast<void*>(address)};
  Unrecorded unrecorded;
  return call();
}

template <typename Call>
auto Give(const void* address, Call call) {
  __tsan_release(const_cast<void*>(address));
  Unrecorded unrecorded;
  return call();
}

template <typename Call>
auto GiveAndTake(const void* address, Call call) {
  __tsan_release(const_cast<void*>(address));
  return Take(address, call);
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  static auto* const real = Real<void(Mutex*)>(DEDUPE_ABSEIL("5Mutex4LockEv"));
  Take(this, [&] { real(this); });
}

void Mutex::Unlock() {
  static auto* const real =
      Real<void(Mutex*)>(DEDUPE_ABSEIL("5Mutex6UnlockEv"));
  Give(this, [&] { real(this); });
}

bool Mutex::TryLock() {
  static auto* const real =
      Real<bool(Mutex*)>(DEDUPE_ABSEIL("5Mutex7TryLockEv"));
  return Take(this, [&] { return real(this); });
}

void Mutex::ReaderLock() {
  static auto* const real =
      Real<void(Mutex*)>(DEDUPE_ABSEIL("5Mutex10ReaderLockEv"));
  Take(this, [&] { real(this); });
}

void Mutex::ReaderUnlock() {
  static auto* const real =
      Real<void(Mutex*)>(DEDUPE_ABSEIL("5Mutex12ReaderUnlockEv"));
  Give(this, [&] { real(this); });
}

bool Mutex::ReaderTryLock() {
  static auto* const real =
      Real<bool(Mutex*)>(DEDUPE_ABSEIL("5Mutex13ReaderTryLockEv"));
  return Take(this, [&] { return real(this); });
}

void Mutex::LockWhen(const Condition& condition) {
  static auto* const real = Real<void(Mutex*, const Condition&)>(
      DEDUPE_ABSEIL("5Mutex8LockWhenERKNS0_9ConditionE"));
  Take(this, [&] { real(this, condition); });
}

void Mutex::ReaderLockWhen(const Condition& condition) {
  static auto* const real = Real<void(Mutex*, const Condition&)>(
      DEDUPE_ABSEIL("5Mutex14ReaderLockWhenERKNS0_9ConditionE"));
  Take(this, [&] { real(this, condition); });
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  static auto* const real = Real<bool(Mutex*, const Condition&, Duration)>(
      DEDUPE_ABSEIL("5Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_"
                    "8DurationE"));
  return Take(this, [&] { return real(this, condition, timeout); });
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  static auto* const real = Real<bool(Mutex*, const Condition&, Time)>(
      DEDUPE_ABSEIL("5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_"
                    "4TimeE"));
  return Take(this, [&] { return real(this, condition, deadline); });
}

void Mutex::Await(const Condition& condition) {
  static auto* const real = Real<void(Mutex*, const Condition&)>(
      DEDUPE_ABSEIL("5Mutex5AwaitERKNS0_9ConditionE"));
  GiveAndTake(this, [&] { real(this, condition); });
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static auto* const real = Real<bool(Mutex*, const Condition&, Duration)>(
      DEDUPE_ABSEIL("5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_"
                    "8DurationE"));
  return GiveAndTake(this, [&] { return real(this, condition, timeout); });
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static auto* const real = Real<bool(Mutex*, const Condition&, Time)>(
      DEDUPE_ABSEIL("5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE"));
  return GiveAndTake(this, [&] { return real(this, condition, deadline); });
}

void CondVar::Wait(Mutex* mutex) {
  static auto* const real =
      Real<void(CondVar*, Mutex*)>(DEDUPE_ABSEIL("7CondVar4WaitEPNS0_5MutexE"));
  GiveAndTake(mutex, [&] { real(this, mutex); });
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static auto* const real = Real<bool(CondVar*, Mutex*, Duration)>(
      DEDUPE_ABSEIL("7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE"));
  return GiveAndTake(mutex, [&] { return real(this, mutex, timeout); });
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static auto* const real = Real<bool(CondVar*, Mutex*, Time)>(
      DEDUPE_ABSEIL("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE"));
  return GiveAndTake(mutex, [&] { return real(this, mutex, deadline); });
}

void Notification::Notify() {
  static auto* const real =
      Real<void(Notification*)>(DEDUPE_ABSEIL("12Notification6NotifyEv"));
  // HasBeenNotified is inline and reads this by itself.
  __tsan_release(&notified_yet_);
  Give(this, [&] { real(this); });
}

void Notification::WaitForNotification() const {
  static auto* const real = Real<void(const Notification*)>(
      DEDUPE_ABSEIL_CONST("12Notification19WaitForNotificationEv"));
  Take(this, [&] { real(this); });
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static auto* const real = Real<bool(const Notification*, Duration)>(
      DEDUPE_ABSEIL_CONST("12Notification30WaitForNotificationWithTimeoutENS0_"
                          "8DurationE"));
  return Take(this, [&] { return real(this, timeout); });
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  static auto* const real = Real<bool(const Notification*, Time)>(
      DEDUPE_ABSEIL_CONST("12Notification31WaitForNotificationWithDeadlineENS0_"
                          "4TimeE"));
  return Take(this, [&] { return real(this, deadline); });
}

bool BlockingCounter::DecrementCount() {
  static auto* const real = Real<bool(BlockingCounter*)>(
      DEDUPE_ABSEIL("15BlockingCounter14DecrementCountEv"));
  return Give(this, [&] { return real(this); });
}

void BlockingCounter::Wait() {
  static auto* const real =
      Real<void(BlockingCounter*)>(DEDUPE_ABSEIL("15BlockingCounter4WaitEv"));
  Take(this, [&] { real(this); });
}

ABSL_NAMESPACE_END
}  // namespace absl

// Abseil's own bookkeeping of lock order, which it guards with a spin lock that
// ThreadSanitizer does not see. The sanitizer's own name for it.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char* __tsan_default_suppressions() {
  return "called_from_lib:libabsl_graphcycles_internal.so\n";
}
