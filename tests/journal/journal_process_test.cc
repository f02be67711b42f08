// Other processes: killed ones, rivals, children, and people with a shell.
#include <signal.h>
#include <sys/wait.h>

#include <optional>

#include "absl/strings/str_split.h"
#include "tests/journal/journal_fixture.h"

namespace dedupe::client {
namespace {

using ::dedupe::testing::BuildDirectory;
using ::dedupe::testing::Process;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const auto kInUse = HasCode(absl::StatusCode::kFailedPrecondition);
const auto kShut = HasCode(absl::StatusCode::kUnavailable);

class ProcessTest : public JournalTest {
 protected:
  // A process that has intended the vessel, and now only holds the journal.
  std::unique_ptr<Process> StartHolder(const std::string& vessel) {
    auto holder = std::make_unique<Process>(
        std::vector<std::string>{
            BuildDirectory() + "/tests/journal/journal_child", path_, "intend",
            vessel, "pause"},
        testing::Environment{}, folder_ + "/output");
    EXPECT_TRUE(holder->WaitForOutput(absl::StrCat("intend ", vessel, " ")));
    EXPECT_TRUE(holder->WaitForOutput("minted\n"));
    return holder;
  }
};

TEST_F(ProcessTest, KeyOutlivesAProcessThatIsKilled) {
  std::string output;
  {
    const auto holder = StartHolder("order-42");
    holder->Signal(SIGKILL);
    EXPECT_EQ(holder->Wait(), 128 + SIGKILL);
    output = holder->Output();
  }
  const auto journal = Open();
  const Intent intent = *journal->Intend("order-42");
  EXPECT_FALSE(intent.minted);
  EXPECT_THAT(output, HasSubstr("intend order-42 " + intent.key));
  EXPECT_THAT(*journal->Pending(), SizeIs(1));
}

TEST_F(ProcessTest, DeletedJournalForgetsEveryKey) {
  const Intent first = IntendOnce("order-42");
  std::filesystem::remove(path_);
  EXPECT_NE(IntendOnce("order-42").key, first.key);
}

TEST_F(ProcessTest, SecondProcessIsRefusedUntilTheHolderIsKilled) {
  const auto holder = StartHolder("order-42");
  const std::string content = ReadFile(path_);
  EXPECT_THAT(TryOpen(), kInUse);
  EXPECT_EQ(ReadFile(path_), content);
  // Nothing is in it that would tell a lock that is held from a stale one.
  EXPECT_EQ(ReadFile(path_ + ".lock"), "");
  holder->Signal(SIGKILL);
  holder->Wait();
  EXPECT_THAT(TryOpen(), IsOk());
}

TEST_F(ProcessTest, DeletedLockDoesNotLetASecondProcessIn) {
  const auto holder = StartHolder("order-42");
  ASSERT_TRUE(std::filesystem::remove(path_ + ".lock"));
  EXPECT_THAT(TryOpen(), kInUse);
}

TEST_F(ProcessTest, SecondJournalOfThisProcessIsRefused) {
  auto journal = TryOpen();
  ASSERT_THAT(journal, IsOk());
  EXPECT_THAT(TryOpen(), kInUse);
  journal->reset();
  EXPECT_THAT(TryOpen(), IsOk());
}

TEST_F(ProcessTest, LockIsHeldAfterRewriting) {
  JournalOptions options = Options();
  options.keep_settled = absl::ZeroDuration();
  const auto journal = Open(options);
  const ino_t before = InodeOf(path_);
  for (int i = 0; i < 1000 && InodeOf(path_) == before; ++i) {
    ASSERT_THAT(journal->Intend("order-42"), IsOk());
    ASSERT_THAT(journal->Settle("order-42"), IsOk());
  }
  ASSERT_NE(InodeOf(path_), before);
  EXPECT_THAT(TryOpen(), kInUse);
  ASSERT_TRUE(std::filesystem::remove(path_ + ".lock"));
  EXPECT_THAT(TryOpen(), kInUse);
}

TEST_F(ProcessTest, EveryNameOfTheFileIsOneJournal) {
  const Intent first = IntendOnce("order-42");
  std::filesystem::create_directory(folder_ + "/names");
  const std::string names = folder_ + "/names";
  std::filesystem::create_directory_symlink("..", names + "/folder");
  std::filesystem::create_symlink("../intents", names + "/file");
  std::filesystem::create_hard_link(path_, names + "/hard");
  for (const char* name :
       {"/folder/intents", "/file", "/hard", "/../intents"}) {
    SCOPED_TRACE(name);
    {
      const auto journal = Open();
      EXPECT_THAT(Journal::Open(names + name), kInUse);
    }
    const auto journal = Journal::Open(names + name);
    ASSERT_THAT(journal, IsOk());
    EXPECT_EQ((*journal)->Intend("order-42")->key, first.key);
    EXPECT_THAT(TryOpen(), kInUse);
  }
}

TEST_F(ProcessTest, NewFileIsMadeBehindALinkToItsFolder) {
  std::filesystem::create_directory(folder_ + "/real");
  std::filesystem::create_directory_symlink("real", folder_ + "/link");
  const auto journal = Journal::Open(folder_ + "/link/intents");
  ASSERT_THAT(journal, IsOk());
  EXPECT_THAT(Journal::Open(folder_ + "/real/intents"), kInUse);
}

TEST_F(ProcessTest, RelativePathIsThatOfTheMomentOfOpening) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const auto journal = Journal::Open("intents");
  std::filesystem::current_path(before);
  ASSERT_THAT(journal, IsOk());
  EXPECT_THAT((*journal)->Intend("order-42"), IsOk());
  EXPECT_THAT(TryOpen(), kInUse);
}

TEST_F(ProcessTest, JournalIsOfNoUseInAForkedChild) {
  const auto journal = Open();
  ASSERT_THAT(journal->Intend("order-42"), IsOk());
  const pid_t child = fork();
  if (child == 0) {
    const auto refused = [](const absl::Status& status) {
      return absl::IsFailedPrecondition(status);
    };
    const bool all_refused = refused(journal->Intend("order-42").status()) &&
                             refused(journal->Settle("order-42")) &&
                             refused(journal->Pending().status()) &&
                             refused(TryOpen().status());
    _exit(all_refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(journal->Intend("order-42")->minted);
}

TEST_F(ProcessTest, ChildThatDestroysItsCopyTakesNoLockAway) {
  auto journal = Open();
  const pid_t child = fork();
  if (child == 0) {
    journal.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_THAT(TryOpen(), kInUse);
}

class ChangedBehindOurBackTest : public ProcessTest {
 protected:
  void ExpectShut(Journal& journal) {
    EXPECT_THAT(journal.Intend("order-43"), kShut);
    EXPECT_THAT(journal.Intend("order-42"), kShut);
    EXPECT_THAT(journal.Settle("order-42"), kShut);
    EXPECT_THAT(journal.Pending(), kShut);
  }
};

TEST_F(ChangedBehindOurBackTest, DeletedFileShutsTheJournal) {
  const auto journal = Open();
  ASSERT_THAT(journal->Intend("order-42"), IsOk());
  std::filesystem::remove(path_);
  ExpectShut(*journal);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ChangedBehindOurBackTest, ReplacedFileShutsTheJournal) {
  const auto journal = Open();
  ASSERT_THAT(journal->Intend("order-42"), IsOk());
  std::filesystem::copy_file(path_, path_ + ".copy");
  const std::string content = ReadFile(path_);
  std::filesystem::rename(path_ + ".copy", path_);
  ExpectShut(*journal);
  EXPECT_EQ(ReadFile(path_), content);
}

TEST_F(ChangedBehindOurBackTest, MovedFolderShutsTheJournal) {
  std::filesystem::create_directory(folder_ + "/before");
  path_ = folder_ + "/before/intents";
  const auto journal = Open();
  ASSERT_THAT(journal->Intend("order-42"), IsOk());
  std::filesystem::rename(folder_ + "/before", folder_ + "/after");
  ExpectShut(*journal);
}

TEST_F(ChangedBehindOurBackTest, LineOfSomebodyElseShutsTheJournal) {
  const auto journal = Open();
  ASSERT_THAT(journal->Intend("order-42"), IsOk());
  std::ofstream(path_, std::ios::app) << "hello\n";
  const std::string content = ReadFile(path_);
  ExpectShut(*journal);
  EXPECT_EQ(ReadFile(path_), content);
}

TEST_F(ChangedBehindOurBackTest, EmptiedFileShutsTheJournal) {
  const auto journal = Open();
  ASSERT_THAT(journal->Intend("order-42"), IsOk());
  WriteFile(path_, "");
  ExpectShut(*journal);
  EXPECT_EQ(ReadFile(path_), "");
}

}  // namespace
}  // namespace dedupe::client
