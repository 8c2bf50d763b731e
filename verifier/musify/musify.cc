#include "verifier/musify/musify.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "verifier/build/cuda_source.h"
#include "verifier/musify/python_text.h"
#include "verifier/musify/table.h"

namespace hone::verifier {
namespace {

constexpr absl::string_view kImportLine = "import torch_musa\n";

struct Edit {
  size_t begin;
  size_t end;
  std::string text;
};

absl::string_view From(const MusifyRow& row, Direction direction) {
  return direction == Direction::kToMusa ? row.cuda : row.musa;
}
absl::string_view To(const MusifyRow& row, Direction direction) {
  return direction == Direction::kToMusa ? row.musa : row.cuda;
}

/// Whether a name begins as the row says.
bool Begins(const MusifyRow& row, absl::string_view prefix, absl::string_view name) {
  if (!absl::StartsWith(name, prefix)) return false;
  if (row.kind == MusifyKind::kStart) return true;
  if (row.kind != MusifyKind::kPrefix || name.size() == prefix.size()) return false;
  const auto next = static_cast<unsigned char>(name[prefix.size()]);
  return absl::ascii_isupper(next) || absl::ascii_isdigit(next);
}

/// The row of `kind` that fits a whole text.
const MusifyRow* RowOf(MusifyKind kind, absl::string_view text, Direction direction) {
  for (const MusifyRow& row : MusifyTable()) {
    if (row.kind != kind || (direction == Direction::kToCuda && !row.both_ways)) continue;
    if (From(row, direction) == text) return &row;
  }
  return nullptr;
}

std::optional<std::string> Renamed(MusifyKind kind, absl::string_view text, Direction direction) {
  const MusifyRow* row = RowOf(kind, text, direction);
  if (row == nullptr) return std::nullopt;
  return std::string(To(*row, direction));
}

/// The end of a file's name.
std::optional<std::string> WithExtension(absl::string_view path, Direction direction) {
  for (const MusifyRow& row : MusifyTable()) {
    if (row.kind != MusifyKind::kExtension || !absl::EndsWith(path, From(row, direction))) continue;
    return absl::StrCat(absl::StripSuffix(path, From(row, direction)), To(row, direction));
  }
  return std::nullopt;
}

std::string Apply(absl::string_view text, std::vector<Edit> edits) {
  std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);  // what is put in comes before what is replaced there
  });
  std::string result;
  size_t at = 0;
  for (const Edit& edit : edits) {
    absl::StrAppend(&result, text.substr(at, edit.begin - at), edit.text);
    at = edit.end;
  }
  absl::StrAppend(&result, text.substr(at));
  return result;
}

// ---- C++. ----

const MusifyGap* GapOf(absl::string_view token) {
  for (const MusifyGap& gap : MusifyGaps()) {
    if (gap.prefix ? absl::StartsWith(token, gap.name) : token == gap.name) return &gap;
  }
  return nullptr;
}

class CxxMusifier {
 public:
  CxxMusifier(absl::string_view text, Direction direction) : source_(text), direction_(direction) {}

  Musified Run() {
    for (const Directive& directive : source_.directives()) {
      if (absl::StartsWith(directive.name, "include")) Include(directive);
    }
    for (size_t i = 0; i < source_.tokens().size(); ++i) {
      const Token& token = source_.tokens()[i];
      const bool in_include =
          token.directive >= 0 &&
          absl::StartsWith(source_.directives()[static_cast<size_t>(token.directive)].name, "include");
      if (in_include) continue;
      if (token.kind == TokenKind::kIdentifier) Name(i);
      if (token.kind == TokenKind::kIdentifier || token.kind == TokenKind::kNumber) Look(i);
    }
    Musified result;
    result.replaced = static_cast<int>(edits_.size());
    result.text = Apply(source_.text(), std::move(edits_));
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const MusifyFinding& a, const MusifyFinding& b) { return a.line < b.line; });
    result.findings = std::move(findings_);
    return result;
  }

 private:
  void Include(const Directive& directive) {
    const absl::string_view text = absl::string_view(source_.text()).substr(0, directive.end);
    const size_t open = text.find_first_of("<\"", directive.begin);
    if (open == absl::string_view::npos) return;
    const size_t close = text.find(text[open] == '<' ? '>' : '"', open + 1);
    if (close == absl::string_view::npos) return;
    const absl::string_view path = text.substr(open + 1, close - open - 1);
    std::optional<std::string> renamed = Renamed(MusifyKind::kHeader, path, direction_);
    if (!renamed) renamed = WithExtension(path, direction_);
    if (renamed) return edits_.push_back({open + 1, close, *std::move(renamed)});
    if (direction_ != Direction::kToMusa) return;
    if (const MusifyGap* gap = GapOf(path); gap != nullptr) {
      findings_.push_back({directive.line, std::string(path), std::string(gap->why), gap->blocks});
    } else if (absl::StartsWith(path, "cuda") || absl::StartsWith(path, "ATen/cuda/") ||
               absl::StartsWith(path, "c10/cuda/")) {
      findings_.push_back({directive.line, std::string(path), "no MUSA header is known for it", true});
    }
  }

  void Name(size_t i) {
    const Token& token = source_.tokens()[i];
    const absl::string_view name = source_.Text(i);
    const bool qualified = (i > 0 && source_.Is(i - 1, "::")) || source_.Is(i + 1, "::");
    std::optional<std::string> renamed;
    if (qualified) renamed = Renamed(MusifyKind::kNamespace, name, direction_);
    if (!renamed) renamed = MusifiedIdentifier(name, direction_);
    if (*renamed != name) edits_.push_back({token.begin, token.end, *std::move(renamed)});
  }

  void Look(size_t i) {
    if (direction_ != Direction::kToMusa) return;
    const absl::string_view text = source_.Text(i);
    const MusifyGap* gap = GapOf(text);
    if (gap == nullptr) return;
    findings_.push_back({source_.tokens()[i].line, std::string(text), std::string(gap->why), gap->blocks});
  }

  const CudaSource source_;
  const Direction direction_;
  std::vector<Edit> edits_;
  std::vector<MusifyFinding> findings_;
};

// ---- Python. ----

/// A string of several lines that is C++: the sources that a module hands to load_inline.
bool IsCxx(absl::string_view text) {
  if (!absl::StrContains(text, "\n")) return false;
  for (const char* sign : {"__global__", "#include", "torch::Tensor", "at::Tensor", "__device__"}) {
    if (absl::StrContains(text, sign)) return true;
  }
  return false;
}

class PythonMusifier {
 public:
  PythonMusifier(absl::string_view text, Direction direction)
      : text_(text), direction_(direction), tokens_(ReadPython(text)) {}

  Musified Run() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].kind == PythonToken::Kind::kString) String(tokens_[i]);
      if (tokens_[i].kind == PythonToken::Kind::kOther) Bracket(text_[tokens_[i].begin]);
      if (tokens_[i].kind == PythonToken::Kind::kName) i = Name(i);
    }
    Import();
    Musified result;
    result.replaced = replaced_;
    result.text = Apply(text_, std::move(edits_));
    result.findings = std::move(findings_);
    return result;
  }

 private:
  absl::string_view Text(size_t i) const {
    return i < tokens_.size() ? text_.substr(tokens_[i].begin, tokens_[i].end - tokens_[i].begin) : absl::string_view();
  }
  bool IsName(size_t i) const { return i < tokens_.size() && tokens_[i].kind == PythonToken::Kind::kName; }

  void Bracket(char c) {
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if (c == ')' || c == ']' || c == '}') --depth_;
  }

  void Replace(size_t begin, size_t end, std::string text) {
    edits_.push_back({begin, end, std::move(text)});
    ++replaced_;
  }

  void String(const PythonToken& token) {
    const absl::string_view text = text_.substr(token.begin, token.end - token.begin);
    const absl::string_view kind = text.substr(0, text.find(':'));
    const absl::string_view index = text.substr(kind.size());
    const bool is_device =
        index.empty() || (index.size() > 1 && index.find_first_not_of("0123456789", 1) == index.npos);
    if (const auto renamed = Renamed(MusifyKind::kDevice, kind, direction_); renamed && is_device) {
      return Replace(token.begin, token.begin + kind.size(), *renamed);
    }
    if (!IsCxx(text)) return;
    Musified inner = Musify(text, Language::kCxx, direction_);
    for (MusifyFinding& finding : inner.findings) {
      finding.line += token.line - 1;
      findings_.push_back(std::move(finding));
    }
    if (inner.replaced == 0) return;
    edits_.push_back({token.begin, token.end, std::move(inner.text)});
    replaced_ += inner.replaced;
  }

  /// Token `i` and the dotted names behind it; the last token that was read.
  size_t Name(size_t i) {
    size_t last = i;
    while (Text(last + 1) == "." && IsName(last + 2) && tokens_[last + 2].line == tokens_[last].line) last += 2;
    for (size_t end = last;; end -= 2) {  // the longest that the table has
      const absl::string_view dotted = text_.substr(tokens_[i].begin, tokens_[end].end - tokens_[i].begin);
      if (const auto renamed = Renamed(MusifyKind::kPythonName, dotted, direction_)) {
        Replace(tokens_[i].begin, tokens_[end].end, *renamed);
        i = end + 1;
        break;
      }
      if (end == i) break;
    }
    for (size_t k = i; k <= last; ++k) {
      if (!IsName(k)) continue;
      const bool is_member = k > 0 && Text(k - 1) == ".";
      const bool is_argument = depth_ > 0 && Text(k + 1) == "=" && Text(k + 2) != "=";
      if (!is_member && !is_argument && !IsUpper(Text(k))) continue;
      if (const auto renamed = Renamed(MusifyKind::kPythonWord, Text(k), direction_)) {
        Replace(tokens_[k].begin, tokens_[k].end, *renamed);
      }
    }
    return last;
  }

  /// CUDAExtension, CUDA_HOME: names that are imported and used bare.
  static bool IsUpper(absl::string_view name) {
    return !name.empty() && absl::ascii_isupper(static_cast<unsigned char>(name[0]));
  }

  /// Whether token `i` stands at the very start of a line.
  bool StartsLine(size_t i) const { return tokens_[i].begin == 0 || text_[tokens_[i].begin - 1] == '\n'; }

  /// Whether token `i` begins a line that is kImportLine and nothing else.
  bool IsImportLine(size_t i) const {
    return Text(i) == "import" && StartsLine(i) && absl::StartsWith(text_.substr(tokens_[i].begin), kImportLine);
  }

  void Import() {
    bool has = false;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (!IsImportLine(i)) continue;
      has = true;
      if (direction_ == Direction::kToCuda) Replace(tokens_[i].begin, tokens_[i].begin + kImportLine.size(), "");
    }
    if (direction_ == Direction::kToCuda || has || replaced_ == 0) return;
    const size_t import = TorchImport();
    if (import == tokens_.size()) return;
    const size_t end = StatementEnd(import);
    if (end < text_.size()) Replace(end + 1, end + 1, std::string(kImportLine));
  }

  /// The first token of an `import torch` that is in no block; where there is none, of another import of torch.
  size_t TorchImport() const {
    size_t other = tokens_.size();
    for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
      if (!StartsLine(i) || Text(i + 1) != "torch") continue;
      if (Text(i) == "import" && Text(i + 2) != ".") return i;
      if (other == tokens_.size() && (Text(i) == "import" || Text(i) == "from")) other = i;
    }
    return other;
  }

  /// The end of the line on which the statement of token `i` ends: behind its brackets, strings and continued lines.
  size_t StatementEnd(size_t i) const {
    int depth = 0;
    for (;; ++i) {
      const absl::string_view text = tokens_[i].kind == PythonToken::Kind::kOther ? Text(i) : "";
      if (text == "(" || text == "[" || text == "{") ++depth;
      if (text == ")" || text == "]" || text == "}") --depth;
      const size_t end = text_.find('\n', tokens_[i].end);
      if (end == absl::string_view::npos) return end;
      const bool goes_on = depth > 0 || text == "\\" || (i + 1 < tokens_.size() && tokens_[i + 1].begin <= end);
      if (!goes_on || i + 1 == tokens_.size()) return end;
    }
  }

  const absl::string_view text_;
  const Direction direction_;
  const std::vector<PythonToken> tokens_;
  std::vector<Edit> edits_;
  std::vector<MusifyFinding> findings_;
  int replaced_ = 0;
  int depth_ = 0;  // of brackets
};

}  // namespace

Musified Musify(absl::string_view text, Language language, Direction direction) {
  return language == Language::kCxx ? CxxMusifier(text, direction).Run() : PythonMusifier(text, direction).Run();
}

std::string MusifiedName(absl::string_view path, Direction direction) {
  return WithExtension(path, direction).value_or(std::string(path));
}

std::string MusifiedIdentifier(absl::string_view name, Direction direction) {
  if (auto renamed = Renamed(MusifyKind::kName, name, direction)) return *std::move(renamed);
  for (const MusifyRow& row : MusifyTable()) {
    if (direction == Direction::kToCuda && !row.both_ways) continue;
    const absl::string_view prefix = From(row, direction);
    if (Begins(row, prefix, name)) return absl::StrCat(To(row, direction), name.substr(prefix.size()));
  }
  return std::string(name);
}

}  // namespace hone::verifier
