#include "rollout/sampler/near_copies.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace hone::rollout {
namespace {

constexpr size_t kNeighbours = 3;

bool IsWordStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsNumber(const std::string& token) { return std::isdigit(static_cast<unsigned char>(token[0])) != 0; }

// A string literal that begins at `i`; its end.
size_t EndOfString(absl::string_view text, size_t i) {
  const char quote = text[i];
  const std::string triple(3, quote);
  if (text.substr(i, 3) == absl::string_view(triple)) {
    const size_t end = text.find(triple, i + 3);
    return end == absl::string_view::npos ? text.size() : end + 3;
  }
  for (++i; i < text.size() && text[i] != quote && text[i] != '\n'; ++i) i += text[i] == '\\' ? 1 : 0;
  return std::min(i + 1, text.size());
}

struct Token {
  std::string text;
  bool first = false;  // of its line
  int indent = 0;      // of its line
};

std::vector<Token> Tokens(absl::string_view text) {
  std::vector<Token> tokens;
  int indent = 0, depth = 0;
  bool first = true;
  const auto add = [&](std::string token) {
    tokens.push_back({std::move(token), first, indent});
    first = false;
  };
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\n') {
      first = first || depth == 0;
      if (depth == 0) indent = 0;
      ++i;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      indent += first && depth == 0 ? 1 : 0;
      ++i;
    } else if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '"' || c == '\'') {
      const size_t end = EndOfString(text, i);
      if (!first) add(std::string(text.substr(i, end - i)));  // a statement of its own is documentation
      i = end;
    } else if (IsWordStart(c) || std::isdigit(static_cast<unsigned char>(c)) != 0) {
      size_t end = i;
      const bool number = !IsWordStart(c);
      while (end < text.size() && (IsWord(text[end]) || (number && text[end] == '.'))) ++end;
      add(std::string(text.substr(i, end - i)));
      i = end;
    } else {
      depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
      add(std::string(1, c));
      ++i;
    }
  }
  return tokens;
}

// Without import lines and the annotations of `def`s.
std::vector<Token> Essential(const std::vector<Token>& tokens) {
  std::vector<Token> kept;
  for (size_t i = 0; i < tokens.size();) {
    const bool import = tokens[i].first && (tokens[i].text == "import" || tokens[i].text == "from");
    if (import) {
      for (++i; i < tokens.size() && !tokens[i].first;) ++i;
      continue;
    }
    if (!(tokens[i].first && tokens[i].text == "def")) {
      kept.push_back(tokens[i++]);
      continue;
    }
    bool annotated = false;
    int depth = 0;  // of brackets inside the parameter list
    kept.push_back(tokens[i++]);
    for (; i < tokens.size() && !tokens[i].first; ++i) {
      const std::string& text = tokens[i].text;
      if (depth == 1 && text == ":") annotated = true;
      if (depth == 1 && (text == "," || text == "=")) annotated = false;
      depth += text == "(" || text == "[" ? 1 : text == ")" || text == "]" ? -1 : 0;
      if (depth == 0 && text == ")") annotated = false;
      if (depth == 0 && text == "-") annotated = true;  // -> result
      if (depth == 0 && text == ":") annotated = false;
      if (!annotated) kept.push_back(tokens[i]);
    }
  }
  return kept;
}

bool IsPython(const std::string& word) {
  static const std::set<std::string> words = {
      "class", "def",   "return", "for",  "in",   "if",    "else",  "while", "not",  "and",   "or",    "is",     "None",
      "True",  "False", "lambda", "with", "self", "super", "range", "len",   "Model", "torch", "nn",   "F",      "forward",
      "int",   "float", "math",   "zip",  "list", "tuple", "get_inputs", "get_init_inputs", "__init__"};
  return words.count(word) > 0;
}

bool IsLocal(const std::vector<Token>& tokens, size_t i) {
  if (!IsWordStart(tokens[i].text[0]) || IsPython(tokens[i].text)) return false;
  if (i > 0 && tokens[i - 1].text == ".") return i > 1 && tokens[i - 2].text == "self";
  const bool keyword = i > 0 && i + 1 < tokens.size() && tokens[i + 1].text == "=" &&
                       (tokens[i - 1].text == "(" || tokens[i - 1].text == ",");
  if (!keyword) return true;
  size_t start = i;
  while (start > 0 && !tokens[start].first) --start;
  return tokens[start].text == "def";  // a keyword of a call is the library's name, a parameter is not
}

std::string Normalised(const std::vector<Token>& tokens) {
  std::map<std::string, std::string> names;
  std::vector<std::string> out;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string& text = tokens[i].text;
    if (IsNumber(text)) {
      out.push_back("0");
    } else if (IsLocal(tokens, i)) {
      out.push_back(names.emplace(text, absl::StrCat("v", names.size())).first->second);
    } else {
      out.push_back(text);
    }
  }
  return absl::StrJoin(out, " ");
}

// The tokens inside classes, without what every module has.
std::vector<std::string> Computation(const std::vector<Token>& tokens) {
  std::vector<std::string> out;
  bool inside = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].first && tokens[i].indent == 0) inside = tokens[i].text == "class";
    if (!inside) continue;
    const bool head = tokens[i].first && (tokens[i].text == "class" || tokens[i].text == "def" || tokens[i].text == "super");
    if (head) {
      while (i + 1 < tokens.size() && !tokens[i + 1].first) ++i;
      continue;
    }
    const std::string& text = tokens[i].text;
    out.push_back(IsNumber(text) ? "0" : IsLocal(tokens, i) ? "v" : text);
  }
  return out;
}

uint64_t Hash(const std::vector<std::string>& tokens, size_t begin, size_t end) {
  uint64_t hash = 1469598103934665603ull;  // FNV-1a: the same on every machine
  for (size_t t = begin; t < end; ++t) {
    for (const char c : tokens[t] + " ") hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  }
  return hash;
}

std::string Trimmed(absl::string_view text) {
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n')) lines.emplace_back(absl::StripTrailingAsciiWhitespace(line));
  return std::string(absl::StripAsciiWhitespace(absl::StrJoin(lines, "\n")));
}

}  // namespace

absl::string_view Name(CopyKind kind) {
  switch (kind) {
    case CopyKind::kNone:
      return "none";
    case CopyKind::kSimilar:
      return "similar";
    case CopyKind::kNormalised:
      return "normalised";
    case CopyKind::kExact:
      return "exact";
  }
  return "";
}

TaskPrint PrintOf(const std::string& id, absl::string_view module) {
  const std::vector<Token> tokens = Essential(Tokens(module));
  const std::vector<std::string> computation = Computation(tokens);
  TaskPrint print{id, Trimmed(module), Normalised(tokens), {}};
  const size_t last = computation.size() < kNeighbours ? std::min<size_t>(computation.size(), 1)
                                                       : computation.size() - kNeighbours + 1;
  for (size_t t = 0; t < last; ++t) {
    print.triples.push_back(Hash(computation, t, std::min(t + kNeighbours, computation.size())));
  }
  std::sort(print.triples.begin(), print.triples.end());
  print.triples.erase(std::unique(print.triples.begin(), print.triples.end()), print.triples.end());
  return print;
}

double Similarity(const TaskPrint& a, const TaskPrint& b) {
  if (a.triples.empty() && b.triples.empty()) return 1;
  std::vector<uint64_t> both;
  std::set_intersection(a.triples.begin(), a.triples.end(), b.triples.begin(), b.triples.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(a.triples.size() + b.triples.size() - both.size());
}

NearestTask Nearest(const TaskPrint& task, const std::vector<TaskPrint>& others, double threshold) {
  NearestTask nearest;
  for (size_t i = 0; i < others.size(); ++i) {
    NearestTask found{i, Similarity(task, others[i]), CopyKind::kNone};
    if (task.text == others[i].text) {
      found.kind = CopyKind::kExact;
    } else if (task.normalised == others[i].normalised) {
      found.kind = CopyKind::kNormalised;
    } else if (found.similarity >= threshold) {
      found.kind = CopyKind::kSimilar;
    }
    const bool nearer = found.kind != nearest.kind ? found.kind > nearest.kind : found.similarity > nearest.similarity;
    if (i == 0 || nearer) nearest = found;
  }
  return nearest;
}

}  // namespace hone::rollout
