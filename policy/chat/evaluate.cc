#include "policy/chat/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "policy/chat/functions.h"

namespace hone::policy::chat {
namespace {

constexpr int64_t kRangeLimit = 100'000;

bool IsFunction(absl::string_view name) {
  constexpr absl::string_view kNames[] = {"raise_exception", "namespace", "dict", "strftime_now", "range"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

/// Variables by name, innermost scope last. A loop and a macro have scopes of their own; an if has not.
class Scopes {
 public:
  explicit Scopes(Dict globals) : scopes_{std::move(globals)} {}
  void Push() { scopes_.emplace_back(); }
  void Pop() { scopes_.pop_back(); }
  void Set(const std::string& name, Value value) { Assign(scopes_.back(), name, std::move(value)); }
  const Value* Find(absl::string_view name) const {
    for (size_t i = scopes_.size(); i-- > hidden_;) {
      if (const Value* value = Lookup(scopes_[i], name)) return value;
    }
    return Lookup(scopes_.front(), name);
  }
  /// A macro sees the outermost scope and its own, not its caller's.
  size_t Hide() { return std::exchange(hidden_, scopes_.size()); }
  void Unhide(size_t hidden) { hidden_ = hidden; }

 private:
  std::vector<Dict> scopes_;
  size_t hidden_ = 0;
};

class Evaluator {
 public:
  Evaluator(const Dict& variables, const std::function<std::string(const std::string&)>& strftime, const RenderLimits& limits)
      : scopes_(variables), strftime_(strftime), limits_(limits) {}
  absl::StatusOr<std::string> Run(const Block& block);

 private:
  enum class Flow { kOn, kBreak, kContinue };
  using Result = absl::StatusOr<Value>;

  absl::Status Fail(int line, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
  }
  absl::Status Spend(int line);
  absl::Status Write(int line, absl::string_view text);

  absl::StatusOr<Flow> Execute(const Block& block);
  absl::StatusOr<Flow> ExecuteOne(const Statement& statement);
  absl::StatusOr<Flow> If(const Statement& statement);
  absl::StatusOr<Flow> For(const Statement& statement);
  absl::Status Bind(const Statement& statement, const Value& item);
  absl::Status Set(const Statement& statement);
  absl::StatusOr<std::string> Captured(const Block& block);

  Result Evaluate(const Expression& e);
  Result Compute(const Expression& e);
  Result Built(const Expression& e, Value value) const;
  Result Binary(const Expression& e);
  Result Add(const Expression& e, const Value& a, const Value& b);
  Result Arithmetic(const Expression& e, const Value& a, const Value& b);
  Result Unary(const Expression& e);
  Result Slice(const Expression& e);
  Result Call(const Expression& e);
  Result CallFunction(const Expression& e, const std::string& name, const CallArguments& arguments);
  Result CallMacro(const Expression& e, const MacroNode& macro, const CallArguments& arguments);
  absl::StatusOr<CallArguments> Arguments(const Expression& e);
  absl::Status Placed(const Expression& e, const absl::Status& status) const;

  Scopes scopes_;
  const std::function<std::string(const std::string&)>& strftime_;
  RenderLimits limits_;
  std::string out_;
  int64_t steps_ = 0;
  int64_t made_bytes_ = 0;
  int depth_ = 0;
};

absl::StatusOr<std::string> Evaluator::Run(const Block& block) {
  HONE_RETURN_IF_ERROR(Execute(block).status());
  return std::move(out_);
}

absl::Status Evaluator::Spend(int line) {
  if (++steps_ > limits_.steps) return absl::ResourceExhaustedError(absl::StrCat("line ", line, ": the template runs too long"));
  return absl::OkStatus();
}

absl::Status Evaluator::Write(int line, absl::string_view text) {
  if (static_cast<int64_t>(out_.size() + text.size()) > limits_.output_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("line ", line, ": the template writes more than ", limits_.output_bytes, " bytes"));
  }
  out_.append(text.data(), text.size());
  return absl::OkStatus();
}

absl::StatusOr<Evaluator::Flow> Evaluator::Execute(const Block& block) {
  if (++depth_ > limits_.depth) return absl::ResourceExhaustedError("the template is nested too deep");
  const absl::Cleanup leave = [this] { --depth_; };
  for (const auto& statement : block) {
    HONE_ASSIGN_OR_RETURN(const Flow flow, ExecuteOne(*statement));
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

absl::StatusOr<Evaluator::Flow> Evaluator::ExecuteOne(const Statement& statement) {
  using Kind = Statement::Kind;
  HONE_RETURN_IF_ERROR(Spend(statement.line));
  switch (statement.kind) {
    case Kind::kText: HONE_RETURN_IF_ERROR(Write(statement.line, statement.text)); return Flow::kOn;
    case Kind::kOutput: {
      HONE_ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.value));
      HONE_RETURN_IF_ERROR(Write(statement.line, Str(value)));
      return Flow::kOn;
    }
    case Kind::kIf: return If(statement);
    case Kind::kFor: return For(statement);
    case Kind::kSet: HONE_RETURN_IF_ERROR(Set(statement)); return Flow::kOn;
    case Kind::kMacro: scopes_.Set(statement.macro->name, Value::Macro(statement.macro)); return Flow::kOn;
    case Kind::kBlock: return Execute(statement.body);
    case Kind::kBreak: return Flow::kBreak;
    case Kind::kContinue: return Flow::kContinue;
  }
  return Flow::kOn;
}

absl::StatusOr<Evaluator::Flow> Evaluator::If(const Statement& statement) {
  for (const auto& [condition, body] : statement.branches) {
    Value value(true);
    if (condition != nullptr) {
      HONE_ASSIGN_OR_RETURN(value, Evaluate(*condition));
    }
    if (value.Truthy()) return Execute(body);
  }
  return Flow::kOn;
}

absl::Status Evaluator::Bind(const Statement& statement, const Value& item) {
  if (statement.names.size() == 1) {
    scopes_.Set(statement.names[0], item);
    return absl::OkStatus();
  }
  const List* parts = item.Items();
  if (parts == nullptr || parts->size() != statement.names.size()) {
    return Fail(statement.line, absl::StrCat("cannot unpack a ", item.TypeName(), " into ", statement.names.size(), " names"));
  }
  for (size_t i = 0; i < parts->size(); ++i) scopes_.Set(statement.names[i], (*parts)[i]);
  return absl::OkStatus();
}

absl::StatusOr<Evaluator::Flow> Evaluator::For(const Statement& statement) {
  HONE_ASSIGN_OR_RETURN(const Value iterable, Evaluate(*statement.value));
  const absl::StatusOr<List> all = Iterate(iterable);
  if (!all.ok()) return Fail(statement.line, all.status().message());
  scopes_.Push();
  const absl::Cleanup leave = [this] { scopes_.Pop(); };
  List items;
  for (const Value& item : *all) {
    HONE_RETURN_IF_ERROR(Bind(statement, item));
    Value wanted(true);
    if (statement.condition != nullptr) {
      HONE_ASSIGN_OR_RETURN(wanted, Evaluate(*statement.condition));
    }
    if (wanted.Truthy()) items.push_back(item);
  }
  if (items.empty()) return Execute(statement.otherwise);
  const int64_t size = static_cast<int64_t>(items.size());
  for (int64_t i = 0; i < size; ++i) {
    scopes_.Pop();
    scopes_.Push();  // what one turn sets, the next does not see
    HONE_RETURN_IF_ERROR(Bind(statement, items[i]));
    scopes_.Set("loop", MakeDict({{"index", i + 1},
                                  {"index0", i},
                                  {"first", i == 0},
                                  {"last", i + 1 == size},
                                  {"length", size},
                                  {"revindex", size - i},
                                  {"revindex0", size - i - 1},
                                  {"previtem", i == 0 ? Value() : items[i - 1]},
                                  {"nextitem", i + 1 == size ? Value() : items[i + 1]}}));
    HONE_ASSIGN_OR_RETURN(const Flow flow, Execute(statement.body));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kOn;
}

absl::StatusOr<std::string> Evaluator::Captured(const Block& block) {
  std::string outer = std::exchange(out_, "");
  const absl::StatusOr<Flow> flow = Execute(block);
  std::string inner = std::exchange(out_, std::move(outer));
  HONE_RETURN_IF_ERROR(flow.status());
  return inner;
}

absl::Status Evaluator::Set(const Statement& statement) {
  Value value;
  if (statement.value != nullptr) {
    HONE_ASSIGN_OR_RETURN(value, Evaluate(*statement.value));
  } else {
    HONE_ASSIGN_OR_RETURN(value, Captured(statement.body));
  }
  if (statement.attribute.empty()) {
    scopes_.Set(statement.names[0], std::move(value));
    return absl::OkStatus();
  }
  const Value* object = scopes_.Find(statement.names[0]);
  const auto* dict = object == nullptr ? nullptr : object->As<std::shared_ptr<Dict>>();
  if (dict == nullptr) return Fail(statement.line, absl::StrCat("'", statement.names[0], "' is no namespace"));
  if (DepthOf(value) >= kValueDepth || Holds(value, dict->get())) return Fail(statement.line, "a value is nested too deep");
  Assign(**dict, statement.attribute, std::move(value));
  return absl::OkStatus();
}

absl::Status Evaluator::Placed(const Expression& e, const absl::Status& status) const {
  if (status.ok() || absl::StartsWith(status.message(), "line ")) return status;
  return absl::Status(status.code(), absl::StrCat("line ", e.line, ": ", status.message()));
}

absl::StatusOr<CallArguments> Evaluator::Arguments(const Expression& e) {
  CallArguments arguments;
  for (const Argument& argument : e.arguments) {
    HONE_ASSIGN_OR_RETURN(Value value, Evaluate(*argument.value));
    if (argument.name.empty()) {
      arguments.positional.push_back(std::move(value));
    } else {
      arguments.named.emplace_back(argument.name, std::move(value));
    }
  }
  return arguments;
}

Evaluator::Result Evaluator::Built(const Expression& e, Value value) const {
  if (DepthOf(value) > kValueDepth) return Fail(e.line, "a value is nested too deep");
  return value;
}

Evaluator::Result Evaluator::Evaluate(const Expression& e) {
  Result result = Compute(e);
  if (!result.ok()) return result;
  if (result->Text()) made_bytes_ += static_cast<int64_t>(result->Text()->size());
  if (result->Items()) made_bytes_ += static_cast<int64_t>(result->Items()->size() * sizeof(Value));
  if (made_bytes_ > limits_.made_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("line ", e.line, ": the template makes too much text"));
  }
  return result;
}

Evaluator::Result Evaluator::Compute(const Expression& e) {
  using Kind = Expression::Kind;
  HONE_RETURN_IF_ERROR(Spend(e.line));
  if (++depth_ > limits_.depth) return absl::ResourceExhaustedError("the template is nested too deep");
  const absl::Cleanup leave = [this] { --depth_; };
  switch (e.kind) {
    case Kind::kLiteral: return e.literal;
    case Kind::kName: {
      const Value* value = scopes_.Find(e.text);
      if (value != nullptr) return *value;
      return IsFunction(e.text) ? Value(Function{e.text}) : Value(Undefined{e.text});
    }
    case Kind::kList: {
      List items;
      for (const ExpressionPtr& child : e.children) {
        HONE_ASSIGN_OR_RETURN(items.emplace_back(), Evaluate(*child));
      }
      return Built(e, MakeList(std::move(items)));
    }
    case Kind::kDict: {
      Dict entries;
      for (size_t i = 0; i < e.children.size(); i += 2) {
        HONE_ASSIGN_OR_RETURN(const Value key, Evaluate(*e.children[i]));
        HONE_ASSIGN_OR_RETURN(Value value, Evaluate(*e.children[i + 1]));
        Assign(entries, Str(key), std::move(value));
      }
      return Built(e, MakeDict(std::move(entries)));
    }
    case Kind::kAttribute:
    case Kind::kSubscript: {
      HONE_ASSIGN_OR_RETURN(const Value object, Evaluate(*e.children[0]));
      if (const Undefined* undefined = object.As<Undefined>()) return Fail(e.line, absl::StrCat("'", undefined->name, "' is undefined"));
      Value key(e.text);
      if (e.kind == Kind::kSubscript) {
        HONE_ASSIGN_OR_RETURN(key, Evaluate(*e.children[1]));
      }
      return GetItem(object, key);
    }
    case Kind::kSlice: return Slice(e);
    case Kind::kCall: return Call(e);
    case Kind::kFilter:
    case Kind::kTest: {
      HONE_ASSIGN_OR_RETURN(const Value input, Evaluate(*e.children[0]));
      HONE_ASSIGN_OR_RETURN(const CallArguments arguments, Arguments(e));
      Result result;
      if (e.kind == Kind::kFilter) {
        result = ApplyFilter(e.text, input, arguments);
      } else {
        const absl::StatusOr<bool> passes = ApplyTest(e.text, input, arguments);
        result = passes.ok() ? Result(Value(*passes)) : Result(passes.status());
      }
      if (!result.ok()) return Placed(e, result.status());
      return result;
    }
    case Kind::kUnary: return Unary(e);
    case Kind::kBinary: return Binary(e);
    case Kind::kConditional: {
      HONE_ASSIGN_OR_RETURN(const Value condition, Evaluate(*e.children[1]));
      if (condition.Truthy()) return Evaluate(*e.children[0]);
      return e.children[2] == nullptr ? Result(Value()) : Evaluate(*e.children[2]);
    }
  }
  return Value();
}

Evaluator::Result Evaluator::Unary(const Expression& e) {
  HONE_ASSIGN_OR_RETURN(const Value value, Evaluate(*e.children[0]));
  if (e.text == "not") return Value(!value.Truthy());
  if (!value.IsNumber()) return Fail(e.line, absl::StrCat("'", e.text, "' of a ", value.TypeName()));
  if (e.text == "+") return value;
  if (value.As<double>()) return Value(-value.Number());
  return Value(static_cast<int64_t>(-static_cast<uint64_t>(value.As<int64_t>() ? *value.As<int64_t>() : int64_t(value.Number()))));
}

Evaluator::Result Evaluator::Add(const Expression& e, const Value& a, const Value& b) {
  if (a.Text() && b.Text()) return Value(*a.Text() + *b.Text());
  if (a.Items() && b.Items()) {
    List items = *a.Items();
    items.insert(items.end(), b.Items()->begin(), b.Items()->end());
    return MakeList(std::move(items));
  }
  return Arithmetic(e, a, b);
}

Evaluator::Result Evaluator::Arithmetic(const Expression& e, const Value& a, const Value& b) {
  if (!a.IsNumber() || !b.IsNumber()) {
    for (const Value* value : {&a, &b}) {
      if (const Undefined* undefined = value->As<Undefined>()) return Fail(e.line, absl::StrCat("'", undefined->name, "' is undefined"));
    }
    return Fail(e.line, absl::StrCat("'", e.text, "' between a ", a.TypeName(), " and a ", b.TypeName()));
  }
  const bool divides = e.text == "/" || e.text == "//" || e.text == "%";
  if (divides && b.Number() == 0) return Fail(e.line, "division by zero");
  if (a.As<double>() || b.As<double>() || e.text == "/" || e.text == "**") {
    const double x = a.Number(), y = b.Number();
    if (e.text == "+") return Value(x + y);
    if (e.text == "-") return Value(x - y);
    if (e.text == "*") return Value(x * y);
    if (e.text == "/") return Value(x / y);
    if (e.text == "//") return Value(std::floor(x / y));
    if (e.text == "%") return Value(x - y * std::floor(x / y));
    const double power = std::pow(x, y);
    const bool integer = !a.As<double>() && !b.As<double>() && y >= 0 && std::abs(power) < 9e15;
    return integer ? Value(static_cast<int64_t>(power)) : Value(power);
  }
  const auto integer = [](const Value& v) { return v.As<int64_t>() ? *v.As<int64_t>() : static_cast<int64_t>(v.Number()); };
  const int64_t x = integer(a), y = integer(b);
  int64_t result = 0;
  const bool overflows = e.text == "+"   ? __builtin_add_overflow(x, y, &result)
                         : e.text == "-" ? __builtin_sub_overflow(x, y, &result)
                         : e.text == "*" ? __builtin_mul_overflow(x, y, &result)
                                         : false;
  if (overflows || (divides && y == -1 && x == INT64_MIN)) return Fail(e.line, "a number is too large");
  if (!divides) return Value(result);
  const int64_t quotient = x / y - (x % y != 0 && (x < 0) != (y < 0));  // rounds down, as Python does
  return Value(e.text == "//" ? quotient : x - quotient * y);
}

Evaluator::Result Evaluator::Binary(const Expression& e) {
  HONE_ASSIGN_OR_RETURN(const Value a, Evaluate(*e.children[0]));
  if (e.text == "and" && !a.Truthy()) return a;
  if (e.text == "or" && a.Truthy()) return a;
  HONE_ASSIGN_OR_RETURN(const Value b, Evaluate(*e.children[1]));
  if (e.text == "and" || e.text == "or") return b;
  if (e.text == "~") return Value(Str(a) + Str(b));
  if (e.text == "==") return Value(Equal(a, b));
  if (e.text == "!=") return Value(!Equal(a, b));
  if (e.text == "in" || e.text == "not in") {
    const absl::StatusOr<bool> found = Contains(b, a);
    if (!found.ok()) return Placed(e, found.status());
    return Value(*found == (e.text == "in"));
  }
  if (e.text[0] == '<' || e.text[0] == '>') {
    const bool texts = a.Text() && b.Text();
    if (!texts && !(a.IsNumber() && b.IsNumber())) {
      return Fail(e.line, absl::StrCat("'", e.text, "' between a ", a.TypeName(), " and a ", b.TypeName()));
    }
    const int order = texts ? a.Text()->compare(*b.Text()) : (a.Number() > b.Number()) - (a.Number() < b.Number());
    return Value(e.text == "<" ? order < 0 : e.text == "<=" ? order <= 0 : e.text == ">" ? order > 0 : order >= 0);
  }
  if (e.text == "*" && a.Text() && b.As<int64_t>()) {
    const int64_t times = std::max<int64_t>(0, *b.As<int64_t>());
    if (times > kRangeLimit) return Fail(e.line, "a string is repeated too often");
    std::string text;
    for (int64_t i = 0; i < times; ++i) text += *a.Text();
    return Value(text);
  }
  return e.text == "+" ? Add(e, a, b) : Arithmetic(e, a, b);
}

Evaluator::Result Evaluator::Slice(const Expression& e) {
  HONE_ASSIGN_OR_RETURN(const Value object, Evaluate(*e.children[0]));
  if (!object.Items() && !object.Text()) return Fail(e.line, absl::StrCat("a slice of a ", object.TypeName()));
  HONE_ASSIGN_OR_RETURN(const List items, Iterate(object));
  std::optional<int64_t> bounds[3];
  for (int i = 0; i < 3; ++i) {
    if (e.children[i + 1] == nullptr) continue;
    HONE_ASSIGN_OR_RETURN(const Value bound, Evaluate(*e.children[i + 1]));
    if (bound.IsNone()) continue;
    if (!bound.As<int64_t>()) return Fail(e.line, "a slice needs integers");
    bounds[i] = *bound.As<int64_t>();
  }
  const int64_t size = static_cast<int64_t>(items.size()), step = bounds[2].value_or(1);
  if (step == 0) return Fail(e.line, "a slice of step 0");
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto clamp = [&](std::optional<int64_t> bound, int64_t otherwise) {
    if (!bound) return otherwise;
    return std::clamp(*bound < 0 ? *bound + size : *bound, low, high);
  };
  const int64_t begin = clamp(bounds[0], step > 0 ? low : high), end = clamp(bounds[1], step > 0 ? high : low);
  List taken;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    taken.push_back(items[static_cast<size_t>(i)]);
    if (step > size || step < -size) break;  // and i + step cannot overflow
  }
  if (!object.Text()) return MakeList(std::move(taken));
  std::string text;
  for (const Value& item : taken) text += Str(item);
  return Value(text);
}

Evaluator::Result Evaluator::Call(const Expression& e) {
  const Expression& callee = *e.children[0];
  HONE_ASSIGN_OR_RETURN(const CallArguments arguments, Arguments(e));
  if (callee.kind == Expression::Kind::kAttribute) {
    HONE_ASSIGN_OR_RETURN(const Value object, Evaluate(*callee.children[0]));
    if (const Undefined* undefined = object.As<Undefined>()) return Fail(e.line, absl::StrCat("'", undefined->name, "' is undefined"));
    Result result = CallMethod(callee.text, object, arguments);
    if (result.ok() || result.status().code() != absl::StatusCode::kNotFound) return result.ok() ? result : Result(Placed(e, result.status()));
    return Fail(e.line, absl::StrCat("method '", callee.text, "' of a ", object.TypeName(), " is not supported"));
  }
  HONE_ASSIGN_OR_RETURN(const Value function, Evaluate(callee));
  if (const Value::Macro* macro = function.As<Value::Macro>()) return CallMacro(e, **macro, arguments);
  if (const Function* known = function.As<Function>()) return CallFunction(e, known->name, arguments);
  if (function.IsUndefined()) return Fail(e.line, absl::StrCat("function '", callee.text, "' is not supported"));
  return Fail(e.line, absl::StrCat("a ", function.TypeName(), " cannot be called"));
}

Evaluator::Result Evaluator::CallFunction(const Expression& e, const std::string& name, const CallArguments& arguments) {
  const auto text = [&](size_t at) { return at < arguments.positional.size() ? Str(arguments.positional[at]) : ""; };
  if (name == "raise_exception") return absl::InvalidArgumentError(text(0));
  if (name == "namespace" || name == "dict") return Built(e, MakeDict(arguments.named));
  if (name == "strftime_now") return Value(strftime_(text(0)));
  int64_t bounds[3] = {0, 0, 1};
  const size_t count = arguments.positional.size();
  for (size_t i = 0; i < count && i < 3; ++i) {
    if (!arguments.positional[i].As<int64_t>()) return Fail(e.line, "range needs integers");
    bounds[count == 1 ? 1 : i] = *arguments.positional[i].As<int64_t>();
  }
  const auto [begin, end, step] = bounds;
  if (count == 0 || step == 0 || std::abs(step) > kRangeLimit) return Fail(e.line, "range needs a step from 1 to 100000");
  List items;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    if (static_cast<int64_t>(items.size()) == kRangeLimit) return Fail(e.line, "range is longer than 100000");
    items.push_back(i);
  }
  return MakeList(std::move(items));
}

Evaluator::Result Evaluator::CallMacro(const Expression& e, const MacroNode& macro, const CallArguments& arguments) {
  if (arguments.positional.size() > macro.parameters.size()) return Fail(e.line, absl::StrCat("macro '", macro.name, "' takes less"));
  const size_t hidden = scopes_.Hide();
  scopes_.Push();
  const absl::Cleanup leave = [this, hidden] {
    scopes_.Pop();
    scopes_.Unhide(hidden);
  };
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto& [name, otherwise] = macro.parameters[i];
    Value value(Undefined{name});
    if (const Value* given = arguments.Get(i, name)) {
      value = *given;
    } else if (otherwise != nullptr) {
      HONE_ASSIGN_OR_RETURN(value, Evaluate(*otherwise));
    }
    scopes_.Set(name, std::move(value));
  }
  HONE_ASSIGN_OR_RETURN(std::string text, Captured(macro.body));
  return Value(std::move(text));
}

}  // namespace

absl::StatusOr<std::string> Render(const Block& block, const Dict& variables,
                                   const std::function<std::string(const std::string&)>& strftime,
                                   const RenderLimits& limits) {
  return Evaluator(variables, strftime, limits).Run(block);
}

}  // namespace hone::policy::chat
