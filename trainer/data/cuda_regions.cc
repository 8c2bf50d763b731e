#include "trainer/data/cuda_regions.h"

#include <algorithm>
#include <cctype>

namespace hone::trainer {
namespace {

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// `text` with everything inside comments and literals blanked: same length, so that positions stay.
std::string WithoutLiterals(absl::string_view text) {
  std::string out(text.data(), text.size());
  const auto blank = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      if (out[i] != '\n') out[i] = ' ';
    }
  };
  for (size_t i = 0; i < text.size();) {
    const absl::string_view rest = text.substr(i);
    size_t end = i + 1;
    if (rest.substr(0, 2) == "//") {
      end = std::min(text.find('\n', i), text.size());
      blank(i, end);
    } else if (rest.substr(0, 2) == "/*") {
      const size_t close = text.find("*/", i + 2);
      end = close == absl::string_view::npos ? text.size() : close + 2;
      blank(i, end);
    } else if (text[i] == '"' ||
               (text[i] == '\'' && (i == 0 || !IsWord(text[i - 1])))) {  // not the apostrophe of "don't"
      while (end < text.size() && text[end] != text[i] && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end, text.size());
      blank(i + 1, end);
      if (end < text.size() && text[end] == text[i]) ++end;
    }
    i = end;
  }
  return out;
}

// Past the partner of the bracket at `open`; the end of the text when there is none.
size_t PastPartner(const std::string& code, size_t open) {
  const char up = code[open], down = up == '(' ? ')' : up == '{' ? '}' : up == '<' ? '>' : ']';
  int64_t depth = 0;
  for (size_t i = open; i < code.size(); ++i) {
    if (code[i] == up) ++depth;
    if (code[i] == down && --depth == 0) return i + 1;
  }
  return code.size();
}

size_t BackOverSpace(const std::string& code, size_t at) {
  while (at > 0 && std::isspace(static_cast<unsigned char>(code[at - 1])) != 0) --at;
  return at;
}

size_t BackOverWord(const std::string& code, size_t at) {
  while (at > 0 && IsWord(code[at - 1])) --at;
  return at;
}

// Where the template<...> that ends before `at` begins; `at` without one.
size_t BackOverTemplate(const std::string& code, size_t at) {
  const size_t end = BackOverSpace(code, at);
  if (end == 0 || code[end - 1] != '>') return at;
  int64_t depth = 0;
  for (size_t i = end; i-- > 0;) {
    if (code[i] == '>') ++depth;
    if (code[i] == '<' && --depth == 0) {
      const size_t word_end = BackOverSpace(code, i), word = BackOverWord(code, word_end);
      return code.compare(word, word_end - word, "template") == 0 && word_end > word ? word : at;
    }
  }
  return at;
}

// Past a function that starts with its qualifier: its body, or its semicolon.
size_t PastFunction(const std::string& code, size_t from) {
  for (size_t i = from; i < code.size(); ++i) {
    if (code[i] == '(') {
      i = PastPartner(code, i) - 1;
    } else if (code[i] == '{') {
      return PastPartner(code, i);
    } else if (code[i] == ';') {
      return i + 1;
    }
  }
  return code.size();
}

// The launch whose <<< is at `at`.
ByteRange Launch(const std::string& code, size_t at) {
  size_t begin = BackOverSpace(code, at);
  if (begin > 0 && code[begin - 1] == '>') {  // kernel<float><<<
    int64_t depth = 0;
    for (size_t i = begin; i-- > 0;) {
      if (code[i] == '>') ++depth;
      if (code[i] == '<' && --depth == 0) {
        begin = BackOverSpace(code, i);
        break;
      }
    }
  }
  begin = BackOverWord(code, begin);
  const size_t close = code.find(">>>", at + 3);
  if (close == std::string::npos) return {begin, code.size()};
  size_t end = close + 3;
  while (end < code.size() && std::isspace(static_cast<unsigned char>(code[end])) != 0) ++end;
  return {begin, end < code.size() && code[end] == '(' ? PastPartner(code, end) : close + 3};
}

// True where `word` stands at `at` and is no part of a longer one.
bool WordAt(const std::string& code, size_t at, const char* word, size_t length) {
  return code.compare(at, length, word) == 0 && (at == 0 || !IsWord(code[at - 1])) &&
         (at + length >= code.size() || !IsWord(code[at + length]));
}

}  // namespace

std::vector<ByteRange> CudaRegions(absl::string_view text) {
  const std::string code = WithoutLiterals(text);
  std::vector<ByteRange> regions;
  const auto add = [&](ByteRange range) {
    if (!regions.empty() && range.begin < regions.back().end) {
      regions.back().end = std::max(regions.back().end, range.end);
    } else {
      regions.push_back(range);
    }
    return regions.back().end;
  };
  for (size_t i = 0; i < code.size();) {
    if (WordAt(code, i, "__global__", 10) || WordAt(code, i, "__device__", 10)) {
      i = add({BackOverTemplate(code, i), PastFunction(code, i)});
    } else if (code.compare(i, 3, "<<<") == 0) {
      i = add(Launch(code, i));
    } else if (WordAt(code, i, "dim3", 4)) {
      const size_t end = code.find(';', i);
      i = add({i, end == std::string::npos ? code.size() : end + 1});
    } else {
      ++i;
    }
  }
  return regions;
}

std::vector<uint8_t> TokensIn(const std::vector<ByteRange>& regions, const std::vector<size_t>& ends) {
  std::vector<uint8_t> marks(ends.size(), 0);
  size_t region = 0, begin = 0;
  for (size_t t = 0; t < ends.size(); ++t) {
    while (region < regions.size() && regions[region].end <= begin) ++region;
    // A token without bytes of its own (half a character) goes with the byte that comes next.
    const size_t end = std::max(ends[t], begin + 1);
    marks[t] = region < regions.size() && regions[region].begin < end ? 1 : 0;
    begin = ends[t];
  }
  return marks;
}

}  // namespace hone::trainer
