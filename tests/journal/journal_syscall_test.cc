// What the system is asked for, in which order, and what becomes of its errors:
// seen and made by strace.
#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "tests/journal/journal_fixture.h"

namespace dedupe::client {
namespace {

using ::dedupe::testing::BuildDirectory;
using ::dedupe::testing::HasProgram;
using ::dedupe::testing::ProcessResult;
using ::dedupe::testing::RunProcess;
using ::testing::HasSubstr;

using Arguments = std::vector<std::string>;

constexpr char kTraced[] =
    "trace=openat,pread64,pwrite64,write,fsync,fdatasync,ftruncate,rename,"
    "flock";

class SyscallTest : public JournalTest {
 protected:
  void SetUp() override {
    if (!HasProgram("strace") ||
        RunProcess({"strace", "-o", "/dev/null", "true"}).exit_code != 0) {
      GTEST_SKIP() << "NOT TESTED, for want of a strace that may trace: that "
                      "records are synced before Intend returns";
    }
  }

  // Runs journal_child on the journal under strace; returns what it printed.
  std::string Trace(const Arguments& steps, const Arguments& options = {}) {
    const std::string trace_path = folder_ + "/trace";
    // Untraced calls cost nothing with --seccomp-bpf.
    Arguments command = {"strace",   "-f", "--seccomp-bpf", "-qq", "-y", "-o",
                         trace_path, "-e", kTraced};
    command.insert(command.end(), options.begin(), options.end());
    command.push_back(BuildDirectory() + "/tests/journal/journal_child");
    command.push_back(path_);
    command.insert(command.end(), steps.begin(), steps.end());
    // It cannot look for leaks in a process that is traced.
    const ProcessResult result =
        RunProcess(command, {{"ASAN_OPTIONS", "detect_leaks=0"}});
    EXPECT_THAT(result.standard_error, ::testing::Not(HasSubstr("Sanitizer")));
    calls_ = absl::StrSplit(ReadFile(trace_path), '\n');
    return result.standard_output;
  }

  // The first call at or after `from` that contains all of the parts and has
  // returned; the number of calls if there is none.
  size_t Find(const Arguments& parts, size_t from = 0) const {
    for (size_t i = from; i < calls_.size(); ++i) {
      if (absl::StrContains(calls_[i], "<unfinished")) continue;
      const bool has_all =
          std::all_of(parts.begin(), parts.end(), [&](const std::string& part) {
            return absl::StrContains(calls_[i], part);
          });
      if (has_all) return i;
    }
    return calls_.size();
  }
  // The same, whether it has returned or not.
  size_t FindBegun(const std::string& part, size_t from = 0) const {
    for (size_t i = from; i < calls_.size(); ++i) {
      if (absl::StrContains(calls_[i], part)) return i;
    }
    return calls_.size();
  }
  size_t Count(const std::string& part) const {
    return static_cast<size_t>(std::count_if(
        calls_.begin(), calls_.end(), [&](const std::string& call) {
          return absl::StrContains(call, part);
        }));
  }
  // Each of them is there, behind the one before.
  void ExpectInOrder(const std::vector<Arguments>& calls, size_t from = 0) {
    for (const Arguments& parts : calls) {
      const size_t found = Find(parts, from);
      ASSERT_LT(found, calls_.size()) << "not there, or not there in order: "
                                      << ::testing::PrintToString(parts) << "\n"
                                      << ::testing::PrintToString(calls_);
      from = found + 1;
    }
  }

  Arguments FsyncOf(const std::string& path) const {
    return {"fsync(", "<" + path + ">", "= 0"};
  }

  Arguments calls_;
};

TEST_F(SyscallTest, NewFileIsSyncedThenRenamedThenItsFolderIsSynced) {
  Trace({});
  ExpectInOrder({FsyncOf(path_ + ".new"),
                 {"rename(", path_ + ".new", "= 0"},
                 FsyncOf(folder_),
                 {"write(1", "open OK"}});
}

TEST_F(SyscallTest, FileThatWasThereIsSyncedBeforeItIsReliedOn) {
  IntendOnce("checkout-1");
  Trace({"intend", "checkout-1"});
  ExpectInOrder({FsyncOf(path_), FsyncOf(folder_), {"write(1", "open OK"}});
  ExpectInOrder({FsyncOf(path_),
                 {"pread64(", "<" + path_ + ">"},
                 {"write(1", "open OK"}});
}

TEST_F(SyscallTest, IntendAndSettleReturnAfterTheirSync) {
  Trace({"intend", "checkout-1", "settle", "checkout-1"});
  ExpectInOrder({{"write(1", "open OK"},
                 {"pwrite64(", "<" + path_ + ">"},
                 {"fdatasync(", "<" + path_ + ">", "= 0"},
                 {"write(1", "intend checkout-1"},
                 {"pwrite64(", "<" + path_ + ">"},
                 {"fdatasync(", "<" + path_ + ">", "= 0"},
                 {"write(1", "settle checkout-1 OK"}});
}

TEST_F(SyscallTest, EachRecordIsOneWrite) {
  Trace({"intend", "checkout-1", "settle", "checkout-1"});
  EXPECT_EQ(Count("pwrite64("), 3U);
}

TEST_F(SyscallTest, RewrittenFileIsSyncedThenRenamedThenItsFolderIsSynced) {
  EXPECT_THAT(Trace({"churn", "400"}), HasSubstr("churn OK"));
  const size_t created = Find({"rename("});
  const size_t renamed = Find({"rename("}, created + 1);
  ASSERT_LT(renamed, calls_.size());
  const size_t opened = Find({"openat(", path_ + ".new"}, created);
  ExpectInOrder({{"pwrite64(", path_ + ".new>"},
                 FsyncOf(path_ + ".new"),
                 {"rename(", "= 0"},
                 FsyncOf(folder_)},
                opened);
  EXPECT_LT(Find(FsyncOf(path_ + ".new"), opened), renamed);
  EXPECT_LT(Find(FsyncOf(folder_), renamed), Find({"pwrite64("}, renamed));
}

// The sync is held up, so that the second thread finds the first one's intent
// before that is on the disk.
TEST_F(SyscallTest, ThreadThatFindsAnothersIntentWaitsForItsSync) {
  const std::string output = Trace(
      {"race", "checkout-1"}, {"-e", "inject=fdatasync:delay_enter=300000"});
  const size_t synced =
      std::min(Find({"fdatasync(", "= 0"}), Find({"fdatasync resumed", "= 0"}));
  const size_t first = FindBegun("intend checkout-1");
  EXPECT_LT(synced, first);
  EXPECT_LT(FindBegun("intend checkout-1", first + 1), calls_.size());
  EXPECT_EQ(Count("pwrite64("), 2U);
  const std::vector<std::string> lines = absl::StrSplit(output, '\n');
  ASSERT_GE(lines.size(), 3U);
  EXPECT_NE(absl::EndsWith(lines[1], " minted"),
            absl::EndsWith(lines[2], " minted"));
  EXPECT_EQ(lines[1].substr(0, 54), lines[2].substr(0, 54));
}

// Each sync takes so long that the others have appended meanwhile.
TEST_F(SyscallTest, ThreadsShareSyncs) {
  EXPECT_THAT(
      Trace({"crowd", "10"}, {"-e", "inject=fdatasync:delay_enter=10000"}),
      HasSubstr("crowd OK"));
  EXPECT_LT(Count("fdatasync("), 60U);
}

TEST_F(SyscallTest, FailedSyncShutsTheJournalUntilItIsOpenedAgain) {
  const std::string output =
      Trace({"intend", "checkout-1", "intend", "checkout-1", "intend",
             "checkout-2", "settle", "checkout-1", "pending"},
            {"-e", "inject=fdatasync:error=EIO:when=1"});
  EXPECT_EQ(output,
            "open OK\nintend checkout-1 UNAVAILABLE\n"
            "intend checkout-1 UNAVAILABLE\nintend checkout-2 UNAVAILABLE\n"
            "settle checkout-1 UNAVAILABLE\npending UNAVAILABLE\n");
  EXPECT_EQ(Count("pwrite64("), 2U);
  EXPECT_THAT(Open()->Intend("checkout-1"), IsOk());
}

TEST_F(SyscallTest, FailedSyncShutsItForAllThreads) {
  const std::string output =
      Trace({"race", "checkout-1"},
            {"-e", "inject=fdatasync:error=EIO:when=1:delay_enter=300000"});
  EXPECT_EQ(output,
            "open OK\nintend checkout-1 UNAVAILABLE\n"
            "intend checkout-1 UNAVAILABLE\n");
}

TEST_F(SyscallTest, FailedWriteShutsTheJournal) {
  EXPECT_EQ(Trace({"intend", "checkout-1", "intend", "checkout-2"},
                  {"-e", "inject=pwrite64:error=EIO:when=2"}),
            "open OK\nintend checkout-1 UNAVAILABLE\n"
            "intend checkout-2 UNAVAILABLE\n");
}

TEST_F(SyscallTest, FullDiskThatCannotBeTakenBackShutsTheJournal) {
  EXPECT_EQ(Trace({"intend", "checkout-1", "intend", "checkout-2"},
                  {"-e", "inject=pwrite64:error=ENOSPC:when=2", "-e",
                   "inject=ftruncate:error=EIO"}),
            "open OK\nintend checkout-1 UNAVAILABLE\n"
            "intend checkout-2 UNAVAILABLE\n");
}

TEST_F(SyscallTest, FullQuotaIsResourceExhaustedForThatCallAlone) {
  const std::string output =
      Trace({"intend", "checkout-1", "intend", "checkout-1"},
            {"-e", "inject=pwrite64:error=EDQUOT:when=2"});
  EXPECT_THAT(output, HasSubstr("intend checkout-1 RESOURCE_EXHAUSTED\n"));
  EXPECT_THAT(output, HasSubstr(" minted\n"));
}

TEST_F(SyscallTest, InterruptedCallsAreMadeAgain) {
  const std::string output =
      Trace({"intend", "checkout-1"},
            {"-e", "inject=pwrite64,fdatasync,fsync,flock:error=EINTR:when=1"});
  EXPECT_THAT(output, HasSubstr("open OK\nintend checkout-1 "));
  EXPECT_THAT(output, HasSubstr(" minted\n"));
}

TEST_F(SyscallTest, FailedSyncOfTheFolderAfterRewritingShutsTheJournal) {
  // Creating has three fsyncs, rewriting syncs the file and then the folder.
  EXPECT_THAT(Trace({"churn", "400", "intend", "checkout-1"},
                    {"-e", "inject=fsync:error=EIO:when=5"}),
              HasSubstr("intend checkout-1 UNAVAILABLE"));
  const size_t failed = Find({"fsync(", "<" + folder_ + ">", "EIO"});
  ASSERT_LT(failed, calls_.size());
  EXPECT_EQ(Find({"pwrite64("}, failed), calls_.size());
  EXPECT_THAT(Open()->Intend("checkout-1"), IsOk());
}

TEST_F(SyscallTest, FailedSyncOfTheNewFileLeavesTheOldInUse) {
  EXPECT_THAT(Trace({"churn", "400", "intend", "checkout-1"},
                    {"-e", "inject=fsync:error=EIO:when=4"}),
              ::testing::AllOf(HasSubstr("churn OK"), HasSubstr(" minted")));
  ASSERT_LT(Find({"fsync(", path_ + ".new>", "EIO"}), calls_.size());
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_F(SyscallTest, FailedRenamingLeavesTheOldInUse) {
  EXPECT_THAT(Trace({"churn", "400", "intend", "checkout-1"},
                    {"-e", "inject=rename:error=EACCES:when=2"}),
              ::testing::AllOf(HasSubstr("churn OK"), HasSubstr(" minted")));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_F(SyscallTest, FailedCreationLeavesNoFile) {
  EXPECT_EQ(Trace({}, {"-e", "inject=rename:error=EROFS"}),
            "open PERMISSION_DENIED\n");
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

}  // namespace
}  // namespace dedupe::client
