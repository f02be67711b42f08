#include "dedupe/journal.h"

#include <array>
#include <set>
#include <thread>
#include <vector>

#include "tests/journal/journal_fixture.h"

namespace dedupe::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

auto HasVessel(const std::string& vessel) {
  return Field(&Intent::vessel, vessel);
}

TEST_F(JournalTest, FirstIntendMintsAKey) {
  const auto journal = Open();
  const Intent intent = *journal->Intend("checkout-1", "one");
  EXPECT_EQ(intent.vessel, "checkout-1");
  EXPECT_THAT(intent.key, MatchesRegex("[0-9a-f-]{36}"));
  EXPECT_EQ(intent.fingerprint, "one");
  EXPECT_EQ(intent.created_at, now_);
  EXPECT_FALSE(intent.settled);
  EXPECT_TRUE(intent.minted);
}

TEST_F(JournalTest, SecondIntendFindsTheSameKey) {
  const auto journal = Open();
  const Intent first = *journal->Intend("checkout-1", "one");
  const Intent second = *journal->Intend("checkout-1", "one");
  EXPECT_EQ(second.key, first.key);
  EXPECT_FALSE(second.minted);
}

TEST_F(JournalTest, VesselsHaveKeysOfTheirOwn) {
  const auto journal = Open();
  EXPECT_NE(journal->Intend("checkout-1")->key,
            journal->Intend("checkout-2")->key);
}

TEST_F(JournalTest, KeyOutlivesTheJournal) {
  const Intent first = *Open()->Intend("checkout-1", "one");
  now_ += absl::Hours(1);
  const Intent second = *Open()->Intend("checkout-1", "one");
  EXPECT_EQ(second.key, first.key);
  EXPECT_EQ(second.fingerprint, "one");
  EXPECT_EQ(second.created_at, first.created_at);
  EXPECT_FALSE(second.settled);
  EXPECT_FALSE(second.minted);
}

TEST_F(JournalTest, OtherFingerprintIsRefused) {
  const Intent first = *Open()->Intend("checkout-1", "one");
  const auto journal = Open();
  const auto refused = HasCode(absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(journal->Intend("checkout-1", "two"), refused);
  EXPECT_THAT(journal->Intend("checkout-1"), refused);
  EXPECT_EQ(journal->Intend("checkout-1", "one")->key, first.key);
  ASSERT_THAT(journal->Settle("checkout-1"), IsOk());
  EXPECT_THAT(journal->Intend("checkout-1", "two"), refused);
}

TEST_F(JournalTest, FingerprintIsAnyBytes) {
  std::string fingerprint(kJournalFingerprintBytesMax, '\xff');
  fingerprint[0] = '\0';
  fingerprint[1] = '\n';
  const Intent first = *Open()->Intend("checkout-1", fingerprint);
  const Intent second = *Open()->Intend("checkout-1", fingerprint);
  EXPECT_EQ(second.fingerprint, fingerprint);
  EXPECT_EQ(second.key, first.key);
}

TEST_F(JournalTest, FingerprintOver64BytesIsRefused) {
  EXPECT_THAT(Open()->Intend("checkout-1",
                             std::string(kJournalFingerprintBytesMax + 1, 'x')),
              HasCode(absl::StatusCode::kInvalidArgument));
}

TEST_F(JournalTest, SettledIntentKeepsItsKey) {
  const auto journal = Open();
  const Intent first = *journal->Intend("checkout-1");
  ASSERT_THAT(journal->Settle("checkout-1"), IsOk());
  const Intent second = *journal->Intend("checkout-1");
  EXPECT_EQ(second.key, first.key);
  EXPECT_TRUE(second.settled);
  EXPECT_FALSE(second.minted);
}

TEST_F(JournalTest, SettlingOutlivesTheJournal) {
  const Intent first = IntendOnce("checkout-1");
  ASSERT_THAT(Open()->Settle("checkout-1"), IsOk());
  const Intent second = IntendOnce("checkout-1");
  EXPECT_EQ(second.key, first.key);
  EXPECT_TRUE(second.settled);
}

TEST_F(JournalTest, SettlingTwiceWritesOnce) {
  const auto journal = Open();
  ASSERT_THAT(journal->Intend("checkout-1"), IsOk());
  ASSERT_THAT(journal->Settle("checkout-1"), IsOk());
  const std::string content = ReadFile(path_);
  EXPECT_THAT(journal->Settle("checkout-1"), IsOk());
  EXPECT_EQ(ReadFile(path_), content);
}

TEST_F(JournalTest, SettlingTheUnknownIsNotFound) {
  EXPECT_THAT(Open()->Settle("checkout-1"),
              HasCode(absl::StatusCode::kNotFound));
}

TEST_F(JournalTest, PendingIsOldestFirst) {
  {
    const auto journal = Open();
    for (const char* vessel : {"c", "a", "d", "b"}) {
      ASSERT_THAT(journal->Intend(vessel), IsOk());
    }
    ASSERT_THAT(journal->Settle("a"), IsOk());
    EXPECT_THAT(*journal->Pending(),
                ElementsAre(HasVessel("c"), HasVessel("d"), HasVessel("b")));
  }
  EXPECT_THAT(*Open()->Pending(),
              ElementsAre(HasVessel("c"), HasVessel("d"), HasVessel("b")));
}

TEST_F(JournalTest, SettledIntentAges) {
  const auto journal = Open();
  const Intent first = *journal->Intend("checkout-1", "one");
  now_ += absl::Hours(24);
  ASSERT_THAT(journal->Settle("checkout-1"), IsOk());
  now_ += Options().keep_settled - absl::Microseconds(1);
  EXPECT_EQ(journal->Intend("checkout-1", "one")->key, first.key);
  now_ += absl::Microseconds(1);
  const Intent second = *journal->Intend("checkout-1", "two");
  EXPECT_NE(second.key, first.key);
  EXPECT_TRUE(second.minted);
  EXPECT_FALSE(second.settled);
}

TEST_F(JournalTest, KeyMintedAfterAgeingOutlivesTheJournal) {
  ASSERT_THAT(Open()->Intend("checkout-1"), IsOk());
  ASSERT_THAT(Open()->Settle("checkout-1"), IsOk());
  now_ += Options().keep_settled;
  const Intent second = IntendOnce("checkout-1");
  ASSERT_TRUE(second.minted);
  EXPECT_EQ(IntendOnce("checkout-1").key, second.key);
  EXPECT_THAT(*Open()->Pending(), ElementsAre(HasVessel("checkout-1")));
}

TEST_F(JournalTest, PendingIntentNeverAges) {
  const Intent first = IntendOnce("checkout-1");
  now_ += absl::Hours(24 * 366 * 20);
  EXPECT_EQ(IntendOnce("checkout-1").key, first.key);
}

TEST_F(JournalTest, ClockSetBackDoesNotAgeASettledIntentEarly) {
  const absl::Time start = now_;
  Intent first;
  {
    const auto journal = Open();
    ASSERT_THAT(journal->Intend("checkout-0"), IsOk());
    now_ = start - absl::Hours(24 * 30);
    first = *journal->Intend("checkout-1");
    ASSERT_THAT(journal->Settle("checkout-1"), IsOk());
    EXPECT_EQ(journal->Intend("checkout-1")->key, first.key);
  }
  now_ = start + absl::Hours(1);
  EXPECT_EQ(IntendOnce("checkout-1").key, first.key);
  now_ = start + Options().keep_settled;
  EXPECT_NE(IntendOnce("checkout-1").key, first.key);
}

TEST_F(JournalTest, BeyondIntentsMaxIsRefusedUntilOneHasAged) {
  JournalOptions options = Options();
  options.intents_max = 2;
  const auto journal = Open(options);
  const Intent first = *journal->Intend("checkout-1");
  ASSERT_THAT(journal->Intend("checkout-2"), IsOk());
  ASSERT_THAT(journal->Settle("checkout-2"), IsOk());
  const auto refused = HasCode(absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(journal->Intend("checkout-3"), refused);
  EXPECT_EQ(journal->Intend("checkout-1")->key, first.key);
  now_ += options.keep_settled;
  EXPECT_THAT(journal->Intend("checkout-3"), IsOk());
  EXPECT_THAT(journal->Intend("checkout-4"), refused);
}

TEST_F(JournalTest, OptionsHaveBounds) {
  const auto open = [this](absl::Duration keep_settled, size_t intents_max) {
    JournalOptions options = Options();
    options.keep_settled = keep_settled;
    options.intents_max = intents_max;
    return Journal::Open(path_, options);
  };
  const auto refused = HasCode(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(open(-absl::Nanoseconds(1), 1), refused);
  EXPECT_THAT(open(absl::Hours(366 * 24) + absl::Nanoseconds(1), 1), refused);
  EXPECT_THAT(open(absl::InfiniteDuration(), 1), refused);
  EXPECT_THAT(open(absl::ZeroDuration(), 0), refused);
  EXPECT_THAT(open(absl::ZeroDuration(), 10'000'001), refused);
  JournalOptions no_clock;
  no_clock.now = nullptr;
  EXPECT_THAT(Journal::Open(path_, no_clock), refused);
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_THAT(open(absl::ZeroDuration(), 1), IsOk());
  EXPECT_THAT(open(absl::Hours(366 * 24), 10'000'000), IsOk());
}

class BadVesselTest : public JournalTest,
                      public ::testing::WithParamInterface<std::string> {};

TEST_P(BadVesselTest, IsRefusedWithoutATrace) {
  const auto journal = Open();
  const std::string content = ReadFile(path_);
  const auto refused = HasCode(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(journal->Intend(GetParam()), refused);
  EXPECT_THAT(journal->Settle(GetParam()), refused);
  EXPECT_EQ(ReadFile(path_), content);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadVesselTest,
    ::testing::Values("", std::string(kVesselBytesMax + 1, 'v'),
                      std::string("v\0w", 3), "v\n", "\tv", "v\x7f",
                      "v\xc2\x85", "v\xc2", "\xff", "\xc0\xaf", "\xed\xa0\x80",
                      "\xf4\x90\x80\x80"));

class GoodVesselTest : public JournalTest,
                       public ::testing::WithParamInterface<std::string> {};

TEST_P(GoodVesselTest, IsKeptByteForByte) {
  const Intent first = IntendOnce(GetParam());
  EXPECT_THAT(*Open()->Pending(), ElementsAre(HasVessel(GetParam())));
  EXPECT_EQ(IntendOnce(GetParam()).key, first.key);
  EXPECT_THAT(ReadFile(path_), Not(::testing::ContainsRegex("[^ -~\n]")));
}

INSTANTIATE_TEST_SUITE_P(
    All, GoodVesselTest,
    ::testing::Values("v", " ", std::string(kVesselBytesMax, '"'),
                      std::string(kVesselBytesMax, '\\'), "\xc2\xa0",
                      "K\xc3\xb6ln", "\xe2\x82\xac", "\xef\xbf\xbf",
                      "\xf0\x9f\x9b\x92", "{\"vessel\":1}", "../../x"));

TEST_F(JournalTest, LongestRecordIsKept) {
  std::string vessel;
  while (vessel.size() < kVesselBytesMax) vessel += "\xc4\x80\xc4\x80\xc4\x80";
  vessel.resize(kVesselBytesMax - 1);
  const std::string fingerprint(kJournalFingerprintBytesMax, '\x01');
  const Intent first = *Open()->Intend(vessel, fingerprint);
  EXPECT_EQ(Open()->Intend(vessel, fingerprint)->key, first.key);
}

// What is on people's disks: a change of it is a new version.
TEST_F(JournalTest, FileIsAsDocumented) {
  std::string key;
  {
    const auto journal = Open();
    key = journal->Intend("K\xc3\xb6ln-1", "\x01\xff")->key;
    ASSERT_THAT(journal->Settle("K\xc3\xb6ln-1"), IsOk());
  }
  const std::string content = ReadFile(path_);
  const size_t second = content.find('\n') + 1;
  const size_t third = content.find('\n', second) + 1;
  EXPECT_EQ(content.substr(0, second),
            "00000020ffffffdf {\"journal\":\"dedupe\",\"version\":1} "
            "a93d847c93737bac\n");
  EXPECT_THAT(
      content.substr(second, third - second),
      AllOf(::testing::StartsWith(
                "00000082ffffff7d "
                R"({"record":"intend","vessel":"K\u00f6ln-1","key":")" +
                key + R"(","fingerprint":"01ff","at":1700000000000000} )"),
            SizeIs(0x82 + 35)));
  EXPECT_EQ(content.substr(third),
            R"(00000040ffffffbf {"record":"settle","vessel":"K\u00f6ln-1",)"
            R"("at":1700000000000000} 78bce0e744978561)"
            "\n");
}

TEST_F(JournalTest, NewFileIsItsOwnersAlone) {
  const auto journal = Open();
  EXPECT_TRUE(journal->recovery().created);
  EXPECT_EQ(journal->recovery().torn_bytes, 0U);
  EXPECT_EQ(
      std::filesystem::status(path_).permissions(),
      std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_F(JournalTest, FileThatWasThereIsNotCreated) {
  IntendOnce("checkout-1");
  EXPECT_FALSE(Open()->recovery().created);
}

class RewriteTest : public JournalTest {
 protected:
  // Intents that are settled and age at once, until the file is another one.
  void ChurnUntilRewritten(Journal& journal) {
    const ino_t before = InodeOf(path_);
    for (int i = 0; i < 10'000 && InodeOf(path_) == before; ++i) {
      const std::string vessel = absl::StrCat("passing-", churned_++);
      ASSERT_THAT(journal.Intend(vessel), IsOk());
      ASSERT_THAT(journal.Settle(vessel), IsOk());
      now_ += Options().keep_settled;
    }
    ASSERT_NE(InodeOf(path_), before);
  }

  int churned_ = 0;
};

TEST_F(RewriteTest, FileStaysSmall) {
  const auto journal = Open();
  for (int i = 0; i < 5; ++i) {
    ChurnUntilRewritten(*journal);
    EXPECT_LT(std::filesystem::file_size(path_), 1024U);
  }
  EXPECT_GT(churned_, 1000);
}

// A second name would go on naming the old content, with a lock of its own: two
// journals, and two keys for one intent.
TEST_F(RewriteTest, FileWithASecondNameStaysInPlace) {
  const auto journal = Open();
  const std::string second = path_ + ".second";
  std::filesystem::create_hard_link(path_, second);
  for (int i = 0; i < 1000; ++i) {
    const std::string vessel = absl::StrCat("v", i);
    ASSERT_TRUE(journal->Intend(vessel).ok());
    ASSERT_TRUE(journal->Settle(vessel).ok());
  }
  EXPECT_EQ(std::filesystem::hard_link_count(path_), 2U);
  EXPECT_EQ(Journal::Open(second).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(RewriteTest, PendingIntentsAreKeptInOrder) {
  std::vector<std::string> keys;
  {
    const auto journal = Open();
    for (const char* vessel : {"c", "a", "b"}) {
      keys.push_back(journal->Intend(vessel, "one")->key);
    }
    ChurnUntilRewritten(*journal);
    keys.push_back(journal->Intend("d", "one")->key);
  }
  const auto journal = Open();
  std::vector<std::string> kept;
  const std::vector<Intent> pending = *journal->Pending();
  for (const Intent& intent : pending) {
    EXPECT_EQ(intent.fingerprint, "one");
    kept.push_back(intent.key);
  }
  EXPECT_EQ(kept, keys);
}

TEST_F(RewriteTest, SettledIntentsAgeInTheirOwnOrderAfterwards) {
  std::string first_key;
  std::string second_key;
  {
    const auto journal = Open();
    first_key = journal->Intend("first")->key;
    second_key = journal->Intend("second")->key;
    for (int i = 0; i < 400; ++i) {
      ASSERT_THAT(journal->Intend(absl::StrCat("passing-", i)), IsOk());
      ASSERT_THAT(journal->Settle(absl::StrCat("passing-", i)), IsOk());
    }
    now_ += absl::Hours(1);
    ASSERT_THAT(journal->Settle("second"), IsOk());
    now_ += absl::Hours(1);
    ASSERT_THAT(journal->Settle("first"), IsOk());
    now_ += Options().keep_settled - absl::Hours(2);
    const ino_t before = InodeOf(path_);
    ASSERT_THAT(journal->Intend("last"), IsOk());
    ASSERT_NE(InodeOf(path_), before);
  }
  now_ += absl::Hours(1);
  EXPECT_NE(IntendOnce("second").key, second_key);
  EXPECT_EQ(IntendOnce("first").key, first_key);
}

TEST_F(RewriteTest, ModeOfTheFileIsKept) {
  const auto journal = Open();
  ASSERT_EQ(chmod(path_.c_str(), 0640), 0);
  ChurnUntilRewritten(*journal);
  struct stat found = {};
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0640U);
}

TEST_F(RewriteTest, FailureIsNoErrorOfTheCall) {
  const auto journal = Open();
  const Intent first = *journal->Intend("checkout-1");
  // Nothing can be made there.
  ASSERT_EQ(mkdir((path_ + ".new").c_str(), 0700), 0);
  for (int i = 0; i < 400; ++i) {
    const std::string vessel = absl::StrCat("passing-", i);
    ASSERT_THAT(journal->Intend(vessel), IsOk());
    ASSERT_THAT(journal->Settle(vessel), IsOk());
    now_ += Options().keep_settled;
  }
  EXPECT_GT(std::filesystem::file_size(path_), 64U * 1024);
  ASSERT_EQ(rmdir((path_ + ".new").c_str()), 0);
  ChurnUntilRewritten(*journal);
  EXPECT_EQ(journal->Intend("checkout-1")->key, first.key);
}

class ThreadsTest : public JournalTest {
 protected:
  template <typename Work>
  void Run(Work work) {
    std::array<std::thread, kThreads> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads[static_cast<size_t>(i)] = std::thread([&work, i] { work(i); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  static constexpr int kThreads = 8;
};

TEST_F(ThreadsTest, OneOfThemMintsAndAllHaveItsKey) {
  const auto journal = Open();
  for (int round = 0; round < 50; ++round) {
    std::array<Intent, kThreads> intents;
    const std::string vessel = absl::StrCat("checkout-", round);
    Run([&](int i) {
      intents[static_cast<size_t>(i)] = *journal->Intend(vessel);
    });
    std::set<std::string> keys;
    int minted = 0;
    for (const Intent& intent : intents) {
      keys.insert(intent.key);
      minted += intent.minted ? 1 : 0;
    }
    EXPECT_THAT(keys, SizeIs(1));
    EXPECT_EQ(minted, 1);
  }
}

TEST_F(ThreadsTest, AllThatTheyWriteIsKept) {
  constexpr int kEach = 100;
  {
    const auto journal = Open();
    Run([&](int i) {
      for (int n = 0; n < kEach; ++n) {
        const std::string vessel = absl::StrCat("checkout-", i, "-", n);
        EXPECT_THAT(journal->Intend(vessel), IsOk());
        if (n % 2 == 0) {
          EXPECT_THAT(journal->Settle(vessel), IsOk());
        }
        if (n % 10 == 0) {
          EXPECT_THAT(journal->Pending(), IsOk());
        }
      }
    });
  }
  const auto journal = Open();
  EXPECT_THAT(*journal->Pending(), SizeIs(kThreads * kEach / 2));
  EXPECT_EQ(journal->recovery().torn_bytes, 0U);
}

// The clock is that of now, because threads read it.
TEST_F(ThreadsTest, FileIsRewrittenAmongThem) {
  JournalOptions options;
  options.keep_settled = absl::ZeroDuration();
  ino_t before = 0;
  {
    const auto journal = Open(options);
    before = InodeOf(path_);
    Run([&](int i) {
      for (int n = 0; n < 150; ++n) {
        const std::string vessel = absl::StrCat("checkout-", i, "-", n);
        EXPECT_THAT(journal->Intend(vessel), IsOk());
        if (n != 0) {
          EXPECT_THAT(journal->Settle(vessel), IsOk());
        }
      }
    });
  }
  EXPECT_NE(InodeOf(path_), before);
  EXPECT_THAT(*Open(options)->Pending(), SizeIs(kThreads));
}

}  // namespace
}  // namespace dedupe::client
