// What a person or a tool watches a run by: log lines, progress, metrics, recorded figures; and the clock behind them.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/progress.h"
#include "base/results.h"
#include "base/subprocess.h"
#include "support/fake_clock.h"

namespace hone {
namespace {

using testing::FakeClock;

TempFolder Folder() { return TempFolder::Create("observe_test").value(); }

std::vector<std::string> Lines(const std::string& path) {
  std::vector<std::string> lines = absl::StrSplit(ReadFile(path).value(), '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

/// The line without its time stamp.
std::string AfterTime(const std::string& line) {
  REQUIRE(line.size() > 25);
  CHECK(line[4] == '-');
  CHECK(line[10] == 'T');
  CHECK(line[23] == 'Z');
  return line.substr(25);
}

TEST_CASE("A log line carries level, component, message and fields, those of the request first", "[base][log]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/log";
  const Logger log = Logger::ToFile(path, "lane", LogLevel::kInfo).value();
  const Logger request = log.With({{"trace", "7f3a"}});
  request.Info("judged", {{"task", absl::string_view("softmax")}, {"seconds", 1.25}, {"ok", true}, {"n", int64_t{3}}});
  request.For("build").Warning("slow");
  log.Debug("not shown");
  const std::vector<std::string> lines = Lines(path);
  REQUIRE(lines.size() == 2);
  CHECK(AfterTime(lines[0]) == "info lane: judged trace=7f3a task=softmax seconds=1.25 ok=true n=3");
  CHECK(AfterTime(lines[1]) == "warning build: slow trace=7f3a");
}

TEST_CASE("A log call is one line whatever is logged", "[base][log]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/log";
  const Logger log = Logger::ToFile(path, "lane", LogLevel::kInfo).value();
  log.Info("two\nlines {}", {{"value", "a \"b\"\nc=d"}, {"empty", ""}, {"path", "/tmp/x"}, {"brace", "{}"}});
  const std::vector<std::string> lines = Lines(path);
  REQUIRE(lines.size() == 1);
  CHECK(AfterTime(lines[0]) == "info lane: two\\nlines {} value=\"a \\\"b\\\"\\nc=d\" empty=\"\" path=/tmp/x brace={}");
}

TEST_CASE("A log file that cannot be opened is an error, not an exception", "[base][log]") {
  CHECK_FALSE(Logger::ToFile("/proc/none/log", "lane", LogLevel::kInfo).ok());
}

TEST_CASE("Durations are written for people", "[base][progress]") {
  CHECK(HumanSeconds(0.84) == "0.8s");
  CHECK(HumanSeconds(9.96) == "10s");
  CHECK(HumanSeconds(59.4) == "59s");
  CHECK(HumanSeconds(59.6) == "1m 00s");
  CHECK(HumanSeconds(83) == "1m 23s");
  CHECK(HumanSeconds(7500) == "2h 05m");
  CHECK(HumanSeconds(273'600) == "3d 04h");
  CHECK(HumanSeconds(-1) == "0.0s");
  CHECK(HumanSeconds(std::numeric_limits<double>::infinity()) == "?");
}

/// A stream whose text can be read back.
class TextStream {
 public:
  ~TextStream() {
    std::fclose(stream_);
    std::free(text_);
  }
  std::FILE* get() { return stream_; }
  std::string Take() {
    std::fflush(stream_);
    std::string text(text_, size_);
    std::rewind(stream_);
    return text;
  }

 private:
  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* stream_ = open_memstream(&text_, &size_);
};

TEST_CASE("Plain progress prints at most one line in ten seconds, and a last one", "[base][progress]") {
  TextStream stream;
  FakeClock clock;
  Progress progress("rl", 100, {.stream = stream.get(), .live = false, .clock = &clock});
  for (int step = 1; step <= 50; ++step) {
    clock.Advance(absl::Seconds(1));
    progress.Update(step, "reward 0.41");
  }
  progress.Finish("reward 0.52");
  progress.Finish("again");
  progress.Update(99, "late");
  CHECK(stream.Take() ==
        "rl 10/100 1m 30s left, reward 0.41\n"
        "rl 20/100 1m 20s left, reward 0.41\n"
        "rl 30/100 1m 10s left, reward 0.41\n"
        "rl 40/100 1m 00s left, reward 0.41\n"
        "rl 50/100 50s left, reward 0.41\n"
        "rl done in 50s, reward 0.52\n");
}

TEST_CASE("Live progress rewrites one line within the terminal's width", "[base][progress]") {
  TextStream stream;
  FakeClock clock;
  {
    Progress progress("sft", 10, {.stream = stream.get(), .live = true, .width = 40, .clock = &clock});
    clock.Advance(absl::Seconds(5));
    progress.Update(5, "a detail that is too long");
    progress.Update(6, "within a tenth of a second: dropped");
    CHECK(stream.Take() == "\r\x1b[Ksft 5/10 [##########----------] 5.0s le\r");
  }
  CHECK(stream.Take() == "\n");
}

// ---- Metrics: the event file is read back with a reader written from the format's description. ----

uint64_t LittleEndian(const std::string& bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

uint32_t Unmask(uint32_t masked) {
  const uint32_t rotated = masked - 0xA282EAD8u;
  return (rotated >> 17) | (rotated << 15);
}

std::vector<std::string> Records(const std::string& file) {
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    const size_t length = LittleEndian(file, at, 8);
    CHECK(Unmask(static_cast<uint32_t>(LittleEndian(file, at + 8, 4))) == Crc32c(file.substr(at, 8)));
    records.push_back(file.substr(at + 12, length));
    CHECK(Unmask(static_cast<uint32_t>(LittleEndian(file, at + 12 + length, 4))) == Crc32c(records.back()));
    at += 16 + length;
  }
  return records;
}

/// One level of a protocol buffer: field number to raw value.
std::multimap<int, std::string> Message(const std::string& bytes) {
  std::multimap<int, std::string> fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.size()) {
    const uint64_t tag = varint();
    const int field = static_cast<int>(tag >> 3);
    size_t length = 0;
    if ((tag & 7) == 0) {
      fields.emplace(field, absl::StrCat(varint()));
      continue;
    }
    if ((tag & 7) == 1) length = 8;
    if ((tag & 7) == 5) length = 4;
    if ((tag & 7) == 2) length = varint();
    fields.emplace(field, bytes.substr(at, length));
    at += length;
  }
  return fields;
}

std::string EventFile(const std::string& folder) {
  SpawnOptions find;
  find.argv = {"sh", "-c", "ls " + folder + "/events.out.tfevents.*"};
  const std::string output = Run(find, absl::Seconds(10))->output;
  return output.substr(0, output.find('\n'));
}

TEST_CASE("Metrics go to an event file that TensorBoard's format describes", "[base][metrics]") {
  const TempFolder folder = Folder();
  FakeClock clock(absl::FromUnixSeconds(1'700'000'000) + absl::Milliseconds(500));
  auto metrics = MetricsWriter::Create(folder.path() + "/run", clock).value();
  REQUIRE(metrics->Write(300, {{"reward/mean", 0.5}, {"bad", std::nan("")}}).ok());
  REQUIRE(metrics->Flush().ok());
  const std::vector<std::string> records = Records(ReadFile(EventFile(folder.path() + "/run")).value());
  REQUIRE(records.size() == 2);
  CHECK(Message(records[0]).find(3)->second == "brain.Event:2");
  const auto event = Message(records[1]);
  double wall_time = 0;
  std::memcpy(&wall_time, event.find(1)->second.data(), 8);
  CHECK(wall_time == 1'700'000'000.5);
  CHECK(event.find(2)->second == "300");
  std::map<std::string, float> values;
  const auto summary = Message(event.find(5)->second);
  for (const auto& [field, bytes] : summary) {
    CHECK(field == 1);
    const auto value = Message(bytes);
    std::memcpy(&values[value.find(1)->second], value.find(2)->second.data(), 4);
  }
  CHECK(values == std::map<std::string, float>{{"reward/mean", 0.5f}, {"metrics/not_finite", 1.0f}});
}

TEST_CASE("Metrics go to JSON Lines too, values that are not finite as null", "[base][metrics]") {
  const TempFolder folder = Folder();
  FakeClock clock;
  for (int opening = 0; opening < 2; ++opening) {
    auto metrics = MetricsWriter::Create(folder.path(), clock).value();
    REQUIRE(metrics->Write(opening, {{"loss", 0.1}, {"kl", std::numeric_limits<double>::infinity()}}).ok());
  }
  const std::vector<std::string> lines = Lines(folder.path() + "/metrics.jsonl");
  REQUIRE(lines.size() == 2);
  CHECK(nlohmann::json::parse(lines[1]) ==
        nlohmann::json::parse(R"({"step":1,"time":1700000000.0,"loss":0.1,"kl":null,"metrics/not_finite":1.0})"));
}

// ---- Recorded figures. ----

BenchResult Figure(const std::string& id, double value, const std::string& machine = "2 cores") {
  return {id, value, "s", "make bench", machine, "2026-11-30", "abc"};
}

TEST_CASE("A recorded figure replaces the one of the same id and machine", "[base][results]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/results.json";
  REQUIRE(RecordResults(path, {Figure("b.x", 1), Figure("a.y", 2)}).ok());
  REQUIRE(RecordResults(path, {Figure("b.x", 3), Figure("b.x", 4, "NVIDIA H200")}).ok());
  CHECK(ReadResults(path).value() ==
        std::vector<BenchResult>{Figure("a.y", 2), Figure("b.x", 3), Figure("b.x", 4, "NVIDIA H200")});
}

TEST_CASE("Programs that record at the same time lose nothing", "[base][results]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/results.json";
  std::vector<pid_t> children;
  for (int child = 0; child < 8; ++child) {
    const pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) _exit(RecordResults(path, {Figure(absl::StrCat("id.", child), child)}).ok() ? 0 : 1);
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK(status == 0);
  }
  CHECK(ReadResults(path)->size() == 8);
}

TEST_CASE("A locked folder, as a temporary one is by its owner, keeps nobody from recording in it", "[base][results]") {
  const TempFolder folder = Folder();
  const UniqueFd other(open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(flock(other.get(), LOCK_EX | LOCK_NB) != 0);  // its owner holds it
  const std::string path = folder.path() + "/results.json";
  REQUIRE(RecordResults(path, {Figure("a.x", 1)}).ok());
  CHECK(ReadResults(path)->size() == 1);
}

TEST_CASE("Figures that are not numbers or cannot be measured again are refused", "[base][results]") {
  const TempFolder folder = Folder();
  const std::string path = folder.path() + "/results.json";
  CHECK_FALSE(RecordResults(path, {Figure("a.x", std::nan(""))}).ok());
  BenchResult no_command = Figure("a.x", 1);
  no_command.command = "";
  CHECK_FALSE(RecordResults(path, {no_command}).ok());
  CHECK_FALSE(FileExists(path));
  REQUIRE(WriteFileAtomically(path, "[{\"id\": 3}]").ok());
  CHECK(ReadResults(path).status().message() == path + ": [0].id: expected a string");
  CHECK_FALSE(RecordResults(path, {Figure("a.x", 1)}).ok());
  CHECK(ReadFile(path).value() == "[{\"id\": 3}]");
}

TEST_CASE("The page of figures has one table for each group", "[base][results]") {
  BenchResult pipe = Figure("b.rate", 1234.5678);
  pipe.command = "a | b";
  const std::string page = RenderBenchmarks({pipe, Figure("a.x", 0.00012345), Figure("a.n", 3)});
  CHECK(absl::StrContains(page, "## a\n"));
  CHECK(absl::StrContains(page, "## b\n"));
  CHECK(absl::StrContains(page, "| `a.x` | 0.0001234 | s | 2 cores | `make bench` | 2026-11-30 | abc |"));
  CHECK(absl::StrContains(page, "| `b.rate` | 1235 | s | 2 cores | `a \\| b` |"));
  CHECK(page.find("`a.n`") < page.find("`a.x`"));
}

TEST_CASE("A figure's command is what was typed, from the checkout's folder and without anybody's home", "[base][results]") {
  CHECK(CommandText({"/src/hone/build/release/bench/farm_bench", "chaos", "--record=/src/hone/bench/results.json", "--seed", "3"},
                    "/src/hone", "/home/ann") ==
        "build/release/bench/farm_bench chaos --record=bench/results.json --seed 3");
  CHECK(CommandText({"a", "--python", "/home/ann/venv/bin/python3", "", "two words", "it's"}, "/src/hone", "/home/ann") ==
        "a --python ~/venv/bin/python3 '' 'two words' 'it'\\''s'");
  CHECK(CommandText({"a", "--steps", "24", "--only-read", "--record"}, "", "") == "a --steps 24 --record");
  CHECK(absl::StrContains(ThisCommand("/nowhere"), "observe_test"));
}

TEST_CASE("The commit of a folder that is no checkout is unknown", "[base][results]") {
  const TempFolder folder = Folder();
  CHECK(CurrentCommit(folder.path()) == "unknown");
}

}  // namespace
}  // namespace hone
