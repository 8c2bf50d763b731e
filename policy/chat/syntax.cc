#include "policy/chat/syntax.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "policy/tokenizer/unicode.h"

namespace hone::policy::chat {
namespace {

constexpr int kDepthLimit = 150;  // of nested expressions and blocks: what recursion over them may need of the stack

struct Token {
  enum class Kind { kText, kOutputBegin, kOutputEnd, kTagBegin, kTagEnd, kName, kInteger, kFloat, kString, kOperator, kEnd };
  Kind kind;
  std::string text;
  int line;
};

absl::Status Wrong(int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
}

/// Cuts a template into text and the tokens inside {{ }} and {% %}, with Jinja's rules of white space.
class Lexer {
 public:
  explicit Lexer(const std::string& source) : source_(absl::StrReplaceAll(source, {{"\r\n", "\n"}, {"\r", "\n"}})) {
    if (!source_.empty() && source_.back() == '\n') source_.pop_back();  // as Jinja does
  }
  absl::StatusOr<std::vector<Token>> Run();

 private:
  bool At(absl::string_view text) const { return absl::string_view(source_).substr(at_, text.size()) == text; }
  void Add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
  void Advance(size_t count) {
    for (; count > 0 && at_ < source_.size(); --count) line_ += source_[at_++] == '\n';
  }
  absl::Status Comment();
  absl::Status Inside(bool is_tag);
  absl::Status String(char quote);
  void Number();
  void Text();
  void Close(bool is_tag);

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool trim_newline_ = false;  // the text that follows starts behind a tag
  bool trim_all_ = false;      // .. behind a "-%}"
  std::vector<Token> tokens_;
};

void Lexer::Text() {
  size_t end = at_;
  while (end < source_.size() && !(source_[end] == '{' && end + 1 < source_.size() &&
                                   (source_[end + 1] == '{' || source_[end + 1] == '%' || source_[end + 1] == '#'))) {
    ++end;
  }
  std::string text = source_.substr(at_, end - at_);
  const bool starts_line = at_ == 0 || source_[at_ - 1] == '\n';
  if (trim_all_) {
    text.erase(0, std::min(text.size(), text.find_first_not_of(" \t\n\r\f\v")));
  } else if (trim_newline_ && !text.empty()) {
    text.erase(0, text[0] == '\n' ? 1 : 0);
  }
  const bool trimmed_newline = trim_newline_ && text.size() < end - at_;
  const char mark = end + 2 < source_.size() ? source_[end + 2] : '\0';
  if (mark == '-') {
    text.erase(text.find_last_not_of(" \t\n\r\f\v") + 1);
  } else if (end < source_.size() && source_[end + 1] != '{' && mark != '+') {  // a block takes the blanks before it along
    const size_t last = text.find_last_not_of(" \t");
    const bool only_blanks = last == std::string::npos ? starts_line || trimmed_newline : text[last] == '\n';
    if (only_blanks) text.erase(last == std::string::npos ? 0 : last + 1);
  }
  trim_all_ = trim_newline_ = false;
  if (!text.empty()) Add(Token::Kind::kText, text);
  Advance(end - at_);
}

absl::Status Lexer::Comment() {
  const size_t end = source_.find("#}", at_ + 2);
  if (end == std::string::npos) return Wrong(line_, "a comment is not closed");
  trim_all_ = source_[end - 1] == '-';
  trim_newline_ = source_[end - 1] != '+';
  Advance(end + 2 - at_);
  return absl::OkStatus();
}

absl::Status Lexer::String(char quote) {
  std::string text;
  const int line = line_;
  for (Advance(1); at_ < source_.size() && source_[at_] != quote; Advance(1)) {
    if (source_[at_] != '\\' || at_ + 1 == source_.size()) {
      text += source_[at_];
      continue;
    }
    Advance(1);
    switch (source_[at_]) {
      case 'n': text += '\n'; break;
      case 't': text += '\t'; break;
      case 'r': text += '\r'; break;
      case 'u': {
        uint32_t code = 0;
        if (at_ + 4 >= source_.size() || !absl::SimpleHexAtoi(source_.substr(at_ + 1, 4), &code)) {
          return Wrong(line_, "\\u needs four hexadecimal digits");
        }
        AppendChar(static_cast<char32_t>(code), text);
        Advance(4);
        break;
      }
      case '\\':
      case '\'':
      case '"': text += source_[at_]; break;
      default: text += {'\\', source_[at_]};
    }
  }
  if (at_ >= source_.size()) return Wrong(line, "a string is not closed");
  Advance(1);
  Add(Token::Kind::kString, text);
  return absl::OkStatus();
}

void Lexer::Number() {
  size_t end = at_;
  bool real = false;
  while (end < source_.size() && (absl::ascii_isdigit(source_[end]) || source_[end] == '_')) ++end;
  if (end + 1 < source_.size() && source_[end] == '.' && absl::ascii_isdigit(source_[end + 1])) {
    real = true;
    for (++end; end < source_.size() && absl::ascii_isdigit(source_[end]);) ++end;
  }
  if (end < source_.size() && absl::ascii_tolower(source_[end]) == 'e') {
    size_t digits = end + 1;
    if (digits < source_.size() && (source_[digits] == '+' || source_[digits] == '-')) ++digits;
    if (digits < source_.size() && absl::ascii_isdigit(source_[digits])) {
      real = true;
      for (end = digits; end < source_.size() && absl::ascii_isdigit(source_[end]);) ++end;
    }
  }
  std::string text = source_.substr(at_, end - at_);
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  Add(real ? Token::Kind::kFloat : Token::Kind::kInteger, text);
  Advance(end - at_);
}

void Lexer::Close(bool is_tag) {
  trim_all_ = source_[at_] == '-';
  trim_newline_ = is_tag && source_[at_] != '+';
  Advance(source_[at_] == '-' || source_[at_] == '+' ? 3 : 2);
  Add(is_tag ? Token::Kind::kTagEnd : Token::Kind::kOutputEnd, "");
}

absl::Status Lexer::Inside(bool is_tag) {
  const int line = line_;
  Add(is_tag ? Token::Kind::kTagBegin : Token::Kind::kOutputBegin, "");
  Advance(2);
  if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) Advance(1);
  int open = 0;  // brackets: "}}" inside a dict closes nothing
  while (at_ < source_.size()) {
    const char c = source_[at_];
    const absl::string_view end = is_tag ? "%}" : "}}";
    if (open == 0 && (At(end) || ((c == '-' || (c == '+' && is_tag)) && absl::string_view(source_).substr(at_ + 1, 2) == end))) {
      Close(is_tag);
      return absl::OkStatus();
    }
    if (absl::ascii_isspace(c)) {
      Advance(1);
    } else if (c == '\'' || c == '"') {
      HONE_RETURN_IF_ERROR(String(c));
    } else if (absl::ascii_isdigit(c)) {
      Number();
    } else if (absl::ascii_isalpha(c) || c == '_') {
      size_t stop = at_;
      while (stop < source_.size() && (absl::ascii_isalnum(source_[stop]) || source_[stop] == '_')) ++stop;
      Add(Token::Kind::kName, source_.substr(at_, stop - at_));
      Advance(stop - at_);
    } else {
      open += c == '(' || c == '[' || c == '{';
      open -= c == ')' || c == ']' || c == '}';
      const absl::string_view two = absl::string_view(source_).substr(at_, 2);
      constexpr absl::string_view kTwo[] = {"==", "!=", "<=", ">=", "//", "**"};
      const bool is_two = std::find(std::begin(kTwo), std::end(kTwo), two) != std::end(kTwo);
      Add(Token::Kind::kOperator, std::string(two.substr(0, is_two ? 2 : 1)));
      Advance(is_two ? 2 : 1);
    }
  }
  return Wrong(line, is_tag ? "{% is not closed" : "{{ is not closed");
}

absl::StatusOr<std::vector<Token>> Lexer::Run() {
  while (at_ < source_.size()) {
    Text();
    if (at_ >= source_.size()) break;
    if (At("{#")) {
      HONE_RETURN_IF_ERROR(Comment());
    } else {
      HONE_RETURN_IF_ERROR(Inside(At("{%")));
    }
  }
  Add(Token::Kind::kEnd, "");
  return std::move(tokens_);
}

/// Recursive descent, in Jinja's own order of precedence.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  absl::StatusOr<Block> Run();

 private:
  using Kind = Expression::Kind;
  using Expr = absl::StatusOr<ExpressionPtr>;

  const Token& Peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool Is(Token::Kind kind, absl::string_view text = "") const {
    return Peek().kind == kind && (text.empty() || Peek().text == text);
  }
  bool IsOperator(absl::string_view text) const { return Is(Token::Kind::kOperator, text); }
  bool IsWord(absl::string_view text) const { return Is(Token::Kind::kName, text); }
  bool Take(Token::Kind kind, absl::string_view text) {
    if (!Is(kind, text)) return false;
    ++at_;
    return true;
  }
  bool TakeOperator(absl::string_view text) { return Take(Token::Kind::kOperator, text); }
  bool TakeWord(absl::string_view text) { return Take(Token::Kind::kName, text); }
  absl::Status Error(absl::string_view what) const { return Wrong(Peek().line, what); }
  absl::Status Need(Token::Kind kind, absl::string_view text, absl::string_view what);
  absl::StatusOr<std::string> Name();

  ExpressionPtr Make(Kind kind, std::string text = "") const {
    auto made = std::make_unique<Expression>();
    made->kind = kind;
    made->line = Peek().line;
    made->text = std::move(text);
    return made;
  }

  /// Hangs `child`, which may be null, below `parent`.
  static void Hang(Expression& parent, ExpressionPtr child) {
    if (child != nullptr) parent.depth = std::max(parent.depth, child->depth + 1);
    parent.children.push_back(std::move(child));
  }

  Expr Whole();  // an expression with the depth guarded
  Expr Conditional();
  Expr Or();
  Expr And();
  Expr Not();
  Expr Compare();
  Expr Sum();
  Expr Concat();
  Expr Product();
  Expr Power();
  Expr Unary();
  Expr Signed();
  Expr Primary();
  Expr Postfix(ExpressionPtr of);
  Expr Subscript(ExpressionPtr of);
  Expr Filters(ExpressionPtr of);
  Expr Test(ExpressionPtr of);
  Expr LeftToRight(Expr (Parser::*next)(), std::initializer_list<absl::string_view> operators);
  absl::Status Arguments(Expression& call);
  absl::Status Items(absl::string_view close, Expression& into, bool& had_comma);

  absl::StatusOr<Block> Body(std::initializer_list<absl::string_view> ends);
  absl::StatusOr<std::unique_ptr<Statement>> Tag();
  absl::Status If(Statement& made);
  absl::Status For(Statement& made);
  absl::Status Set(Statement& made);
  absl::Status Macro(Statement& made);
  absl::Status TagEnd() { return Need(Token::Kind::kTagEnd, "", "the tag has more than hone understands"); }
  absl::Status CloseTag(absl::string_view word);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

absl::Status Parser::Need(Token::Kind kind, absl::string_view text, absl::string_view what) {
  if (!Is(kind, text)) return Error(absl::StrCat(what, Peek().text.empty() ? "" : ", near '", Peek().text, Peek().text.empty() ? "" : "'"));
  ++at_;
  return absl::OkStatus();
}

absl::StatusOr<std::string> Parser::Name() {
  if (Peek().kind != Token::Kind::kName) return Error("a name is missing");
  return tokens_[at_++].text;
}

Parser::Expr Parser::Whole() {
  if (++depth_ > kDepthLimit) return Error("is nested too deep");
  Expr made = Conditional();
  --depth_;
  if (made.ok() && (*made)->depth > kDepthLimit) return Error("is nested too deep");
  return made;
}

Parser::Expr Parser::Conditional() {
  HONE_ASSIGN_OR_RETURN(ExpressionPtr value, Or());
  while (IsWord("if") && value->depth <= kDepthLimit) {
    ExpressionPtr made = Make(Kind::kConditional);
    ++at_;
    HONE_ASSIGN_OR_RETURN(ExpressionPtr condition, Or());
    ExpressionPtr otherwise;
    if (TakeWord("else")) {
      HONE_ASSIGN_OR_RETURN(otherwise, Whole());
    }
    Hang(*made, std::move(value));
    Hang(*made, std::move(condition));
    Hang(*made, std::move(otherwise));
    value = std::move(made);
  }
  return value;
}

Parser::Expr Parser::LeftToRight(Expr (Parser::*next)(), std::initializer_list<absl::string_view> operators) {
  HONE_ASSIGN_OR_RETURN(ExpressionPtr left, (this->*next)());
  while (true) {
    if (left->depth > kDepthLimit) return Error("has too long a chain of operators");
    const bool word = Peek().kind == Token::Kind::kName, sign = Peek().kind == Token::Kind::kOperator;
    if ((!word && !sign) || std::find(operators.begin(), operators.end(), Peek().text) == operators.end()) return left;
    ExpressionPtr made = Make(Kind::kBinary, Peek().text);
    ++at_;
    HONE_ASSIGN_OR_RETURN(ExpressionPtr right, (this->*next)());
    Hang(*made, std::move(left));
    Hang(*made, std::move(right));
    left = std::move(made);
  }
}

Parser::Expr Parser::Or() { return LeftToRight(&Parser::And, {"or"}); }
Parser::Expr Parser::And() { return LeftToRight(&Parser::Not, {"and"}); }
Parser::Expr Parser::Sum() { return LeftToRight(&Parser::Concat, {"+", "-"}); }
Parser::Expr Parser::Concat() { return LeftToRight(&Parser::Product, {"~"}); }
Parser::Expr Parser::Product() { return LeftToRight(&Parser::Power, {"*", "/", "//", "%"}); }
Parser::Expr Parser::Power() { return LeftToRight(&Parser::Unary, {"**"}); }

Parser::Expr Parser::Not() {
  if (!IsWord("not")) return Compare();
  if (++depth_ > kDepthLimit) return Error("is nested too deep");
  ExpressionPtr made = Make(Kind::kUnary, "not");
  ++at_;
  HONE_ASSIGN_OR_RETURN(ExpressionPtr child, Not());
  Hang(*made, std::move(child));
  --depth_;
  return made;
}

/// a < b < c is (a < b) and (b < c), but templates do not write it; only pairs are taken.
Parser::Expr Parser::Compare() {
  HONE_ASSIGN_OR_RETURN(ExpressionPtr left, Sum());
  while (true) {
    if (left->depth > kDepthLimit) return Error("has too long a chain of operators");
    std::string sign;
    if (IsWord("not") && Peek(1).kind == Token::Kind::kName && Peek(1).text == "in") {
      sign = "not in";
    } else if (IsWord("in") || IsOperator("==") || IsOperator("!=") || IsOperator("<") || IsOperator("<=") || IsOperator(">") ||
               IsOperator(">=")) {
      sign = Peek().text;
    } else {
      return left;
    }
    ExpressionPtr made = Make(Kind::kBinary, sign);
    at_ += sign == "not in" ? 2 : 1;
    HONE_ASSIGN_OR_RETURN(ExpressionPtr right, Sum());
    Hang(*made, std::move(left));
    Hang(*made, std::move(right));
    left = std::move(made);
  }
}

Parser::Expr Parser::Unary() {
  HONE_ASSIGN_OR_RETURN(ExpressionPtr value, Signed());
  return Filters(std::move(value));
}

/// -x|f is (-x)|f.
Parser::Expr Parser::Signed() {
  if (IsOperator("-") || IsOperator("+")) {
    if (++depth_ > kDepthLimit) return Error("is nested too deep");
    ExpressionPtr made = Make(Kind::kUnary, Peek().text);
    ++at_;
    HONE_ASSIGN_OR_RETURN(ExpressionPtr child, Signed());
    Hang(*made, std::move(child));
    --depth_;
    return made;
  }
  HONE_ASSIGN_OR_RETURN(ExpressionPtr primary, Primary());
  return Postfix(std::move(primary));
}

absl::Status Parser::Items(absl::string_view close, Expression& into, bool& had_comma) {
  while (!TakeOperator(close)) {
    HONE_ASSIGN_OR_RETURN(ExpressionPtr item, Whole());
    Hang(into, std::move(item));
    if (TakeOperator(",")) {
      had_comma = true;
    } else if (!IsOperator(close)) {
      return Error(absl::StrCat("'", close, "' is missing"));
    }
  }
  return absl::OkStatus();
}

Parser::Expr Parser::Primary() {
  const Token token = Peek();
  ExpressionPtr made = Make(Kind::kLiteral);
  bool had_comma = false;
  ++at_;
  switch (token.kind) {
    case Token::Kind::kString: {
      std::string text = token.text;
      while (Peek().kind == Token::Kind::kString) text += tokens_[at_++].text;  // neighbours are one string
      made->literal = text;
      return made;
    }
    case Token::Kind::kInteger: {
      int64_t number = 0;
      if (!absl::SimpleAtoi(token.text, &number)) return Error(absl::StrCat("number ", token.text, " is too large"));
      made->literal = number;
      return made;
    }
    case Token::Kind::kFloat: made->literal = std::strtod(token.text.c_str(), nullptr); return made;
    case Token::Kind::kName:
      if (token.text == "true" || token.text == "True") {
        made->literal = true;
      } else if (token.text == "false" || token.text == "False") {
        made->literal = false;
      } else if (token.text == "none" || token.text == "None") {
        made->literal = None{};
      } else {
        made->kind = Kind::kName;
        made->text = token.text;
      }
      return made;
    default: break;
  }
  if (token.kind == Token::Kind::kOperator && token.text == "(") {
    HONE_RETURN_IF_ERROR(Items(")", *made, had_comma));
    if (made->children.size() == 1 && !had_comma) return std::move(made->children[0]);
    made->kind = Kind::kList;  // a tuple: templates only iterate or test membership
    return made;
  }
  if (token.kind == Token::Kind::kOperator && token.text == "[") {
    made->kind = Kind::kList;
    HONE_RETURN_IF_ERROR(Items("]", *made, had_comma));
    return made;
  }
  if (token.kind == Token::Kind::kOperator && token.text == "{") {
    made->kind = Kind::kDict;
    while (!TakeOperator("}")) {
      HONE_ASSIGN_OR_RETURN(ExpressionPtr key, Whole());
      HONE_RETURN_IF_ERROR(Need(Token::Kind::kOperator, ":", "a dict needs ':'"));
      HONE_ASSIGN_OR_RETURN(ExpressionPtr value, Whole());
      Hang(*made, std::move(key));
      Hang(*made, std::move(value));
      if (!TakeOperator(",") && !IsOperator("}")) return Error("'}' is missing");
    }
    return made;
  }
  --at_;
  return Error(absl::StrCat("an expression is missing", token.text.empty() ? "" : ", near '", token.text,
                            token.text.empty() ? "" : "'"));
}

absl::Status Parser::Arguments(Expression& call) {
  while (!TakeOperator(")")) {
    Argument& argument = call.arguments.emplace_back();
    if (Peek().kind == Token::Kind::kName && Peek(1).kind == Token::Kind::kOperator && Peek(1).text == "=") {
      argument.name = Peek().text;
      at_ += 2;
    }
    HONE_ASSIGN_OR_RETURN(argument.value, Whole());
    call.depth = std::max(call.depth, argument.value->depth + 1);
    if (!TakeOperator(",") && !IsOperator(")")) return Error("')' is missing");
  }
  return absl::OkStatus();
}

Parser::Expr Parser::Subscript(ExpressionPtr of) {
  ExpressionPtr made = Make(Kind::kSubscript);
  Hang(*made, std::move(of));
  ExpressionPtr parts[3];
  int colons = 0;
  while (!TakeOperator("]")) {
    if (TakeOperator(":")) {
      if (++colons > 2) return Error("a slice has at most two ':'");
      continue;
    }
    HONE_ASSIGN_OR_RETURN(parts[colons], Whole());
    if (!IsOperator(":") && !IsOperator("]")) return Error("']' is missing");
  }
  if (colons == 0 && parts[0] == nullptr) return Error("a subscript is empty");
  Hang(*made, std::move(parts[0]));
  if (colons == 0) return made;
  made->kind = Kind::kSlice;
  Hang(*made, std::move(parts[1]));
  Hang(*made, std::move(parts[2]));
  return made;
}

Parser::Expr Parser::Postfix(ExpressionPtr of) {
  while (true) {
    if (of->depth > kDepthLimit) return Error("has too long a chain of operators");
    if (TakeOperator(".")) {
      ExpressionPtr made = Make(Kind::kAttribute);
      HONE_ASSIGN_OR_RETURN(made->text, Name());
      Hang(*made, std::move(of));
      of = std::move(made);
    } else if (TakeOperator("[")) {
      HONE_ASSIGN_OR_RETURN(of, Subscript(std::move(of)));
    } else if (IsOperator("(")) {
      ExpressionPtr made = Make(Kind::kCall);
      ++at_;
      Hang(*made, std::move(of));
      HONE_RETURN_IF_ERROR(Arguments(*made));
      of = std::move(made);
    } else {
      return of;
    }
  }
}

Parser::Expr Parser::Filters(ExpressionPtr of) {
  while (true) {
    if (of->depth > kDepthLimit) return Error("has too long a chain of operators");
    if (TakeOperator("|")) {
      ExpressionPtr made = Make(Kind::kFilter);
      HONE_ASSIGN_OR_RETURN(made->text, Name());
      if (!IsFilter(made->text)) return Error(absl::StrCat("filter '", made->text, "' is not supported"));
      if (TakeOperator("(")) HONE_RETURN_IF_ERROR(Arguments(*made));
      Hang(*made, std::move(of));
      of = std::move(made);
    } else if (TakeWord("is")) {
      HONE_ASSIGN_OR_RETURN(of, Test(std::move(of)));
    } else if (IsOperator("(")) {
      HONE_ASSIGN_OR_RETURN(of, Postfix(std::move(of)));
    } else {
      return of;
    }
  }
}

Parser::Expr Parser::Test(ExpressionPtr of) {
  const bool negated = TakeWord("not");
  ExpressionPtr made = Make(Kind::kTest);
  HONE_ASSIGN_OR_RETURN(made->text, Name());
  if (!IsTest(made->text)) return Error(absl::StrCat("test '", made->text, "' is not supported"));
  if (TakeOperator("(")) {
    HONE_RETURN_IF_ERROR(Arguments(*made));
  } else if (Is(Token::Kind::kString) || Is(Token::Kind::kInteger)) {  // x is divisibleby 3
    HONE_ASSIGN_OR_RETURN(made->arguments.emplace_back().value, Primary());
  }
  Hang(*made, std::move(of));
  if (!negated) return made;
  ExpressionPtr inverse = Make(Kind::kUnary, "not");
  Hang(*inverse, std::move(made));
  return inverse;
}

absl::Status Parser::CloseTag(absl::string_view word) {
  at_ += 1;  // Body stopped in front of {%
  HONE_RETURN_IF_ERROR(Need(Token::Kind::kName, word, absl::StrCat("'", word, "' is missing")));
  return TagEnd();
}

absl::Status Parser::If(Statement& made) {
  made.kind = Statement::Kind::kIf;
  bool open = true;
  while (open) {
    auto& branch = made.branches.emplace_back();
    HONE_ASSIGN_OR_RETURN(branch.first, Whole());
    HONE_RETURN_IF_ERROR(TagEnd());
    HONE_ASSIGN_OR_RETURN(branch.second, Body({"elif", "else", "endif"}));
    open = Peek(1).text == "elif";
    if (open) at_ += 2;
  }
  if (Peek(1).text == "else") {
    HONE_RETURN_IF_ERROR(CloseTag("else"));
    auto& branch = made.branches.emplace_back();
    HONE_ASSIGN_OR_RETURN(branch.second, Body({"endif"}));
  }
  return CloseTag("endif");
}

absl::Status Parser::For(Statement& made) {
  made.kind = Statement::Kind::kFor;
  const bool parenthesised = TakeOperator("(");
  do {
    HONE_ASSIGN_OR_RETURN(made.names.emplace_back(), Name());
  } while (TakeOperator(","));
  if (parenthesised) HONE_RETURN_IF_ERROR(Need(Token::Kind::kOperator, ")", "')' is missing"));
  HONE_RETURN_IF_ERROR(Need(Token::Kind::kName, "in", "'in' is missing"));
  HONE_ASSIGN_OR_RETURN(made.value, Or());  // `if` belongs to the loop, not to the expression
  if (TakeWord("if")) {
    HONE_ASSIGN_OR_RETURN(made.condition, Whole());
  }
  HONE_RETURN_IF_ERROR(TagEnd());
  HONE_ASSIGN_OR_RETURN(made.body, Body({"else", "endfor"}));
  if (Peek(1).text == "else") {
    HONE_RETURN_IF_ERROR(CloseTag("else"));
    HONE_ASSIGN_OR_RETURN(made.otherwise, Body({"endfor"}));
  }
  return CloseTag("endfor");
}

absl::Status Parser::Set(Statement& made) {
  made.kind = Statement::Kind::kSet;
  HONE_ASSIGN_OR_RETURN(made.names.emplace_back(), Name());
  if (TakeOperator(".")) {
    HONE_ASSIGN_OR_RETURN(made.attribute, Name());
  }
  if (TakeOperator("=")) {
    HONE_ASSIGN_OR_RETURN(made.value, Whole());
    return TagEnd();
  }
  HONE_RETURN_IF_ERROR(TagEnd());
  HONE_ASSIGN_OR_RETURN(made.body, Body({"endset"}));
  return CloseTag("endset");
}

absl::Status Parser::Macro(Statement& made) {
  made.kind = Statement::Kind::kMacro;
  made.macro = std::make_shared<MacroNode>();
  HONE_ASSIGN_OR_RETURN(made.macro->name, Name());
  HONE_RETURN_IF_ERROR(Need(Token::Kind::kOperator, "(", "'(' is missing"));
  while (!TakeOperator(")")) {
    auto& parameter = made.macro->parameters.emplace_back();
    HONE_ASSIGN_OR_RETURN(parameter.first, Name());
    if (TakeOperator("=")) {
      HONE_ASSIGN_OR_RETURN(parameter.second, Whole());
    }
    if (!TakeOperator(",") && !IsOperator(")")) return Error("')' is missing");
  }
  HONE_RETURN_IF_ERROR(TagEnd());
  HONE_ASSIGN_OR_RETURN(made.macro->body, Body({"endmacro"}));
  return CloseTag("endmacro");
}

absl::StatusOr<std::unique_ptr<Statement>> Parser::Tag() {
  auto made = std::make_unique<Statement>();
  made->line = Peek().line;
  HONE_ASSIGN_OR_RETURN(const std::string word, Name());
  if (word == "if") {
    HONE_RETURN_IF_ERROR(If(*made));
  } else if (word == "for") {
    HONE_RETURN_IF_ERROR(For(*made));
  } else if (word == "set") {
    HONE_RETURN_IF_ERROR(Set(*made));
  } else if (word == "macro") {
    HONE_RETURN_IF_ERROR(Macro(*made));
  } else if (word == "generation") {
    made->kind = Statement::Kind::kBlock;
    HONE_RETURN_IF_ERROR(TagEnd());
    HONE_ASSIGN_OR_RETURN(made->body, Body({"endgeneration"}));
    HONE_RETURN_IF_ERROR(CloseTag("endgeneration"));
  } else if (word == "break" || word == "continue") {
    made->kind = word == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue;
    HONE_RETURN_IF_ERROR(TagEnd());
  } else {
    return Wrong(made->line, absl::StrCat("statement '", absl::Utf8SafeCEscape(word), "' is not supported or out of place"));
  }
  return made;
}

/// Statements up to a tag that starts with one of `ends`, which is left standing; without `ends`, up to the end.
absl::StatusOr<Block> Parser::Body(std::initializer_list<absl::string_view> ends) {
  if (++depth_ > kDepthLimit) return Error("is nested too deep");
  Block block;
  while (true) {
    const Token& token = Peek();
    if (token.kind == Token::Kind::kEnd) {
      if (ends.size() == 0) break;
      return Error(absl::StrCat("'", *(ends.end() - 1), "' is missing"));
    }
    if (token.kind == Token::Kind::kText || token.kind == Token::Kind::kOutputBegin) {
      auto made = std::make_unique<Statement>();
      made->line = token.line;
      made->kind = token.kind == Token::Kind::kText ? Statement::Kind::kText : Statement::Kind::kOutput;
      made->text = token.text;
      ++at_;
      if (made->kind == Statement::Kind::kOutput) {
        HONE_ASSIGN_OR_RETURN(made->value, Whole());
        HONE_RETURN_IF_ERROR(Need(Token::Kind::kOutputEnd, "", "'}}' is missing"));
      }
      block.push_back(std::move(made));
      continue;
    }
    if (std::find(ends.begin(), ends.end(), Peek(1).text) != ends.end()) break;
    ++at_;
    HONE_ASSIGN_OR_RETURN(block.emplace_back(), Tag());
  }
  --depth_;
  return block;
}

absl::StatusOr<Block> Parser::Run() { return Body({}); }

}  // namespace

absl::StatusOr<Block> ParseTemplate(const std::string& source) {
  HONE_ASSIGN_OR_RETURN(std::vector<Token> tokens, Lexer(source).Run());
  return Parser(std::move(tokens)).Run();
}

}  // namespace hone::policy::chat
