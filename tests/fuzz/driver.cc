// A fuzzer for targets of libFuzzer's form, where the compiler brings none: g++ instruments edges and comparisons, this file
// keeps the inputs that reach something new and changes them. It takes the few options of libFuzzer's that are used here.
//
//   x_fuzz [-max_total_time=SECONDS] [-runs=N] [-max_len=BYTES] [-seed=N] [-artifact_prefix=P] [FOLDER | FILE ...]
//
// Folders hold inputs to begin with. With files alone it runs each of them once: that is how a crash is looked at again. The
// input of a crash, of a sanitizer's report, of an input that takes longer than 25 s, is written to ./crash-<hash>.

#include <sanitizer/common_interface_defs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kEdges = 1 << 16;
constexpr size_t kOperands = 1 << 10;
constexpr unsigned kSlowSeconds = 25;

// What the instrumented code writes to: it calls functions without arguments of ours, so that these cannot be handed in.
uint8_t edges[kEdges];         // how often each was passed in this run, saturating
uintptr_t previous_edge;
uint64_t operands[kOperands];  // of comparisons, the last ones
size_t next_operand;

// For handlers of crashes.
const uint8_t* current_input;
size_t current_size;
const char* artifact_prefix = "./";

void NoteOperand(uint64_t value) {
  if (value > 255) operands[next_operand++ % kOperands] = value;
}

}  // namespace

extern "C" {
void __sanitizer_cov_trace_pc() {
  const auto pc = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint8_t& count = edges[(pc ^ previous_edge << 3) % kEdges];
  if (count < 255) ++count;
  previous_edge = pc;
}
void __sanitizer_cov_trace_cmp1(uint8_t, uint8_t) {}
void __sanitizer_cov_trace_const_cmp1(uint8_t, uint8_t) {}
void __sanitizer_cov_trace_cmp2(uint16_t a, uint16_t b) { NoteOperand(a), NoteOperand(b); }
void __sanitizer_cov_trace_const_cmp2(uint16_t a, uint16_t) { NoteOperand(a); }
void __sanitizer_cov_trace_cmp4(uint32_t a, uint32_t b) { NoteOperand(a), NoteOperand(b); }
void __sanitizer_cov_trace_const_cmp4(uint32_t a, uint32_t) { NoteOperand(a); }
void __sanitizer_cov_trace_cmp8(uint64_t a, uint64_t b) { NoteOperand(a), NoteOperand(b); }
void __sanitizer_cov_trace_const_cmp8(uint64_t a, uint64_t) { NoteOperand(a); }
void __sanitizer_cov_trace_cmpf(float, float) {}
void __sanitizer_cov_trace_cmpd(double, double) {}
void __sanitizer_cov_trace_switch(uint64_t, void* cases) {
  const auto* values = static_cast<const uint64_t*>(cases);  // their number, their width, and they
  for (uint64_t i = 0; i < std::min<uint64_t>(values[0], 16); ++i) NoteOperand(values[2 + i]);
}
}

namespace {

uint64_t Hash(const uint8_t* data, size_t size) {  // FNV-1a
  uint64_t hash = 14695981039346656037ull;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ data[i]) * 1099511628211ull;
  return hash;
}

void KeepInput() {
  if (current_input == nullptr) return;
  char path[512];
  std::snprintf(path, sizeof path, "%scrash-%016llx", artifact_prefix,
                static_cast<unsigned long long>(Hash(current_input, current_size)));
  if (std::FILE* file = std::fopen(path, "wb")) {
    std::fwrite(current_input, 1, current_size, file);
    std::fclose(file);
    std::fprintf(stderr, "the input (%zu bytes) is in %s\n", current_size, path);
  }
  current_input = nullptr;
}

void OnSignal(int number) {
  std::fprintf(stderr, number == SIGALRM ? "an input took longer than %u s\n" : "ended by signal %u\n",
               number == SIGALRM ? kSlowSeconds : static_cast<unsigned>(number));
  KeepInput();
  std::_Exit(77);
}

struct Options {
  double seconds = 0;  // 0: no end
  uint64_t runs = 0;   // 0: no end
  size_t max_bytes = 4096;
  uint64_t seed = 1;
  std::vector<std::string> folders, files;
};

bool Take(const char* argument, const char* name, std::string* value) {
  const size_t length = std::strlen(name);
  if (std::strncmp(argument, name, length) != 0) return false;
  *value = argument + length;
  return true;
}

Options ReadOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string value;
    if (Take(argv[i], "-max_total_time=", &value)) {
      options.seconds = std::atof(value.c_str());
    } else if (Take(argv[i], "-runs=", &value)) {
      options.runs = std::strtoull(value.c_str(), nullptr, 10);
    } else if (Take(argv[i], "-max_len=", &value)) {
      options.max_bytes = std::strtoull(value.c_str(), nullptr, 10);
    } else if (Take(argv[i], "-seed=", &value)) {
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (Take(argv[i], "-artifact_prefix=", &value)) {
      artifact_prefix = argv[i] + std::strlen("-artifact_prefix=");
    } else if (argv[i][0] == '-') {
      std::fprintf(stderr, "no option %s\n", argv[i]);
      std::exit(2);
    } else if (std::filesystem::is_directory(argv[i])) {
      options.folders.push_back(argv[i]);
    } else {
      options.files.push_back(argv[i]);
    }
  }
  return options;
}

Bytes Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

class Fuzzer {
 public:
  explicit Fuzzer(const Options& options) : options_(options), random_(options.seed) {}

  void Run() {
    Add({});
    for (const std::string& folder : options_.folders) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file()) Add(Read(entry.path().string()));
      }
    }
    while (!Over()) {
      Bytes input = corpus_[Draw(corpus_.size())];
      for (size_t changes = 1 + Draw(6); changes-- > 0;) Change(input);
      if (input.size() > options_.max_bytes) input.resize(options_.max_bytes);
      if (Execute(input)) corpus_.push_back(std::move(input));
    }
    std::fprintf(stderr, "%llu runs in %.0f s, %zu edges, %zu inputs kept: nothing found\n",
                 static_cast<unsigned long long>(runs_), Seconds(), reached_, corpus_.size());
  }

  /// Whether the input reached something new.
  bool Execute(const Bytes& input) {
    ++runs_;
    std::memset(edges, 0, sizeof edges);
    previous_edge = 0;
    const Bytes copy = input;  // of its exact size, so that one byte past it is seen
    current_input = copy.data();
    current_size = copy.size();
    alarm(kSlowSeconds);
    LLVMFuzzerTestOneInput(copy.data(), copy.size());
    alarm(0);
    current_input = nullptr;
    bool fresh = false;
    for (size_t i = 0; i < kEdges; ++i) {
      if (edges[i] == 0) continue;
      const auto bucket = static_cast<uint8_t>(1 << BucketOf(edges[i]));
      if ((seen_[i] & bucket) != 0) continue;
      reached_ += seen_[i] == 0;
      seen_[i] |= bucket;
      fresh = true;
    }
    return fresh;
  }

 private:
  static int BucketOf(uint8_t count) {
    return count <= 3 ? count - 1 : count < 8 ? 3 : count < 16 ? 4 : count < 32 ? 5 : count < 128 ? 6 : 7;
  }

  void Add(Bytes input) {
    Execute(input);
    corpus_.push_back(std::move(input));
  }

  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  bool Over() const {
    if (options_.runs > 0 && runs_ >= options_.runs) return true;
    return options_.seconds > 0 && Seconds() >= options_.seconds;
  }

  size_t Draw(size_t below) { return below == 0 ? 0 : random_() % below; }

  void Change(Bytes& input) {
    const size_t at = Draw(input.size());
    switch (Draw(10)) {
      case 0:  // a bit
        if (!input.empty()) input[at] ^= static_cast<uint8_t>(1 << Draw(8));
        return;
      case 1:  // a byte
        if (!input.empty()) input[at] = static_cast<uint8_t>(random_());
        return;
      case 2: {  // a byte that is there already, most likely one of the format's
        if (!input.empty()) input[at] = input[Draw(input.size())];
        return;
      }
      case 3:  // cut out
        if (!input.empty()) input.erase(input.begin() + at, input.begin() + at + 1 + Draw(std::min<size_t>(input.size() - at, 64)));
        return;
      case 4:  // bytes in between
        input.insert(input.begin() + at, 1 + Draw(8), static_cast<uint8_t>(random_()));
        return;
      case 5:  // a piece of itself again
        Insert(input, at, input);
        return;
      case 6:  // a piece of another
        Insert(input, at, corpus_[Draw(corpus_.size())]);
        return;
      case 7:  // what the code compared something with
        PutOperand(input, at);
        return;
      case 8:
        PutNumber(input, at);
        return;
      default: {  // begin of one, end of another
        const Bytes& other = corpus_[Draw(corpus_.size())];
        input.resize(at);
        const size_t from = Draw(other.size());
        input.insert(input.end(), other.begin() + from, other.end());
      }
    }
  }

  void Insert(Bytes& input, size_t at, const Bytes& from) {
    if (from.empty()) return;
    const size_t begin = Draw(from.size()), count = 1 + Draw(std::min<size_t>(from.size() - begin, 128));
    const Bytes piece(from.begin() + begin, from.begin() + begin + count);
    input.insert(input.begin() + at, piece.begin(), piece.end());
  }

  void PutOperand(Bytes& input, size_t at) {
    const uint64_t value = operands[Draw(kOperands)] + Draw(3) - 1;
    const size_t width = size_t{1} << (1 + Draw(3));
    if (input.size() < at + width) input.resize(at + width);
    std::memcpy(input.data() + at, &value, width);
  }

  void PutNumber(Bytes& input, size_t at) {
    static constexpr const char* kNumbers[] = {"0", "-1", "1e308", "-0", "2147483648", "9223372036854775807", "18446744073709551616",
                                               "1e-400", "NaN", "0.1", "4294967295", "999999999999999999999999"};
    const char* number = kNumbers[Draw(std::size(kNumbers))];
    size_t end = at;
    while (end < input.size() && std::isdigit(input[end]) != 0) ++end;
    input.erase(input.begin() + at, input.begin() + end);
    input.insert(input.begin() + at, number, number + std::strlen(number));
  }

  const Options& options_;
  std::mt19937_64 random_;
  std::vector<Bytes> corpus_;
  std::vector<uint8_t> seen_ = std::vector<uint8_t>(kEdges);  // buckets of counts, a bit each
  size_t reached_ = 0;
  uint64_t runs_ = 0;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = ReadOptions(argc, argv);
  __sanitizer_set_death_callback(&KeepInput);
  signal(SIGABRT, &OnSignal);
  signal(SIGALRM, &OnSignal);
  Fuzzer fuzzer(options);
  if (options.files.empty() && options.seconds == 0 && options.runs == 0) {
    std::fprintf(stderr, "neither -max_total_time nor -runs nor files\n");
    return 2;
  }
  if (options.files.empty()) {
    fuzzer.Run();
  } else {
    for (const std::string& file : options.files) fuzzer.Execute(Read(file));
  }
  return 0;
}
