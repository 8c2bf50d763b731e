#include "rewards/lab/records.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/status_macros.h"
#include "rewards/lab/foreign.h"
#include "rewards/lab/journal_lines.h"

namespace hone::rewards {
namespace {

constexpr size_t kBatchBytes = size_t{4} << 20;
constexpr size_t kBatchesAhead = 4;

/// Lines of a file, packed so that one parser pass walks through memory in order.
struct LineBatch {
  std::string text;
  std::vector<std::pair<size_t, size_t>> lines;  // begin and size
};

/// Hands batches from the thread that reads to the thread that parses.
class BatchQueue {
 public:
  /// False: the other side has given up.
  bool Push(LineBatch batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return batches_.size() < kBatchesAhead || abandoned_; });
    if (abandoned_) return false;
    batches_.push_back(std::move(batch));
    changed_.notify_all();
    return true;
  }
  /// False: all batches were taken and Close was called.
  bool Pop(LineBatch& batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !batches_.empty() || closed_; });
    if (batches_.empty()) return false;
    batch = std::move(batches_.front());
    batches_.pop_front();
    changed_.notify_all();
    return true;
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  void Abandon() {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<LineBatch> batches_;
  bool closed_ = false;
  bool abandoned_ = false;
};

/// Reads a file's lines into the queue; runs on a thread of its own.
absl::StatusOr<JournalReadResult> FillQueue(const std::string& path, BatchQueue& queue) {
  LineBatch batch;
  const auto flush = [&] {
    batch.text.append(kLinePadding, '\0');
    return queue.Push(std::exchange(batch, LineBatch()));
  };
  absl::StatusOr<JournalReadResult> result = ReadJournalLines(path, [&](absl::string_view line) -> absl::Status {
    batch.lines.emplace_back(batch.text.size(), line.size());
    batch.text.append(line.data(), line.size());
    if (batch.text.size() < kBatchBytes || flush()) return absl::OkStatus();
    return absl::CancelledError("the reader has stopped");
  });
  if (result.ok() && !batch.lines.empty()) flush();
  queue.Close();
  return result;
}

/// Watches that figures of different devices or protocols do not meet, and counts.
class Gate {
 public:
  Gate(const ReadOptions& options, const std::function<absl::Status(LabGroup&&)>& visit, ReadSummary& summary)
      : options_(options), visit_(visit), summary_(summary) {}

  absl::Status Pass(LabGroup&& group) {
    if (!options_.device.empty() && !group.devices.empty() &&
        std::find(group.devices.begin(), group.devices.end(), options_.device) == group.devices.end()) {
      ++summary_.other_devices;
      return absl::OkStatus();
    }
    for (const std::string& device : group.devices) HONE_RETURN_IF_ERROR(Same("devices", device, summary_.device));
    for (const std::string& protocol : group.protocols)
      HONE_RETURN_IF_ERROR(Same("protocols", protocol, summary_.protocol));
    ++summary_.groups;
    summary_.episodes += static_cast<int64_t>(group.outcomes.size());
    summary_.emulated |= group.emulated;
    return visit_(std::move(group));
  }

 private:
  absl::Status Same(const char* what, const std::string& name, std::string& first) {
    if (first.empty()) first = name;
    if (name == first) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("passes of two ", what, " in one comparison, '", first, "' and '",
                                                      name, "': their speedups cannot be compared",
                                                      what[0] == 'd' ? "; choose one with --device" : ""));
  }

  const ReadOptions& options_;
  const std::function<absl::Status(LabGroup&&)>& visit_;
  ReadSummary& summary_;
};

/// Parses the lines of one file, whatever their format.
class LineConsumer {
 public:
  LineConsumer(const std::string& path, Gate& gate) : path_(path), gate_(gate) {}

  absl::Status Line(absl::string_view line) {
    if (records_++ == 0) format_ = FormatOfLine(line);
    const absl::Status status = Dispatch(line);
    // Errors of `visit` and of the gate are about more than this record.
    if (status.code() != absl::StatusCode::kInvalidArgument) return status;
    return absl::InvalidArgumentError(absl::StrCat(path_, ": record ", records_, ": ", status.message()));
  }

  absl::Status Finish(ReadSummary& summary) {
    if (format_ == LineFormat::kCudaL1) {
      summary.warnings.push_back(path_ + ": the speedups are their authors' claims, not measurements of ours");
    }
    if (without_candidate_ > 0) {
      summary.warnings.push_back(absl::StrCat(path_, ": ", without_candidate_, " of ", records_,
                                              " records have no candidate and were left out"));
    }
    return gym_.Finish([this](LabGroup&& group) { return gate_.Pass(std::move(group)); });
  }

 private:
  absl::Status Dispatch(absl::string_view line) {
    switch (format_) {
      case LineFormat::kJournal: {
        LabGroup group;
        HONE_RETURN_IF_ERROR(parser_.Parse(line, group));
        return gate_.Pass(std::move(group));
      }
      case LineFormat::kCudaL1: {
        LabGroup group;
        HONE_ASSIGN_OR_RETURN(const bool usable, ReadCudaL1Line(line, group));
        if (usable) return gate_.Pass(std::move(group));
        ++without_candidate_;
        return absl::OkStatus();
      }
      case LineFormat::kKernelGym:
        return gym_.Add(line);
      case LineFormat::kUnknown:
        break;
    }
    return absl::InvalidArgumentError("neither a journal nor results of KernelBench, KernelGYM or CUDA-L1");
  }

  const std::string& path_;
  Gate& gate_;
  JournalLineParser parser_;
  KernelGymReader gym_;
  LineFormat format_ = LineFormat::kUnknown;
  int64_t records_ = 0;
  int64_t without_candidate_ = 0;
};

/// KernelBench's results are one JSON object, pretty-printed or not, whose keys are problem numbers.
absl::StatusOr<bool> IsKernelBench(const std::string& path) {
  const bool json = path.size() > 5 && path.substr(path.size() - 5) == ".json";
  if (!json) return false;
  HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, int64_t{1} << 30));
  const size_t line_end = text.find('\n');
  return FormatOfLine(absl::string_view(text).substr(0, line_end)) == LineFormat::kUnknown;
}

absl::Status ReadLines(const std::string& path, Gate& gate, ReadSummary& summary) {
  BatchQueue queue;
  absl::StatusOr<JournalReadResult> read = absl::UnknownError("not read");
  std::thread reader([&] { read = FillQueue(path, queue); });
  LineConsumer consumer(path, gate);
  absl::Status status;
  LineBatch batch;
  while (status.ok() && queue.Pop(batch)) {
    for (const auto& [begin, size] : batch.lines) {
      status = consumer.Line(absl::string_view(batch.text).substr(begin, size));
      if (!status.ok()) break;
    }
  }
  queue.Abandon();
  reader.join();
  HONE_RETURN_IF_ERROR(status);
  HONE_RETURN_IF_ERROR(read.status());
  if (read->cut) summary.warnings.push_back(read->warning);
  return consumer.Finish(summary);
}

}  // namespace

absl::StatusOr<ReadSummary> ReadGroups(const std::vector<std::string>& paths, const ReadOptions& options,
                                       const std::function<absl::Status(LabGroup&&)>& visit) {
  ReadSummary summary;
  Gate gate(options, visit, summary);
  for (const std::string& path : paths) {
    HONE_ASSIGN_OR_RETURN(const bool kernelbench, IsKernelBench(path));
    if (kernelbench) {
      HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, int64_t{1} << 30));
      HONE_RETURN_IF_ERROR(
          ReadKernelBench(text, path, options, [&](LabGroup&& group) { return gate.Pass(std::move(group)); }));
    } else {
      HONE_RETURN_IF_ERROR(ReadLines(path, gate, summary));
    }
  }
  if (summary.episodes > 0) return summary;
  const std::string names = paths.empty() ? "no file" : paths.front();
  if (summary.other_devices > 0) {
    return absl::InvalidArgumentError(absl::StrCat(names, ": no episodes of device '", options.device, "' (",
                                                   summary.other_devices, " groups of others)"));
  }
  return absl::InvalidArgumentError(absl::StrCat(names, ": no episodes"));
}

}  // namespace hone::rewards
