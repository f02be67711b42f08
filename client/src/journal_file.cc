#include "client/src/journal_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/src/journal_line.h"

namespace dedupe::client {
namespace {

constexpr char kHeader[] = R"({"journal":"dedupe","version":1})";
constexpr int kVersion = 1;
// What is read or written at once.
constexpr size_t kBlockBytes = 256 * 1024;

bool IsFull(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

std::string Describe(absl::string_view what, int error) {
  return absl::StrCat(what, ": ", std::generic_category().message(error));
}

// For what happens before the journal is in use.
absl::Status SystemError(absl::string_view what, int error) {
  const std::string message = Describe(what, error);
  if (IsFull(error)) return absl::ResourceExhaustedError(message);
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return absl::InvalidArgumentError(message);
    default:
      return absl::UnavailableError(message);
  }
}

absl::Status Damaged(uint64_t number, uint64_t offset) {
  return absl::DataLossError(absl::StrCat("the journal is damaged in record ",
                                          number, ", at byte ", offset));
}

// The call's result, without the interruptions by signals.
template <typename Call>
auto Uninterrupted(Call call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// 0 or the error.
int WriteAt(int file, absl::string_view bytes, uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = Uninterrupted([&] {
      return pwrite(file, bytes.data(), bytes.size(),
                    static_cast<off_t>(offset));
    });
    if (written <= 0) return written == 0 ? ENOSPC : errno;
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += static_cast<size_t>(written);
  }
  return 0;
}

absl::Status LockDescriptor(const Descriptor& file) {
  const int locked =
      Uninterrupted([&] { return flock(file.number(), LOCK_EX | LOCK_NB); });
  if (locked == 0) return absl::OkStatus();
  if (errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError("the journal is in use");
  }
  return SystemError("locking the journal", errno);
}

// The absolute path behind symbolic links. The file need not be there.
absl::StatusOr<std::string> ResolvePath(const std::string& path) {
  if (path.empty() || path.back() == '/' ||
      path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError("the path names no file");
  }
  const auto resolve = [](const std::string& name) {
    const std::unique_ptr<char, decltype(&free)> resolved(
        realpath(name.c_str(), nullptr), &free);
    return std::string(resolved == nullptr ? "" : resolved.get());
  };
  std::string resolved = resolve(path);
  if (!resolved.empty()) return resolved;
  if (errno != ENOENT) return SystemError("finding the journal", errno);
  struct stat link = {};
  if (lstat(path.c_str(), &link) == 0) {
    return absl::InvalidArgumentError("the path is a link to no file");
  }
  const size_t slash = path.rfind('/');
  const std::string folder =
      resolve(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  if (folder.empty()) return SystemError("finding the folder", errno);
  return absl::StrCat(folder == "/" ? "" : folder, "/",
                      path.substr(slash == std::string::npos ? 0 : slash + 1));
}

// Record 0.
absl::Status CheckHeader(absl::string_view payload) {
  if (payload == kHeader) return absl::OkStatus();
  const auto header = nlohmann::json::parse(
      payload.begin(), payload.end(), nullptr, /*allow_exceptions=*/false);
  if (header.is_object() && header.contains("version") &&
      header["version"].is_number_integer() && header["version"] > kVersion) {
    return absl::UnimplementedError(
        "the journal was written by a newer version");
  }
  return absl::DataLossError("the file is no journal");
}

// Reads a file through a block in memory.
class BlockReader {
 public:
  explicit BlockReader(int file) : file_(file) {}

  // `count` bytes, or all up to the end of the file; valid until the next call,
  // which is for an offset no smaller.
  absl::StatusOr<absl::string_view> Read(uint64_t offset, size_t count) {
    if (!at_end_ && offset + count > begin_ + block_.size()) {
      block_.resize(kBlockBytes);
      begin_ = offset;
      size_t filled = 0;
      while (filled < kBlockBytes) {
        const ssize_t got = Uninterrupted([&] {
          return pread(file_, block_.data() + filled, kBlockBytes - filled,
                       static_cast<off_t>(offset + filled));
        });
        if (got < 0) return SystemError("reading the journal", errno);
        at_end_ = got == 0;
        if (at_end_) break;
        filled += static_cast<size_t>(got);
      }
      block_.resize(filled);
    }
    return absl::string_view(block_).substr(offset - begin_, count);
  }

 private:
  const int file_;
  // Where the block begins in the file, and whether it ends with it.
  uint64_t begin_ = 0;
  bool at_end_ = false;
  std::string block_;
};

// A process that may not own the old file cannot make its like: then the old
// one stays.
bool CopyOwnership(const Descriptor& from, const Descriptor& to) {
  struct stat old = {};
  struct stat made = {};
  if (fstat(from.number(), &old) != 0 || fstat(to.number(), &made) != 0) {
    return false;
  }
  const bool owned = (old.st_uid == made.st_uid && old.st_gid == made.st_gid) ||
                     fchown(to.number(), old.st_uid, old.st_gid) == 0;
  return owned && fchmod(to.number(), old.st_mode & 07777) == 0;
}

// A file that is whole and synced, but not yet in its place.
struct NewFile {
  Descriptor data;
  uint64_t size = 0;
  uint64_t records = 0;
};

// With the owner and the mode of `like`, if that is open.
absl::StatusOr<NewFile> WriteNewFile(const std::string& path,
                                     const Descriptor& like,
                                     const JournalFile::Payloads& payloads) {
  NewFile file;
  file.data = Descriptor(
      open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.data.open()) return SystemError("making PATH.new", errno);
  std::string block = FormatLine(file.records++, kHeader);
  for (bool more = true; more;) {
    const std::optional<std::string> payload = payloads();
    more = payload.has_value();
    if (more) block += FormatLine(file.records++, *payload);
    if (more && block.size() < kBlockBytes) continue;
    const int error = WriteAt(file.data.number(), block, file.size);
    if (error != 0) return SystemError("writing PATH.new", error);
    file.size += block.size();
    block.clear();
  }
  if (like.open() && !CopyOwnership(like, file.data)) {
    return SystemError("giving PATH.new its owner", errno);
  }
  if (Uninterrupted([&] { return fsync(file.data.number()); }) != 0) {
    return SystemError("syncing PATH.new", errno);
  }
  // Before it has its name, so that it never stands there unlocked.
  const absl::Status locked = LockDescriptor(file.data);
  if (!locked.ok()) return locked;
  return file;
}

}  // namespace

Descriptor::~Descriptor() {
  if (open()) close(number_);
}

absl::StatusOr<std::unique_ptr<JournalFile>> JournalFile::Open(
    const std::string& path, const Replay& replay) {
  absl::StatusOr<std::string> resolved = ResolvePath(path);
  if (!resolved.ok()) return resolved.status();
  std::unique_ptr<JournalFile> file(new JournalFile(*std::move(resolved)));
  absl::Status status = file->Lock();
  if (status.ok()) status = file->OpenData();
  if (status.ok()) status = file->Recover(replay);
  if (!status.ok()) return status;
  return file;
}

absl::Status JournalFile::Lock() {
  const std::string folder = path_.substr(0, path_.rfind('/') + 1);
  folder_ =
      Descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.open()) return SystemError("opening the folder", errno);
  // Never deleted: a process that waits at a deleted one and a process that
  // makes the next would both have a lock.
  lock_ = Descriptor(open((path_ + ".lock").c_str(),
                          O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock_.open()) return SystemError("opening PATH.lock", errno);
  return LockDescriptor(lock_);
}

absl::Status JournalFile::OpenData() {
  data_ = Descriptor(
      open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!data_.open() && errno == ENOENT) return Create();
  if (!data_.open()) return SystemError("opening the journal", errno);
  struct stat found = {};
  if (fstat(data_.number(), &found) != 0) {
    return SystemError("looking at the journal", errno);
  }
  if (!S_ISREG(found.st_mode)) {
    return absl::InvalidArgumentError("the path names no regular file");
  }
  // As well as PATH.lock, which says nothing where the file has a second name
  // by a hard link, or PATH.lock was deleted.
  return LockDescriptor(data_);
}

absl::Status JournalFile::Create() {
  const std::string new_path = path_ + ".new";
  unlink(new_path.c_str());
  absl::StatusOr<NewFile> made =
      WriteNewFile(new_path, data_, [] { return std::nullopt; });
  absl::Status status = made.status();
  if (status.ok() && rename(new_path.c_str(), path_.c_str()) != 0) {
    status = SystemError("renaming PATH.new", errno);
  }
  if (!status.ok()) {
    unlink(new_path.c_str());
    return status;
  }
  data_ = std::move(made->data);
  recovery_.created = true;
  return absl::OkStatus();
}

absl::Status JournalFile::Recover(const Replay& replay) {
  // A process that ended before its sync may have left records in the system's
  // memory alone, and its folder's new name too: we are about to rely on both.
  if (Uninterrupted([&] { return fsync(data_.number()); }) != 0 ||
      Uninterrupted([&] { return fsync(folder_.number()); }) != 0) {
    return SystemError("syncing the journal", errno);
  }
  // After a sync that failed, memory shows what the disk has not got.
  posix_fadvise(data_.number(), 0, 0, POSIX_FADV_DONTNEED);
  BlockReader reader(data_.number());
  uint64_t end = 0;
  for (;;) {
    const absl::StatusOr<absl::string_view> bytes =
        reader.Read(size_, LineBytes(kPayloadBytesMax) + 1);
    if (!bytes.ok()) return bytes.status();
    end = size_ + bytes->size();
    // The first record is there before the file has its name: without it,
    // somebody has emptied the file.
    if (bytes->empty() && records_ > 0) break;
    const Line line = ReadLine(*bytes, records_);
    if (line.state == Line::State::kTorn && records_ > 0) break;
    if (line.state != Line::State::kWhole) return Damaged(records_, size_);
    absl::Status status =
        records_ == 0 ? CheckHeader(line.payload) : replay(line.payload);
    if (!status.ok()) return status;
    size_ += line.size;
    ++records_;
  }
  recovery_.torn_bytes = end - size_;
  if (recovery_.torn_bytes > 0 &&
      (Uninterrupted([&] {
         return ftruncate(data_.number(), static_cast<off_t>(size_));
       }) != 0 ||
       Uninterrupted([&] { return fsync(data_.number()); }) != 0)) {
    return SystemError("cutting the torn end", errno);
  }
  // Of a rewriting that a crash interrupted.
  unlink((path_ + ".new").c_str());
  return absl::OkStatus();
}

absl::Status JournalFile::Append(absl::string_view payload) {
  const std::string line = FormatLine(records_, payload);
  const int error = WriteAt(data_.number(), line, size_);
  if (error != 0) return TakeBack(error);
  size_ += line.size();
  ++records_;
  return absl::OkStatus();
}

absl::Status JournalFile::TakeBack(int error) {
  const std::string message = Describe("writing to the journal", error);
  const int cut = Uninterrupted(
      [&] { return ftruncate(data_.number(), static_cast<off_t>(size_)); });
  if (cut == 0 && IsFull(error)) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

absl::Status JournalFile::Sync() const {
  if (Uninterrupted([&] { return fdatasync(data_.number()); }) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(Describe("syncing the journal", errno));
}

absl::Status JournalFile::CheckInPlace() const {
  struct stat named = {};
  struct stat held = {};
  if (stat(path_.c_str(), &named) != 0) {
    return absl::UnavailableError(Describe("looking for the journal", errno));
  }
  if (fstat(data_.number(), &held) != 0) {
    return absl::UnavailableError(Describe("looking at the journal", errno));
  }
  if (named.st_dev != held.st_dev || named.st_ino != held.st_ino ||
      static_cast<uint64_t>(held.st_size) != size_) {
    return absl::UnavailableError("the journal was replaced or changed");
  }
  return absl::OkStatus();
}

JournalFile::Rewritten JournalFile::Rewrite(const Payloads& payloads) {
  // A second name of the file would go on naming the old content, unlocked.
  struct stat held = {};
  if (fstat(data_.number(), &held) != 0 || held.st_nlink != 1) {
    return Rewritten::kNo;
  }
  const std::string new_path = path_ + ".new";
  absl::StatusOr<NewFile> made = WriteNewFile(new_path, data_, payloads);
  if (!made.ok() || rename(new_path.c_str(), path_.c_str()) != 0) {
    // Deleted in either case: where the renaming failed and took place all the
    // same, this name is gone.
    unlink(new_path.c_str());
    return CheckInPlace().ok() ? Rewritten::kNo : Rewritten::kInDoubt;
  }
  data_ = std::move(made->data);
  size_ = made->size;
  records_ = made->records;
  return Uninterrupted([&] { return fsync(folder_.number()); }) == 0
             ? Rewritten::kYes
             : Rewritten::kInDoubt;
}

}  // namespace dedupe::client
