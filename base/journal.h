#pragma once

// The journal of groups: JSON Lines in checksummed zstd frames, one frame an append, so that a file cut anywhere loads
// up to the cut. Nothing recorded is ever rewritten. The schema (docs/journal.md) is versioned by the first line of
// each file:
//   {"hone_journal": 1}

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/episode.h"
#include "base/file.h"

namespace hone {

inline constexpr int kJournalSchema = 1;

/// A JSON object, one line, without the newline; and back. Numbers come back to the bit, NaN and infinities included;
/// bytes that are not UTF-8 come back as U+FFFD. kInvalidArgument names the field. Absent fields get their defaults.
std::string GroupToJson(const Group& group);
absl::StatusOr<Group> GroupFromJson(absl::string_view line);
std::string VerdictToJson(const Verdict& verdict, int indent = -1);
absl::StatusOr<Verdict> VerdictFromJson(absl::string_view json);

/// Lines in frames as the journal has them, for files of other records beside it. One thread at a time.
class FramedLineWriter {
 public:
  /// Opens for appending, creating the file with `header` as its first line. A cut frame at the end is dropped first.
  /// Errors as of JournalWriter::Open.
  static absl::StatusOr<std::unique_ptr<FramedLineWriter>> Open(const std::string& path, absl::string_view header);

  /// One frame of one line, given without its newline. A failed append leaves nothing of itself behind.
  absl::Status Append(absl::string_view line);
  /// To disk.
  absl::Status Sync();

 private:
  explicit FramedLineWriter(AppendFile file) : file_(std::move(file)) {}

  AppendFile file_;
};

/// Appends whole frames; a failed append (disk full) leaves the file readable up to the previous one and says so, and
/// the next append may succeed. One thread at a time.
class JournalWriter {
 public:
  /// Opens for appending, creating the file with its header. A cut frame at the end is dropped first. Errors:
  /// kFailedPrecondition (another writer has it open), kInvalidArgument (some other file: left untouched), kDataLoss
  /// (broken in the middle: left untouched).
  static absl::StatusOr<std::unique_ptr<JournalWriter>> Open(const std::string& path);

  absl::Status Append(const Group& group);
  /// To disk: call before training on what was appended.
  absl::Status Sync();

 private:
  explicit JournalWriter(std::unique_ptr<FramedLineWriter> lines) : lines_(std::move(lines)) {}

  std::unique_ptr<FramedLineWriter> lines_;
};

struct JournalReadResult {
  int64_t groups = 0;
  bool cut = false;     // the file ended inside a record; what came before was delivered
  std::string warning;  // says where, when cut
};

/// Calls `visit` for each group in order, in constant memory, also while a writer has the file open. Reads plain JSON
/// Lines too, and both with or without the header line. Stops at the first error of `visit`.
/// kInvalidArgument: not a journal (names line and field), or of a newer schema. kDataLoss: corrupt in the middle; what
/// came before was delivered.
absl::StatusOr<JournalReadResult> ReadJournal(const std::string& path,
                                              const std::function<absl::Status(const Group&)>& visit);
/// The lines themselves, for readers that need few fields (the lab).
absl::StatusOr<JournalReadResult> ReadJournalLines(const std::string& path,
                                                   const std::function<absl::Status(absl::string_view)>& visit);

}  // namespace hone
