// Disks that are full, folders that are closed, paths that lead nowhere.
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <map>

#include "tests/journal/journal_fixture.h"

namespace dedupe::client {
namespace {

constexpr uid_t kNobody = 65534;

const auto kFull = HasCode(absl::StatusCode::kResourceExhausted);
const auto kDenied = HasCode(absl::StatusCode::kPermissionDenied);
const auto kBadPath = HasCode(absl::StatusCode::kInvalidArgument);

class FullDiskTest : public JournalTest {
 protected:
  // Until there is no room. Each refusal has left the file as it was.
  void Fill(Journal& journal) {
    for (int i = 0; i < 10'000; ++i) {
      const std::string vessel = absl::StrCat("checkout-", i);
      const std::string content = ReadFile(path_);
      const auto intent = journal.Intend(vessel);
      if (!intent.ok()) {
        EXPECT_THAT(intent, kFull);
        EXPECT_EQ(ReadFile(path_), content);
        return;
      }
      keys_[vessel] = intent->key;
    }
    FAIL() << "the disk has more room than it should";
  }
  void ExpectAllKept(Journal& journal) {
    EXPECT_FALSE(keys_.empty());
    for (const auto& [vessel, key] : keys_) {
      EXPECT_EQ(journal.Intend(vessel)->key, key);
    }
  }

  std::map<std::string, std::string> keys_;
};

// The limit on the size of this process's files.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  void (*handler_)(int) = nullptr;
};

TEST_F(FullDiskTest, LimitOnFileSizeIsAFullDiskUntilItIsLifted) {
  const auto journal = Open();
  {
    // No multiple of a record: the last write is a short one.
    const FileSizeLimit limit(5000);
    Fill(*journal);
    ExpectAllKept(*journal);
  }
  keys_["late"] = journal->Intend("late")->key;
  ExpectAllKept(*journal);
}

TEST_F(FullDiskTest, SettlingIsRefusedUntilThereIsRoom) {
  const auto journal = Open();
  {
    const FileSizeLimit limit(5000);
    Fill(*journal);
    // They are short, and one or two may find room.
    for (int i = 0; i < 2; ++i) {
      journal->Settle(absl::StrCat("checkout-", i)).IgnoreError();
    }
    EXPECT_THAT(journal->Settle("checkout-3"), kFull);
    EXPECT_FALSE(journal->Intend("checkout-3")->settled);
  }
  EXPECT_THAT(journal->Settle("checkout-3"), IsOk());
  EXPECT_TRUE(journal->Intend("checkout-3")->settled);
}

TEST_F(FullDiskTest, WhatIsKeptOnAFullDiskIsReadFromIt) {
  {
    const auto journal = Open();
    const FileSizeLimit limit(5000);
    Fill(*journal);
  }
  const auto journal = Open();
  EXPECT_EQ(journal->recovery().torn_bytes, 0U);
  ExpectAllKept(*journal);
}

// A file system of 64 KiB, for root alone.
class SmallDiskTest : public FullDiskTest {
 protected:
  void SetUp() override {
    disk_ = folder_ + "/disk";
    std::filesystem::create_directory(disk_);
    mounted_ = mount("none", disk_.c_str(), "tmpfs", 0, "size=64k") == 0;
    if (!mounted_) {
      GTEST_SKIP() << "NOT TESTED, because only root may mount: a full disk";
    }
    path_ = disk_ + "/intents";
  }
  void TearDown() override {
    if (!mounted_) return;
    EXPECT_EQ(umount2(disk_.c_str(), MNT_DETACH), 0);
  }
  // All but that many pages.
  void TakeRoom(size_t pages_left) {
    std::ofstream ballast(disk_ + "/ballast", std::ios::binary);
    while (ballast << std::string(4096, 'x') << std::flush) continue;
    ballast.close();
    if (pages_left == 0) return;
    const auto size = std::filesystem::file_size(disk_ + "/ballast");
    std::filesystem::resize_file(disk_ + "/ballast", size - pages_left * 4096);
  }
  void MakeRoom() { std::filesystem::remove(disk_ + "/ballast"); }

  std::string disk_;
  bool mounted_ = false;
};

TEST_F(SmallDiskTest, IntendWorksAgainWhenThereIsRoom) {
  const auto journal = Open();
  TakeRoom(2);
  Fill(*journal);
  ExpectAllKept(*journal);
  MakeRoom();
  keys_["late"] = journal->Intend("late")->key;
  ExpectAllKept(*journal);
}

TEST_F(SmallDiskTest, OpenWorksAgainWhenThereIsRoom) {
  TakeRoom(0);
  EXPECT_THAT(TryOpen(), kFull);
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_THAT(TryOpen(), kFull);
  MakeRoom();
  EXPECT_THAT(IntendOnce("checkout-1").key, ::testing::SizeIs(36));
}

TEST_F(SmallDiskTest, ExistingJournalOpensWithoutRoom) {
  keys_["checkout-1"] = IntendOnce("checkout-1").key;
  TakeRoom(0);
  ExpectAllKept(*Open());
}

TEST_F(SmallDiskTest, ReadOnlyDiskIsPermissionDenied) {
  IntendOnce("checkout-1");
  ASSERT_EQ(
      mount("none", disk_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, "size=64k"),
      0);
  EXPECT_THAT(TryOpen(), kDenied);
  path_ = disk_ + "/other";
  EXPECT_THAT(TryOpen(), kDenied);
}

// Root may do everything; for a moment we are somebody else.
class PermissionTest : public JournalTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(chmod(folder_.c_str(), 0711), 0);
    shared_ = folder_ + "/shared";
    std::filesystem::create_directory(shared_);
    path_ = shared_ + "/intents";
    if (geteuid() != 0) return;
    ASSERT_EQ(chown(shared_.c_str(), kNobody, kNobody), 0);
    ASSERT_EQ(setegid(kNobody), 0);
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  void TearDown() override {
    if (getuid() == 0) {
      EXPECT_EQ(seteuid(0), 0);
      EXPECT_EQ(setegid(0), 0);
    }
    chmod(shared_.c_str(), 0700);
  }

  std::string shared_;
};

TEST_F(PermissionTest, FolderThatIsReadOnlyIsPermissionDenied) {
  ASSERT_EQ(chmod(shared_.c_str(), 0500), 0);
  EXPECT_THAT(TryOpen(), kDenied);
}

TEST_F(PermissionTest, FolderThatIsClosedIsPermissionDenied) {
  ASSERT_EQ(chmod(shared_.c_str(), 0000), 0);
  EXPECT_THAT(TryOpen(), kDenied);
}

TEST_F(PermissionTest, FileThatIsReadOnlyIsPermissionDenied) {
  IntendOnce("checkout-1");
  ASSERT_EQ(chmod(path_.c_str(), 0400), 0);
  EXPECT_THAT(TryOpen(), kDenied);
}

TEST_F(PermissionTest, LockThatIsClosedIsPermissionDenied) {
  IntendOnce("checkout-1");
  ASSERT_EQ(chmod((path_ + ".lock").c_str(), 0000), 0);
  EXPECT_THAT(TryOpen(), kDenied);
}

// Only rewriting needs to make files there.
TEST_F(PermissionTest, JournalInUseNeedsNoFolderToWriteTo) {
  const Intent first = IntendOnce("checkout-1");
  ASSERT_EQ(chmod(shared_.c_str(), 0500), 0);
  const auto journal = TryOpen();
  ASSERT_THAT(journal, IsOk());
  EXPECT_EQ((*journal)->Intend("checkout-1")->key, first.key);
  EXPECT_THAT((*journal)->Intend("checkout-2"), IsOk());
}

TEST_F(JournalTest, PathsThatNameNoFileAreRefused) {
  std::filesystem::create_directory(folder_ + "/folder");
  std::filesystem::create_symlink("nothing", folder_ + "/dangling");
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  WriteFile(folder_ + "/file", "");
  EXPECT_THAT(Journal::Open(""), kBadPath);
  EXPECT_THAT(Journal::Open(folder_ + "/"), kBadPath);
  EXPECT_THAT(Journal::Open(folder_ + "/folder"), kBadPath);
  EXPECT_THAT(Journal::Open(folder_ + "/missing/intents"), kBadPath);
  EXPECT_THAT(Journal::Open(folder_ + "/file/intents"), kBadPath);
  EXPECT_THAT(Journal::Open(folder_ + "/dangling"), kBadPath);
  EXPECT_THAT(Journal::Open(folder_ + "/pipe"), kBadPath);
  EXPECT_THAT(Journal::Open(path_ + std::string("\0x", 2)), kBadPath);
  EXPECT_THAT(Journal::Open(folder_ + "/" + std::string(300, 'x')), kBadPath);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/nothing"));
}

}  // namespace
}  // namespace dedupe::client
