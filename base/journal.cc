#include "base/journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strings.h"

namespace hone {
namespace {

constexpr int kCompressionLevel = 3;
constexpr size_t kReadBytes = 1 << 17;
constexpr size_t kMaxLineBytes = size_t{1} << 30;
/// Lines are held back until the checksum of their frame is seen; a frame that unpacks to more is passed on unchecked.
constexpr size_t kHeldBytes = size_t{64} << 20;
constexpr absl::string_view kMagic("\x28\xB5\x2F\xFD", 4);

std::string HeaderLine() { return absl::StrCat("{\"hone_journal\":", kJournalSchema, "}"); }

// ---- Frames. ----

struct DeleteCompressor {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};
struct DeleteDecompressor {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

absl::StatusOr<std::string> CompressFrame(absl::string_view bytes) {
  std::unique_ptr<ZSTD_CCtx, DeleteCompressor> context(ZSTD_createCCtx());
  if (context == nullptr) return absl::ResourceExhaustedError("no memory to compress");
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kCompressionLevel);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  std::string frame(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress2(context.get(), frame.data(), frame.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(size)) return absl::InternalError(absl::StrCat("compressing: ", ZSTD_getErrorName(size)));
  frame.resize(size);
  return frame;
}

/// Reads a file front to back and unpacks its frames, knowing where each begins.
class FrameReader {
 public:
  enum class Event {
    kBytes,     // unpacked bytes, inside a frame
    kFrameEnd,  // the same, and the frame they belong to is whole and its checksum right
    kEnd,       // end of the file, between frames
    kCut,       // end of the file inside a frame
    kCorrupt,   // bytes that are no frame, or a wrong checksum
  };

  FrameReader(int fd, int64_t offset) : fd_(fd), offset_(offset), context_(ZSTD_createDCtx()) {}

  /// The next event; `bytes` is valid until the next call.
  absl::StatusOr<Event> Next(absl::string_view& bytes) {
    while (true) {
      if (input_.pos == input_.size && !pending_output_) {
        HONE_RETURN_IF_ERROR(Fill());
        if (input_.size == 0) return in_frame_ ? Event::kCut : Event::kEnd;
      }
      if (!in_frame_) {
        frame_start_ = Position();
        in_frame_ = true;
      }
      ZSTD_outBuffer output = {unpacked_.data(), unpacked_.size(), 0};
      const size_t left = ZSTD_decompressStream(context_.get(), &output, &input_);
      if (ZSTD_isError(left)) return Event::kCorrupt;
      pending_output_ = output.pos == output.size && left != 0;
      bytes = absl::string_view(unpacked_.data(), output.pos);
      if (left == 0) {
        in_frame_ = false;
        return Event::kFrameEnd;
      }
      if (output.pos > 0) return Event::kBytes;
    }
  }

  /// Where the frame in progress, or the last one, starts; and where the reader stands.
  int64_t frame_start() const { return frame_start_; }
  int64_t Position() const { return offset_ - static_cast<int64_t>(input_.size - input_.pos); }

 private:
  absl::Status Fill() {
    ssize_t got;
    do {
      got = pread(fd_, packed_.data(), packed_.size(), offset_);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return ErrnoStatus(errno, "reading");
    offset_ += got;
    input_ = {packed_.data(), static_cast<size_t>(got), 0};
    return absl::OkStatus();
  }

  const int fd_;
  int64_t offset_;  // of the next read
  std::unique_ptr<ZSTD_DCtx, DeleteDecompressor> context_;
  std::array<char, kReadBytes> packed_;
  std::array<char, kReadBytes> unpacked_;
  ZSTD_inBuffer input_ = {nullptr, 0, 0};
  bool pending_output_ = false;
  bool in_frame_ = false;
  int64_t frame_start_ = 0;
};

using Event = FrameReader::Event;

/// Whether a whole frame stands anywhere after `offset`: then the damage at `offset` is in the middle of the file, else
/// it is what a crash left at the end.
absl::StatusOr<bool> WholeFrameAfter(int fd, int64_t offset) {
  std::string window;
  std::array<char, kReadBytes> buffer;
  for (int64_t at = offset;;) {
    const ssize_t got = pread(fd, buffer.data(), buffer.size(), at);
    if (got < 0) return ErrnoStatus(errno, "reading");
    if (got == 0) return false;
    window.append(buffer.data(), static_cast<size_t>(got));
    const int64_t window_start = at + got - static_cast<int64_t>(window.size());
    for (size_t found = window.find(kMagic.data(), 0, 4); found != std::string::npos;
         found = window.find(kMagic.data(), found + 1, 4)) {
      auto reader = std::make_unique<FrameReader>(fd, window_start + static_cast<int64_t>(found));
      absl::string_view bytes;
      while (true) {
        HONE_ASSIGN_OR_RETURN(const Event event, reader->Next(bytes));
        if (event == Event::kFrameEnd) return true;
        if (event != Event::kBytes) break;
      }
    }
    if (window.size() > 3) window.erase(0, window.size() - 3);
    at += got;
  }
}

absl::Status CorruptAt(const std::string& path, int64_t offset) {
  return absl::DataLossError(absl::StrCat(path, ": corrupt at byte ", offset, ", with intact records after it"));
}

std::string CutAt(const std::string& path, int64_t offset) {
  return absl::StrCat(path, ": cut inside the record at byte ", offset, "; it was dropped");
}

// ---- Lines. ----

/// Splits what it is given into lines and hands them on; recognises the header.
class LineSplitter {
 public:
  LineSplitter(const std::string& path, const std::function<absl::Status(absl::string_view)>& visit)
      : path_(path), visit_(visit) {}

  void Hold(absl::string_view bytes) { held_.append(bytes.data(), bytes.size()); }
  size_t held_bytes() const { return held_.size(); }
  void DropHeld() { held_.clear(); }
  int64_t lines() const { return lines_; }
  int64_t groups() const { return groups_; }

  /// Hands on every whole line of what is held.
  absl::Status Release() {
    size_t begin = 0;
    for (size_t end; (end = held_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      HONE_RETURN_IF_ERROR(Line(absl::string_view(held_).substr(begin, end - begin)));
    }
    held_.erase(0, begin);
    if (held_.size() > kMaxLineBytes) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": a line of more than ", kMaxLineBytes, " bytes"));
    }
    return absl::OkStatus();
  }

  /// A last line without its newline: whole when it is JSON. False when it was cut.
  absl::StatusOr<bool> ReleaseRest() {
    if (held_.empty()) return true;
    if (!nlohmann::json::accept(held_)) return false;
    HONE_RETURN_IF_ERROR(Line(held_));
    return true;
  }

 private:
  absl::Status Line(absl::string_view line) {
    ++lines_;
    if (line.empty() || line == "\r") return absl::OkStatus();
    if (!seen_first_) {
      seen_first_ = true;
      HONE_ASSIGN_OR_RETURN(const bool header, IsHeader(line));
      if (header) return absl::OkStatus();
    }
    ++groups_;
    return visit_(line);
  }

  absl::StatusOr<bool> IsHeader(absl::string_view line) const {
    const nlohmann::json json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
    if (!json.is_object()) return absl::InvalidArgumentError(absl::StrCat(path_, ": not a journal"));
    const auto schema = json.find("hone_journal");
    if (schema == json.end()) return false;
    if (!schema->is_number_integer() || *schema < 1 || *schema > kJournalSchema) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": journal schema ", schema->dump(),
                                                     "; this version reads schemas 1 to ", kJournalSchema));
    }
    return true;
  }

  const std::string& path_;
  const std::function<absl::Status(absl::string_view)>& visit_;
  std::string held_;
  bool seen_first_ = false;
  int64_t lines_ = 0;
  int64_t groups_ = 0;
};

/// Feeds the frames of a file to `lines`. Returns where it was cut, if it was.
absl::StatusOr<std::optional<int64_t>> ReadFrames(const std::string& path, int fd, LineSplitter& lines) {
  auto reader = std::make_unique<FrameReader>(fd, 0);
  while (true) {
    absl::string_view bytes;
    HONE_ASSIGN_OR_RETURN(const Event event, reader->Next(bytes));
    switch (event) {
      case Event::kBytes:
        lines.Hold(bytes);
        if (lines.held_bytes() > kHeldBytes) HONE_RETURN_IF_ERROR(lines.Release());
        break;
      case Event::kFrameEnd:
        lines.Hold(bytes);
        HONE_RETURN_IF_ERROR(lines.Release());
        break;
      case Event::kEnd:
        return std::nullopt;
      case Event::kCorrupt: {
        HONE_ASSIGN_OR_RETURN(const bool middle, WholeFrameAfter(fd, reader->frame_start() + 1));
        if (middle) return CorruptAt(path, reader->frame_start());
        [[fallthrough]];
      }
      case Event::kCut:
        lines.DropHeld();
        return reader->frame_start();
    }
  }
}

absl::Status ReadPlain(const std::string& path, int fd, LineSplitter& lines) {
  std::array<char, kReadBytes> buffer;
  while (true) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, absl::StrCat("reading ", path));
    if (got == 0) return absl::OkStatus();
    lines.Hold(absl::string_view(buffer.data(), static_cast<size_t>(got)));
    HONE_RETURN_IF_ERROR(lines.Release());
  }
}

/// The first bytes of the file, up to those of a frame's magic number.
absl::StatusOr<std::string> FirstBytes(const std::string& path, int fd) {
  std::string first(kMagic.size(), '\0');
  const ssize_t got = pread(fd, first.data(), first.size(), 0);
  if (got < 0) return ErrnoStatus(errno, absl::StrCat("reading ", path));
  first.resize(static_cast<size_t>(got));
  return first;
}

bool StartsLikeFrames(const std::string& first) { return first == kMagic.substr(0, first.size()); }

/// Where whole frames end in a file that a writer is to continue: 0 for a new one.
absl::StatusOr<int64_t> EndOfFrames(const std::string& path, int fd) {
  HONE_ASSIGN_OR_RETURN(const std::string first, FirstBytes(path, fd));
  if (!StartsLikeFrames(first)) return absl::InvalidArgumentError(absl::StrCat(path, ": exists and is not a journal"));
  const std::function<absl::Status(absl::string_view)> stop = [](absl::string_view) { return absl::OkStatus(); };
  LineSplitter header(path, stop);
  auto reader = std::make_unique<FrameReader>(fd, 0);
  int64_t end = 0;
  while (true) {
    absl::string_view bytes;
    HONE_ASSIGN_OR_RETURN(const Event event, reader->Next(bytes));
    if (event == Event::kEnd || event == Event::kCut) return end;
    if (event == Event::kCorrupt) {
      HONE_ASSIGN_OR_RETURN(const bool middle, WholeFrameAfter(fd, reader->frame_start() + 1));
      if (middle) return CorruptAt(path, reader->frame_start());
      return end;
    }
    if (end == 0) header.Hold(bytes);
    if (event != Event::kFrameEnd) continue;
    if (end == 0) HONE_RETURN_IF_ERROR(header.Release());
    end = reader->Position();
  }
}

}  // namespace

// ---- Writer. ----

absl::StatusOr<std::unique_ptr<FramedLineWriter>> FramedLineWriter::Open(const std::string& path,
                                                                          absl::string_view header) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd) return ErrnoStatus(errno, absl::StrCat("opening ", path));
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return absl::FailedPreconditionError(absl::StrCat(path, ": another writer has it open"));
    return ErrnoStatus(errno, absl::StrCat("locking ", path));
  }
  HONE_ASSIGN_OR_RETURN(const int64_t end, EndOfFrames(path, fd.get()));
  if (ftruncate(fd.get(), end) != 0) return ErrnoStatus(errno, absl::StrCat("cutting ", path));
  std::unique_ptr<FramedLineWriter> writer(new FramedLineWriter(AppendFile(path, std::move(fd), end)));
  if (end == 0) {
    HONE_RETURN_IF_ERROR(writer->Append(header));
    HONE_RETURN_IF_ERROR(writer->Sync());
    HONE_RETURN_IF_ERROR(SyncFolder(FolderOf(path)));
  }
  return writer;
}

absl::Status FramedLineWriter::Append(absl::string_view line) {
  HONE_ASSIGN_OR_RETURN(const std::string frame, CompressFrame(absl::StrCat(line, "\n")));
  return file_.Append(frame);
}

absl::Status FramedLineWriter::Sync() { return file_.Sync(); }

absl::StatusOr<std::unique_ptr<JournalWriter>> JournalWriter::Open(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<FramedLineWriter> lines, FramedLineWriter::Open(path, HeaderLine()));
  return std::unique_ptr<JournalWriter>(new JournalWriter(std::move(lines)));
}

absl::Status JournalWriter::Append(const Group& group) { return lines_->Append(GroupToJson(group)); }
absl::Status JournalWriter::Sync() { return lines_->Sync(); }

// ---- Reader. ----

absl::StatusOr<JournalReadResult> ReadJournalLines(const std::string& path,
                                                   const std::function<absl::Status(absl::string_view)>& visit) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return ErrnoStatus(errno, absl::StrCat("opening ", path));
  HONE_ASSIGN_OR_RETURN(const std::string first, FirstBytes(path, fd.get()));
  JournalReadResult result;
  LineSplitter lines(path, visit);
  if (StartsLikeFrames(first)) {
    HONE_ASSIGN_OR_RETURN(const std::optional<int64_t> cut, ReadFrames(path, fd.get(), lines));
    result.cut = cut.has_value() || first.empty();
    if (result.cut) result.warning = CutAt(path, cut.value_or(0));
  } else {
    HONE_RETURN_IF_ERROR(ReadPlain(path, fd.get(), lines));
  }
  HONE_ASSIGN_OR_RETURN(const bool whole, lines.ReleaseRest());
  if (!whole && lines.lines() == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": not a journal"));
  if (!whole) {
    result.cut = true;
    result.warning = absl::StrCat(path, ": cut inside line ", lines.lines() + 1, "; it was dropped");
  }
  result.groups = lines.groups();
  return result;
}

absl::StatusOr<JournalReadResult> ReadJournal(const std::string& path,
                                              const std::function<absl::Status(const Group&)>& visit) {
  int64_t groups = 0;
  return ReadJournalLines(path, [&](absl::string_view line) -> absl::Status {
    ++groups;
    absl::StatusOr<Group> group = GroupFromJson(line);
    if (!group.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": group ", groups, ": ", group.status().message()));
    }
    return visit(*group);
  });
}

}  // namespace hone
