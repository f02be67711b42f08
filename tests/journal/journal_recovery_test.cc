// What Open makes of files that a crash, a disk or a person has changed.
#include <functional>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/src/journal_line.h"
#include "tests/journal/journal_fixture.h"

namespace dedupe::client {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kHeader[] = R"({"journal":"dedupe","version":1})";

class RecoveryTest : public JournalTest {
 protected:
  // Some intents, each in a state of its own; returns the file's content.
  std::string WriteIntents() {
    const auto journal = Open();
    for (const char* vessel : {"pending-1", "settled-1", "pending-2", "last"}) {
      keys_[vessel] = journal->Intend(vessel, "one")->key;
    }
    EXPECT_THAT(journal->Settle("settled-1"), IsOk());
    keys_["newest"] = journal->Intend("newest", "one")->key;
    return ReadFile(path_);
  }

  // Refused, and not a byte of it changed.
  void ExpectRefused(const std::string& content, absl::StatusCode code) {
    WriteFile(path_, content);
    EXPECT_THAT(TryOpen(), HasCode(code));
    ASSERT_EQ(ReadFile(path_), content);
  }
  void ExpectDamaged(const std::string& content) {
    ExpectRefused(content, absl::StatusCode::kDataLoss);
  }

  // Cut to `whole`, and as good as new.
  void ExpectTorn(const std::string& content, const std::string& whole) {
    WriteFile(path_, content);
    {
      const auto journal = TryOpen();
      ASSERT_THAT(journal, IsOk());
      EXPECT_EQ((*journal)->recovery().torn_bytes,
                content.size() - whole.size());
      ASSERT_EQ(ReadFile(path_), whole);
      ASSERT_THAT((*journal)->Intend("after-1", "one"), IsOk());
    }
    const auto journal = TryOpen();
    ASSERT_THAT(journal, IsOk());
    EXPECT_EQ((*journal)->recovery().torn_bytes, 0U);
  }

  std::map<std::string, std::string> keys_;
};

std::vector<std::string> LinesOf(const std::string& content) {
  std::vector<std::string> lines = absl::StrSplit(content, '\n');
  lines.pop_back();
  for (std::string& line : lines) line += '\n';
  return lines;
}

std::string FileOf(const std::vector<std::string>& payloads) {
  std::string content;
  for (size_t i = 0; i < payloads.size(); ++i) {
    content += FormatLine(i, payloads[i]);
  }
  return content;
}

std::string IntendOf(const std::string& vessel, const std::string& key) {
  return absl::StrCat(R"({"record":"intend","vessel":")", vessel,
                      R"(","key":")", key, R"(","fingerprint":"","at":1})");
}

std::string SettleOf(const std::string& vessel) {
  return absl::StrCat(R"({"record":"settle","vessel":")", vessel,
                      R"(","at":1})");
}

// A record was appended behind a half-written one, and hid all that followed.
TEST_F(RecoveryTest, EndTornAtAnyByteIsCutAndTheFileGoesOn) {
  const std::string whole = WriteIntents();
  std::string last;
  {
    const auto journal = Open();
    ASSERT_THAT(journal->Intend("torn", "one"), IsOk());
    last = ReadFile(path_).substr(whole.size());
  }
  for (size_t length = 0; length < last.size(); ++length) {
    SCOPED_TRACE(length);
    ExpectTorn(whole + last.substr(0, length), whole);
    std::string after_2;
    {
      const auto journal = Open();
      after_2 = journal->Intend("after-2", "one")->key;
      ASSERT_THAT(journal->Settle("pending-2"), IsOk());
    }
    const auto journal = Open();
    EXPECT_THAT(*journal->Pending(), SizeIs(5));
    EXPECT_FALSE(journal->Intend("after-1", "one")->minted);
    EXPECT_EQ(journal->Intend("after-2", "one")->key, after_2);
    for (const auto& [vessel, key] : keys_) {
      EXPECT_EQ(journal->Intend(vessel, "one")->key, key);
    }
    ASSERT_TRUE(journal->Intend("torn", "one")->minted);
  }
}

TEST_F(RecoveryTest, AnyBitThatFlipsIsDamage) {
  const std::string content = WriteIntents();
  for (size_t i = 0; i < content.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      SCOPED_TRACE(absl::StrCat("byte ", i, ", bit ", bit));
      std::string damaged = content;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      ExpectDamaged(damaged);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(RecoveryTest, AnyByteThatChangesIsDamage) {
  const std::string content = WriteIntents();
  for (size_t i = 0; i < content.size(); ++i) {
    for (const char byte : {'\0', '\xff', '\n', ' ', '0', 'f', '"'}) {
      if (content[i] == byte) continue;
      SCOPED_TRACE(absl::StrCat("byte ", i, " is ", int{byte}));
      std::string damaged = content;
      damaged[i] = byte;
      ExpectDamaged(damaged);
      if (HasFatalFailure()) return;
    }
  }
}

// The size of a file may reach the disk before its content does.
TEST_F(RecoveryTest, TwoOrMoreNulBytesAtTheEndAreATornEnd) {
  const std::string content = WriteIntents();
  const size_t last = LinesOf(content).back().size();
  const std::string whole = content.substr(0, content.size() - last);
  for (size_t nuls = 2; nuls <= last; ++nuls) {
    SCOPED_TRACE(nuls);
    ExpectTorn(
        content.substr(0, content.size() - nuls) + std::string(nuls, '\0'),
        whole);
  }
}

TEST_F(RecoveryTest, NulBytesBehindTheLastRecordAreATornEnd) {
  const std::string content = WriteIntents();
  ExpectTorn(content + std::string(2, '\0'), content);
  ExpectTorn(content + std::string(200, '\0'), content);
  ExpectTorn(content + "0000" + std::string(200, '\0'), content);
}

TEST_F(RecoveryTest, OneNulByteIsDamage) {
  const std::string content = WriteIntents();
  ExpectDamaged(content + '\0');
  ExpectDamaged(content.substr(0, content.size() - 1) + '\0');
}

TEST_F(RecoveryTest, NulBytesOverMoreThanOneRecordAreDamage) {
  const std::string content = WriteIntents();
  const size_t last = LinesOf(content).back().size();
  ExpectDamaged(content.substr(0, content.size() - last - 1) +
                std::string(last + 1, '\0'));
  ExpectDamaged(content + std::string(LineBytes(kPayloadBytesMax) + 1, '\0'));
}

TEST_F(RecoveryTest, LineThatIsLostDoubledOrMovedIsDamage) {
  const std::vector<std::string> lines = LinesOf(WriteIntents());
  const auto changed =
      [&](const std::function<void(std::vector<std::string>&)>& change) {
        std::vector<std::string> other = lines;
        change(other);
        std::string content;
        for (const std::string& line : other) content += line;
        return content;
      };
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    SCOPED_TRACE(i);
    const auto at = static_cast<ptrdiff_t>(i);
    ExpectDamaged(
        changed([&](auto& other) { other.erase(other.begin() + at); }));
    ExpectDamaged(changed(
        [&](auto& other) { other.insert(other.begin() + at, other[i]); }));
    ExpectDamaged(
        changed([&](auto& other) { std::swap(other[i], other[i + 1]); }));
  }
  ExpectDamaged(changed([](auto& other) { other.push_back(other.back()); }));
}

TEST_F(RecoveryTest, EmptyFileIsDamage) { ExpectDamaged(""); }

TEST_F(RecoveryTest, TornFirstRecordIsDamage) {
  const std::string header = FormatLine(0, kHeader);
  for (size_t length = 1; length < header.size(); ++length) {
    SCOPED_TRACE(length);
    ExpectDamaged(header.substr(0, length));
  }
  ExpectDamaged(std::string(header.size(), '\0'));
}

TEST_F(RecoveryTest, OtherFilesAreDamage) {
  ExpectDamaged("hello\n");
  ExpectDamaged(std::string(100'000, 'x'));
  ExpectDamaged(FormatLine(0, "{}"));
  ExpectDamaged(FormatLine(0, R"({"journal":"dedupe","version":0})"));
  ExpectDamaged(FormatLine(0, IntendOf("checkout-1", "key-1")));
}

TEST_F(RecoveryTest, NewerVersionIsLeftAsItIs) {
  const std::string header =
      FormatLine(0, R"({"journal":"dedupe","version":2,"more":[]})");
  const auto code = absl::StatusCode::kUnimplemented;
  ExpectRefused(header, code);
  ExpectRefused(header + "something else\n", code);
  ExpectRefused(header + FormatLine(1, "{}").substr(0, 20), code);
}

TEST_F(RecoveryTest, LengthBeyondAnyRecordIsDamage) {
  const std::string whole = FileOf({kHeader});
  const std::string longest(kPayloadBytesMax, 'x');
  ExpectTorn(whole + FormatLine(1, longest).substr(0, 100), whole);
  ExpectDamaged(whole + FormatLine(1, longest + 'x').substr(0, 100));
  ExpectDamaged(whole + "ffffffff00000000 {");
}

TEST_F(RecoveryTest, SecondKeyForAPendingIntentIsDamage) {
  ExpectDamaged(FileOf({kHeader, IntendOf("checkout-1", "key-1"),
                        IntendOf("checkout-1", "key-2")}));
}

TEST_F(RecoveryTest, SettlingWhatIsNotPendingIsDamage) {
  ExpectDamaged(FileOf({kHeader, SettleOf("checkout-1")}));
  ExpectDamaged(FileOf({kHeader, IntendOf("checkout-1", "key-1"),
                        SettleOf("checkout-1"), SettleOf("checkout-1")}));
}

TEST_F(RecoveryTest, RecordsThatMakeNoSenseAreDamage) {
  for (
      const char* payload :
      {"", "{", "7", "null", "[]", "{}", R"({"record":"intend"})",
       R"({"record":"other","vessel":"v","at":1})",
       R"({"record":"intend","vessel":"v","key":"k","at":1})",
       R"({"record":"intend","vessel":"v","fingerprint":"","at":1})",
       R"({"record":"intend","vessel":"v","key":"","fingerprint":"","at":1})",
       R"({"record":"intend","vessel":"v","key":"k","fingerprint":""})",
       R"({"record":"intend","vessel":7,"key":"k","fingerprint":"","at":1})",
       R"({"record":"intend","vessel":"v","key":"k","fingerprint":"0","at":1})",
       R"({"record":"intend","vessel":"v","key":"k","fingerprint":"zz","at":1})",
       R"({"record":"intend","vessel":"v","key":"k","fingerprint":"","at":"1"})"}) {
    SCOPED_TRACE(payload);
    ExpectDamaged(FileOf({kHeader, payload}));
  }
  WriteFile(path_, FileOf({kHeader, IntendOf("checkout-1", "key-1")}));
  EXPECT_EQ(IntendOnce("checkout-1").key, "key-1");
}

TEST_F(RecoveryTest, UnfinishedRewritingIsThrownAway) {
  const std::string content = WriteIntents();
  WriteFile(path_ + ".new", content.substr(0, 100));
  EXPECT_EQ(Open()->Intend("last", "one")->key, keys_["last"]);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
  std::filesystem::remove(path_);
  WriteFile(path_ + ".new", content);
  EXPECT_THAT(*Open()->Pending(), IsEmpty());
}

// More than is read at once, so that records lie across what is.
TEST_F(RecoveryTest, LargeFileIsReadWhole) {
  std::vector<std::string> payloads = {kHeader};
  for (int i = 0; i < 8000; ++i) {
    payloads.push_back(
        IntendOf(absl::StrCat("checkout-", i), absl::StrCat("key-", i)));
  }
  const std::string content = FileOf(payloads);
  ASSERT_GT(content.size(), 700'000U);
  WriteFile(path_, content);
  const std::vector<Intent> pending = *Open()->Pending();
  ASSERT_THAT(pending, SizeIs(8000));
  for (size_t i = 0; i < pending.size(); ++i) {
    ASSERT_EQ(pending[i].key, absl::StrCat("key-", i));
  }
  ExpectTorn(content + FormatLine(8001, "{}").substr(0, 30), content);
}

}  // namespace
}  // namespace dedupe::client
