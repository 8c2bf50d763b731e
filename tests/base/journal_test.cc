#include "base/journal.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "support/small_disk.h"

namespace hone {
namespace {

using Random = std::mt19937_64;

std::string RandomText(Random& random) {
  static const std::vector<std::string> kTexts = {"",
                                                  "plain",
                                                  "two\nlines",
                                                  "quote \" and \\ back",
                                                  "caf\xc3\xa9 \xe2\x9c\x93",
                                                  std::string("nul\0byte", 8),
                                                  "\x01\x1f\x7f"};
  return kTexts[random() % kTexts.size()];
}

double RandomDouble(Random& random) {
  static const std::vector<double> kSpecial = {0.0,
                                               -0.0,
                                               0.1,
                                               1e300,
                                               5e-324,
                                               -2.5,
                                               std::numeric_limits<double>::infinity(),
                                               -std::numeric_limits<double>::infinity()};
  if (random() % 2) return kSpecial[random() % kSpecial.size()];
  return std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 100) - 50);
}

Verdict RandomVerdict(Random& random) {
  Verdict v;
  v.status = static_cast<VerdictStatus>(random() % 11);
  v.message = RandomText(random);
  v.compiler_output = RandomText(random);
  v.correct_rate = RandomDouble(random);
  if (random() % 2) {
    v.mismatch =
        Mismatch{"out",    {3, -1, int64_t{1} << 40}, RandomDouble(random), RandomDouble(random), RandomDouble(random),
                 "rows=3", RandomText(random)};
  }
  for (uint64_t n = random() % 3; n > 0; --n) v.rules.push_back({"no_cublas", random() % 2 == 0, RandomText(random)});
  for (uint64_t n = random() % 3; n > 0; --n) {
    v.timings.push_back({static_cast<Baseline>(random() % 4),
                         {RandomDouble(random), RandomDouble(random), RandomDouble(random), 7},
                         RandomDouble(random),
                         RandomDouble(random),
                         12,
                         true,
                         {RandomDouble(random), RandomDouble(random)}});
  }
  if (random() % 2) v.coverage = RandomDouble(random);
  v.seconds = {RandomDouble(random), 1, 2, 3, 0.5};
  v.protocol = "quick";
  v.device = RandomText(random);
  v.lane = "host-7/cpu:0";
  v.confirmed_on = random() % 2 ? "host-7/cpu:1" : "";
  v.toolchain = "g++";
  v.sandbox = "none";
  v.seed_id = "s1";
  v.clock_mhz = RandomDouble(random);
  v.from_cache = random() % 2;
  v.screened_on_cpu = random() % 2;
  v.sanitizer_report = RandomText(random);
  for (uint64_t n = random() % 3; n > 0; --n) v.profile.push_back({RandomText(random), 2, RandomDouble(random), 1, 0.5, 3, 4, 0.25});
  return v;
}

Group RandomGroup(Random& random, size_t max_tokens = 20) {
  Group group{RandomText(random), "softmax_rows", {}};
  for (uint64_t e = random() % 3; e > 0; --e) {
    Episode episode{RandomText(random), "softmax_rows", {}, random() % 2 == 0};
    for (uint64_t t = random() % 3; t > 0; --t) {
      Turn turn;
      for (uint64_t n = random() % max_tokens; n > 0; --n) {
        turn.prompt_ids.push_back(static_cast<int32_t>(random()));
        turn.response_ids.push_back(static_cast<int32_t>(random()));
        uint32_t bits = static_cast<uint32_t>(random());
        float log_prob;
        std::memcpy(&log_prob, &bits, sizeof log_prob);
        turn.log_probs.push_back(std::isnan(log_prob) ? -0.25f : log_prob);
      }
      turn.versions = {{0, 3, 17}, {3, 9, 18}};
      turn.response = RandomText(random);
      turn.source = RandomText(random);
      turn.verdict = RandomVerdict(random);
      turn.truncated = random() % 2;
      episode.turns.push_back(std::move(turn));
    }
    group.episodes.push_back(std::move(episode));
  }
  return group;
}

/// In memory where the system offers that: the syncs of a disk would be most of this test's time.
TempFolder Folder() { return TempFolder::Create("journal_test", FileExists("/dev/shm") ? "/dev/shm" : "").value(); }

void Put(const std::string& path, const std::string& bytes) { REQUIRE(WriteFileAtomically(path, bytes).ok()); }

struct ReadBack {
  absl::Status status;
  JournalReadResult result;
  std::vector<Group> groups;
};

ReadBack Read(const std::string& path) {
  ReadBack back;
  absl::StatusOr<JournalReadResult> result = ReadJournal(path, [&](const Group& group) {
    back.groups.push_back(group);
    return absl::OkStatus();
  });
  back.status = result.status();
  if (result.ok()) back.result = *result;
  return back;
}

struct Written {
  std::vector<Group> groups;
  std::vector<size_t> ends;  // bytes of the file after the header and after each group
};

Written Write(const std::string& path, int count, uint64_t seed) {
  Random random(seed);
  Written written;
  auto writer = JournalWriter::Open(path).value();
  written.ends.push_back(ReadFile(path)->size());
  for (int i = 0; i < count; ++i) {
    written.groups.push_back(RandomGroup(random));
    REQUIRE(writer->Append(written.groups.back()).ok());
    written.ends.push_back(ReadFile(path)->size());
  }
  REQUIRE(writer->Sync().ok());
  return written;
}

TEST_CASE("A group comes back from JSON to the bit", "[base][journal]") {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const Group group = RandomGroup(random);
    const std::string json = GroupToJson(group);
    CHECK(json.find('\n') == std::string::npos);
    const absl::StatusOr<Group> back = GroupFromJson(json);
    INFO("seed 1, round " << round << ": " << back.status());
    REQUIRE(back.ok());
    CHECK(*back == group);
    // operator== takes -0 for 0: the text does not.
    CHECK(GroupToJson(*back) == json);
  }
}

TEST_CASE("NaN values survive JSON", "[base][journal]") {
  Verdict verdict;
  verdict.mismatch = Mismatch{};
  verdict.mismatch->got = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(VerdictFromJson(VerdictToJson(verdict))->mismatch->got));
}

TEST_CASE("Bytes that are not UTF-8 become the replacement character", "[base][journal]") {
  Verdict verdict;
  verdict.message = "a\xffz";
  CHECK(VerdictFromJson(VerdictToJson(verdict))->message == "a\xEF\xBF\xBDz");
}

TEST_CASE("Absent fields get their defaults and unknown ones are skipped", "[base][journal]") {
  const Group group = GroupFromJson(R"({"id":"g","later":[1],"episodes":[{"turns":[{"response":"x"}]}]})").value();
  CHECK(group.id == "g");
  REQUIRE(group.episodes.size() == 1);
  REQUIRE(group.episodes[0].turns.size() == 1);
  CHECK(group.episodes[0].turns[0].response == "x");
  CHECK(group.episodes[0].turns[0].verdict == Verdict{});
}

TEST_CASE("A record with a wrong field is refused by the field's path", "[base][journal]") {
  const auto message = [](const char* json) { return std::string(GroupFromJson(json).status().message()); };
  CHECK(message(R"({"id":7})") == "id: expected a string");
  CHECK(message(R"({"episodes":[{},{"turns":[{"prompt_ids":[1,2.5]}]}]})") ==
        "episodes[1].turns[0].prompt_ids[1]: expected a whole number of 32 bits");
  CHECK(message(R"({"episodes":[{"turns":[{"prompt_ids":[2147483648]}]}]})") ==
        "episodes[0].turns[0].prompt_ids[0]: expected a whole number of 32 bits");
  CHECK(message(R"({"episodes":[{"turns":[{"verdict":{"status":"FINE"}}]}]})") ==
        "episodes[0].turns[0].verdict.status: expected a verdict's status, such as OK or COMPILE");
  CHECK(message(R"({"episodes":{}})") == "episodes: expected a list");
  CHECK(message("[1]") == "record: expected an object");
  CHECK(message("{\"id\":") == "record: not JSON");
}

TEST_CASE("A journal gives back its groups in order, over several openings", "[base][journal]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/journal.jsonl.zst";
  std::vector<Group> expected = Write(path, 3, 2).groups;
  Random random(3);
  {
    auto writer = JournalWriter::Open(path).value();
    expected.push_back(RandomGroup(random));
    REQUIRE(writer->Append(expected.back()).ok());
  }
  const ReadBack back = Read(path);
  REQUIRE(back.status.ok());
  CHECK(back.groups == expected);
  CHECK(back.result.groups == 4);
  CHECK_FALSE(back.result.cut);
}

TEST_CASE("A journal cut at any byte gives the groups before the cut and can be continued", "[base][journal]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/whole";
  const Written written = Write(path, 3, 4);
  const std::string bytes = ReadFile(path).value();
  Random random(5);
  const Group extra = RandomGroup(random);
  const std::string cut_path = folder.path() + "/cut";
  for (size_t length = 0; length <= bytes.size(); ++length) {
    Put(cut_path, bytes.substr(0, length));
    const size_t whole = static_cast<size_t>(std::upper_bound(written.ends.begin(), written.ends.end(), length) -
                                             written.ends.begin());  // frames
    const bool on_boundary = whole > 0 && written.ends[whole - 1] == length;
    std::vector<Group> expected(written.groups.begin(), written.groups.begin() + (whole > 0 ? whole - 1 : 0));
    INFO("cut at byte " << length << " of " << bytes.size());

    ReadBack back = Read(cut_path);
    REQUIRE(back.status.ok());
    REQUIRE(back.groups == expected);
    REQUIRE(back.result.cut == !on_boundary);
    REQUIRE(back.result.warning.empty() == on_boundary);

    {
      auto writer = JournalWriter::Open(cut_path);
      REQUIRE(writer.ok());
      REQUIRE((*writer)->Append(extra).ok());
    }
    expected.push_back(extra);
    back = Read(cut_path);
    REQUIRE(back.status.ok());
    REQUIRE(back.groups == expected);
    REQUIRE_FALSE(back.result.cut);
  }
}

TEST_CASE("A tail of zeros, as a power cut leaves it, counts as a cut", "[base][journal]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/journal";
  const Written written = Write(path, 2, 6);
  std::string bytes = ReadFile(path).value();
  std::fill(bytes.begin() + static_cast<ptrdiff_t>(written.ends[1]), bytes.end(), '\0');
  Put(path, bytes);
  const ReadBack back = Read(path);
  REQUIRE(back.status.ok());
  CHECK(back.result.cut);
  CHECK(back.groups == std::vector<Group>{written.groups[0]});
  CHECK(JournalWriter::Open(path).ok());
  CHECK(ReadFile(path)->size() == written.ends[1]);
}

TEST_CASE("Damage in the middle is an error that leaves the file alone", "[base][journal]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/journal";
  const Written written = Write(path, 3, 7);
  std::string bytes = ReadFile(path).value();
  bytes[written.ends[1]] ^= 0x40;  // the magic number of the second group's frame
  Put(path, bytes);
  const ReadBack back = Read(path);
  CHECK(back.status.code() == absl::StatusCode::kDataLoss);
  CHECK(std::string(back.status.message()).find(absl::StrCat("byte ", written.ends[1])) != std::string::npos);
  CHECK(back.groups == std::vector<Group>{written.groups[0]});
  CHECK(JournalWriter::Open(path).status().code() == absl::StatusCode::kDataLoss);
  CHECK(ReadFile(path).value() == bytes);
}

TEST_CASE("A flipped bit never yields a group that was not written", "[base][journal][fuzz]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/journal";
  const Written written = Write(path, 4, 8);
  const std::string bytes = ReadFile(path).value();
  Random random(9);
  for (int round = 0; round < 500; ++round) {
    std::string damaged = bytes;
    for (uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
      damaged[random() % damaged.size()] ^= static_cast<char>(1 << (random() % 8));
    }
    if (random() % 4 == 0) damaged.erase(random() % damaged.size(), random() % 50);
    Put(path, damaged);
    const ReadBack back = Read(path);
    INFO("seed 9, round " << round << ": " << back.status);
    for (const Group& group : back.groups) {
      CHECK(std::find(written.groups.begin(), written.groups.end(), group) != written.groups.end());
    }
  }
}

TEST_CASE("Random damage to a record's JSON never crashes the parser", "[base][journal][fuzz]") {
  Random random(10);
  const std::string alphabet = "{}[]\",:0123456789.eE+-ntf\\u \n";
  for (int round = 0; round < 3000; ++round) {
    std::string json = GroupToJson(RandomGroup(random, 4));
    for (uint64_t edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % json.size();
      if (random() % 2)
        json[at] = alphabet[random() % alphabet.size()];
      else
        json.insert(at, 1, static_cast<char>(random()));
    }
    const absl::StatusOr<Group> group = GroupFromJson(json);
    INFO("seed 10, round " << round);
    if (group.ok())
      CHECK(GroupFromJson(GroupToJson(*group)).ok());
    else
      CHECK(group.status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("A deeply nested record is refused without overflowing the stack", "[base][journal]") {
  CHECK_FALSE(GroupFromJson(std::string(1'000'000, '[')).ok());
  CHECK_FALSE(GroupFromJson("{\"episodes\":" + std::string(500'000, '[') + std::string(500'000, ']') + "}").ok());
}

TEST_CASE("A journal of a newer schema is refused", "[base][journal]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/journal.jsonl";
  Put(path, "{\"hone_journal\":2}\n{\"id\":\"g\"}\n");
  const ReadBack back = Read(path);
  CHECK(back.status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(back.status.message() == path + ": journal schema 2; this version reads schemas 1 to 1");
}

TEST_CASE("Plain JSON Lines read like a journal, a cut last line is dropped", "[base][journal]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/journal.jsonl";
  Random random(12);
  const std::vector<Group> groups = {RandomGroup(random), RandomGroup(random)};
  const std::string first = GroupToJson(groups[0]) + "\n";
  const std::string text = first + "\n" + GroupToJson(groups[1]);

  Put(path, text);
  ReadBack back = Read(path);
  REQUIRE(back.status.ok());
  CHECK(back.groups == groups);
  CHECK_FALSE(back.result.cut);

  Put(path, text.substr(0, text.size() - 1));
  back = Read(path);
  REQUIRE(back.status.ok());
  CHECK(back.groups == std::vector<Group>{groups[0]});
  CHECK(back.result.cut);
  CHECK(back.result.warning == path + ": cut inside line 3; it was dropped");
}

TEST_CASE("Lines compressed as one frame by another program read too", "[base][journal]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/journal.jsonl.zst";
  Random random(13);
  std::vector<Group> groups;
  std::string text;
  for (int i = 0; i < 50; ++i) {
    groups.push_back(RandomGroup(random, 400));
    text += GroupToJson(groups.back()) + "\n";
  }
  std::string frame(ZSTD_compressBound(text.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), text.data(), text.size(), 1));
  Put(path, frame);
  const ReadBack back = Read(path);
  REQUIRE(back.status.ok());
  CHECK(back.groups == groups);
}

TEST_CASE("Files that are no journal are refused and left untouched", "[base][journal]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/notes.txt";
  for (const std::string& text : {std::string("dear diary\nnothing\n"), std::string("[1,2]\n"), std::string("x")}) {
    Put(path, text);
    CHECK(Read(path).status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(JournalWriter::Open(path).status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(ReadFile(path).value() == text);
  }
  CHECK(Read(folder.path() + "/none").status.code() == absl::StatusCode::kNotFound);
}

TEST_CASE("A wrong record in the middle names its group and field", "[base][journal]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/journal.jsonl";
  Put(path, "{\"hone_journal\":1}\n{\"id\":\"a\"}\n{\"id\":1}\n");
  CHECK(Read(path).status.message() == path + ": group 2: id: expected a string");
}

TEST_CASE("A second writer is refused while the first has the journal open", "[base][journal]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/journal";
  auto first = JournalWriter::Open(path).value();
  CHECK(JournalWriter::Open(path).status().code() == absl::StatusCode::kFailedPrecondition);
  first.reset();
  CHECK(JournalWriter::Open(path).ok());
}

TEST_CASE("The visitor's own error stops the reading and comes back", "[base][journal]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/journal";
  Write(path, 3, 14);
  int visits = 0;
  const auto result = ReadJournal(
      path, [&](const Group&) { return ++visits == 2 ? absl::CancelledError("enough") : absl::OkStatus(); });
  CHECK(result.status() == absl::CancelledError("enough"));
  CHECK(visits == 2);
}

/// Limits the size of files for its lifetime; writes beyond fail with EFBIG, as they fail with ENOSPC on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(size_t bytes) {
    old_action_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = {bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_action_);
  }

 private:
  rlimit old_;
  void (*old_action_)(int);
};

TEST_CASE("An append that finds the disk full leaves the journal readable, and a later one succeeds",
          "[base][journal]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/journal";
  Random random(15);
  const Group first = RandomGroup(random), second = RandomGroup(random);
  auto writer = JournalWriter::Open(path).value();
  REQUIRE(writer->Append(first).ok());
  const size_t end = ReadFile(path)->size();
  {
    const FileSizeLimit limit(end + 10);
    const absl::Status status = writer->Append(second);
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    CHECK(std::string(status.message()).find(path) == 0);
  }
  CHECK(ReadFile(path)->size() == end);
  CHECK(Read(path).groups == std::vector<Group>{first});
  REQUIRE(writer->Append(second).ok());
  CHECK(Read(path).groups == std::vector<Group>{first, second});
}

TEST_CASE("A journal on a file system without space stays readable", "[base][journal]") {
  const auto disk = testing::SmallDisk::Mount(64 << 10);
  if (disk == nullptr) SKIP("mounting a tmpfs needs root");
  const std::string path = disk->path() + "/journal";
  Random random(16);
  std::vector<Group> written;
  auto writer = JournalWriter::Open(path).value();
  absl::Status status;
  while (status.ok() && written.size() < 1000) {
    const Group group = RandomGroup(random, 2000);
    status = writer->Append(group);
    if (status.ok()) written.push_back(group);
  }
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  const ReadBack back = Read(path);
  CHECK(back.status.ok());
  CHECK_FALSE(back.result.cut);
  CHECK(back.groups == written);
}

TEST_CASE("A writer killed at any moment loses nothing that it had appended", "[base][journal]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/journal";
  auto* const acknowledged = static_cast<volatile int64_t*>(
      mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(acknowledged != MAP_FAILED);
  Random random(17);
  int64_t before = 0;
  for (int round = 0; round < 20; ++round) {
    *acknowledged = 0;
    const uint64_t seed = random();
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      Random child_random(seed);
      auto writer = JournalWriter::Open(path);
      while (writer.ok() && (*writer)->Append(RandomGroup(child_random, 3000)).ok()) *acknowledged = *acknowledged + 1;
      _exit(1);
    }
    usleep(static_cast<useconds_t>(random() % 30'000));
    kill(child, SIGKILL);
    REQUIRE(waitpid(child, nullptr, 0) == child);
    const bool exists = FileExists(path);
    const ReadBack back = exists ? Read(path) : ReadBack{};
    REQUIRE(back.status.ok());
    const int64_t groups = static_cast<int64_t>(back.groups.size());
    // One more may have reached the file before its acknowledgement.
    CHECK(groups >= before + *acknowledged);
    CHECK(groups <= before + *acknowledged + 1);
    before = groups;
  }
  munmap(const_cast<int64_t*>(acknowledged), sizeof(int64_t));
}

}  // namespace
}  // namespace hone
