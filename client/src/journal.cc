#include "dedupe/journal.h"

#include <unistd.h>

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/src/journal_book.h"
#include "client/src/journal_file.h"
#include "client/src/utf8.h"
#include "dedupe/key.h"

namespace dedupe::client {
namespace {

constexpr absl::Duration kKeepSettledMax = absl::Hours(366 * 24);
constexpr size_t kIntentsMax = 10'000'000;
// The file may hold as much again as is live, and this much for small ones,
// before it is rewritten: every record is then rewritten about once at most.
constexpr uint64_t kSlackBytes = 64 * 1024;

// U+0000-U+001F, U+007F-U+009F.
bool HasControlCharacter(absl::string_view utf8) {
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    if (byte < 0x20 || byte == 0x7f) return true;
    if (byte == 0xc2 && static_cast<unsigned char>(utf8[i + 1]) < 0xa0) {
      return true;
    }
  }
  return false;
}

absl::Status CheckVessel(absl::string_view vessel) {
  if (vessel.empty() || vessel.size() > kVesselBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a vessel has 1 to ", kVesselBytesMax, " bytes"));
  }
  if (!IsUtf8(vessel) || HasControlCharacter(vessel)) {
    return absl::InvalidArgumentError(
        "a vessel is UTF-8 without control characters");
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const JournalOptions& options) {
  if (options.keep_settled < absl::ZeroDuration() ||
      options.keep_settled > kKeepSettledMax) {
    return absl::InvalidArgumentError("keep_settled is 0 s to 366 days");
  }
  if (options.intents_max < 1 || options.intents_max > kIntentsMax) {
    return absl::InvalidArgumentError("intents_max is 1 to 10 million");
  }
  if (options.now == nullptr) return absl::InvalidArgumentError("no clock");
  return absl::OkStatus();
}

}  // namespace

class Journal::Impl {
 public:
  explicit Impl(const JournalOptions& options)
      : options_(options), book_(options.keep_settled) {}

  absl::Status Open(const std::string& path);
  absl::StatusOr<Intent> Intend(absl::string_view vessel,
                                absl::string_view fingerprint);
  absl::Status Settle(absl::string_view vessel);
  absl::StatusOr<std::vector<Intent>> Pending();
  const JournalRecovery& recovery() const { return recovery_; }

 private:
  // What the file can hold.
  absl::Time Now() const {
    return absl::FromUnixMicros(absl::ToUnixMicros(options_.now()));
  }
  // Without the mutex, which a thread that fork() left behind may hold.
  absl::Status CheckProcess() const;
  absl::StatusOr<Intent> Mint(absl::string_view vessel,
                              absl::string_view fingerprint, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckUsable() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Append(const std::string& payload)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns when that record is on the disk. Gives up the mutex meanwhile.
  absl::Status AwaitSynced(uint64_t record)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SyncAppended() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RewriteIfWorthIt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const JournalOptions options_;
  const pid_t process_ = getpid();
  JournalRecovery recovery_;
  absl::Mutex mutex_;
  absl::CondVar synced_changed_;
  JournalBook book_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<JournalFile> file_ ABSL_GUARDED_BY(mutex_);
  // Records written since Open, and how many of them are on the disk.
  uint64_t appended_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t synced_ ABSL_GUARDED_BY(mutex_) = 0;
  // A thread is syncing for all that have appended.
  bool syncing_ ABSL_GUARDED_BY(mutex_) = false;
  // Why the journal is shut; OK while it is not.
  absl::Status shut_ ABSL_GUARDED_BY(mutex_);
  // No rewriting below this size, because the last one failed.
  uint64_t rewrite_from_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::Status Journal::Impl::Open(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  const auto replay = [this](absl::string_view payload)
                          ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                            return book_.Replay(payload);
                          };
  absl::StatusOr<std::unique_ptr<JournalFile>> file =
      JournalFile::Open(path, replay);
  if (!file.ok()) return file.status();
  file_ = *std::move(file);
  recovery_ = file_->recovery();
  return absl::OkStatus();
}

absl::StatusOr<Intent> Journal::Impl::Intend(absl::string_view vessel,
                                             absl::string_view fingerprint) {
  absl::Status status = CheckVessel(vessel);
  if (!status.ok()) return status;
  if (fingerprint.size() > kJournalFingerprintBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a fingerprint has up to ", kJournalFingerprintBytesMax, " bytes"));
  }
  status = CheckProcess();
  if (!status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  status = CheckUsable();
  if (!status.ok()) return status;
  const absl::Time now = Now();
  book_.Age(now);
  const BookEntry* known = book_.Find(vessel);
  if (known == nullptr) return Mint(vessel, fingerprint, now);
  if (known->intent.fingerprint != fingerprint) {
    return absl::AlreadyExistsError(
        "the vessel's intent has another fingerprint");
  }
  Intent intent = known->intent;
  // It may be another thread's, which has not synced it yet.
  status = AwaitSynced(known->record);
  if (!status.ok()) return status;
  return intent;
}

absl::StatusOr<Intent> Journal::Impl::Mint(absl::string_view vessel,
                                           absl::string_view fingerprint,
                                           absl::Time now) {
  if (book_.size() >= options_.intents_max) {
    return absl::ResourceExhaustedError("the journal has intents_max intents");
  }
  Intent intent;
  intent.vessel = std::string(vessel);
  intent.key = NewKey();
  intent.fingerprint = std::string(fingerprint);
  intent.created_at = now;
  const std::string payload = JournalBook::IntendPayload(intent);
  absl::Status status = Append(payload);
  if (!status.ok()) return status;
  book_.Add(intent, {appended_, payload.size()});
  intent.minted = true;
  status = AwaitSynced(appended_);
  if (!status.ok()) return status;
  return intent;
}

absl::Status Journal::Impl::Settle(absl::string_view vessel) {
  absl::Status status = CheckVessel(vessel);
  if (status.ok()) status = CheckProcess();
  if (!status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  status = CheckUsable();
  if (!status.ok()) return status;
  const absl::Time now = Now();
  book_.Age(now);
  const BookEntry* known = book_.Find(vessel);
  if (known == nullptr) return absl::NotFoundError("no intent of that vessel");
  if (known->intent.settled) return AwaitSynced(known->record);
  const absl::Time at = book_.SettleTime(now);
  const std::string payload = JournalBook::SettlePayload(vessel, at);
  status = Append(payload);
  if (!status.ok()) return status;
  book_.Settle(vessel, at, {appended_, payload.size()});
  return AwaitSynced(appended_);
}

absl::StatusOr<std::vector<Intent>> Journal::Impl::Pending() {
  absl::Status status = CheckProcess();
  if (!status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  status = CheckUsable();
  if (!status.ok()) return status;
  std::vector<Intent> pending = book_.Pending();
  // Nothing may be sent with a key that a power loss could still take.
  status = AwaitSynced(appended_);
  if (!status.ok()) return status;
  return pending;
}

absl::Status Journal::Impl::CheckProcess() const {
  if (getpid() == process_) return absl::OkStatus();
  return absl::FailedPreconditionError("the journal is another process's");
}

absl::Status Journal::Impl::CheckUsable() {
  if (shut_.ok()) shut_ = file_->CheckInPlace();
  return shut_;
}

absl::Status Journal::Impl::Append(const std::string& payload) {
  absl::Status status = file_->Append(payload);
  if (status.ok()) {
    ++appended_;
  } else if (!absl::IsResourceExhausted(status)) {
    shut_ = status;
  }
  return status;
}

absl::Status Journal::Impl::AwaitSynced(uint64_t record) {
  while (synced_ < record) {
    if (!shut_.ok()) return shut_;
    if (syncing_) {
      synced_changed_.Wait(&mutex_);
    } else {
      SyncAppended();
    }
  }
  return absl::OkStatus();
}

void Journal::Impl::SyncAppended() {
  syncing_ = true;
  const uint64_t appended = appended_;
  // Others append meanwhile, and wait for the next sync together. The file is
  // replaced by nobody but the thread that is syncing.
  const JournalFile& file = *file_;
  mutex_.Unlock();
  absl::Status status = file.Sync();
  mutex_.Lock();
  if (status.ok()) status = file_->CheckInPlace();
  if (status.ok()) {
    synced_ = appended;
    if (shut_.ok()) RewriteIfWorthIt();
  } else {
    shut_ = status;
  }
  syncing_ = false;
  synced_changed_.SignalAll();
}

void Journal::Impl::RewriteIfWorthIt() {
  if (file_->size() <= 2 * book_.file_bytes() + kSlackBytes ||
      file_->size() < rewrite_from_bytes_) {
    return;
  }
  switch (file_->Rewrite(book_.Payloads())) {
    case JournalFile::Rewritten::kYes:
      synced_ = appended_;
      rewrite_from_bytes_ = 0;
      break;
    case JournalFile::Rewritten::kNo:
      rewrite_from_bytes_ = file_->size() + kSlackBytes;
      break;
    case JournalFile::Rewritten::kInDoubt:
      // What was synced is in the old content and in the new.
      shut_ = absl::UnavailableError("the journal's rewriting is in doubt");
      break;
  }
}

Journal::Journal(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Journal::~Journal() = default;

absl::StatusOr<std::unique_ptr<Journal>> Journal::Open(
    const std::string& path, const JournalOptions& options) {
  absl::Status status = CheckOptions(options);
  if (!status.ok()) return status;
  auto impl = std::make_unique<Impl>(options);
  status = impl->Open(path);
  if (!status.ok()) return status;
  return std::unique_ptr<Journal>(new Journal(std::move(impl)));
}

absl::StatusOr<Intent> Journal::Intend(absl::string_view vessel,
                                       absl::string_view fingerprint) {
  return impl_->Intend(vessel, fingerprint);
}

absl::Status Journal::Settle(absl::string_view vessel) {
  return impl_->Settle(vessel);
}

absl::StatusOr<std::vector<Intent>> Journal::Pending() const {
  return impl_->Pending();
}

const JournalRecovery& Journal::recovery() const { return impl_->recovery(); }

}  // namespace dedupe::client
