#pragma once

// The syntax tree of a chat template, and its parser: the part of Jinja that published chat templates use.
//
// Statements: if, for (with if, else, break, continue), set (variables, namespace attributes, blocks), macro, generation.
// Expressions: literals, lists, dicts, attributes, subscripts, slices, calls, filters, tests, arithmetic, comparisons, `~`, in,
// not, and, or, `x if c else y`. White space is handled as HF transformers sets Jinja up: trim_blocks and lstrip_blocks.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/chat/value.h"

namespace hone::policy::chat {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Argument {
  std::string name;  // empty: by position
  ExpressionPtr value;
};

struct Expression {
  enum class Kind {
    kLiteral,      // literal
    kName,         // text
    kList,         // children
    kDict,         // children: key, value, key, value ..
    kAttribute,    // children[0].text
    kSubscript,    // children[0][children[1]]
    kSlice,        // children[0][children[1]:children[2]:children[3]], each but the first may be null
    kCall,         // children[0](arguments)
    kFilter,       // children[0] | text(arguments)
    kTest,         // children[0] is text(arguments)
    kUnary,        // text: "-", "+", "not"
    kBinary,       // text: "+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"
    kConditional   // children[0] if children[1] else children[2]; the last may be null
  };
  Kind kind;
  int line;
  int depth = 1;  // of the tree below, itself included
  std::string text;
  Value literal;
  std::vector<ExpressionPtr> children;
  std::vector<Argument> arguments;
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Statement {
  enum class Kind {
    kText,      // text
    kOutput,    // {{ value }}
    kIf,        // branches; the condition of an else is null
    kFor,       // for names in value if condition: body, else otherwise
    kSet,       // names[0](.attribute) = value, or = body's text where value is null
    kMacro,     // macro
    kBlock,     // body (generation)
    kBreak,
    kContinue
  };
  Kind kind;
  int line;
  std::string text;
  std::vector<std::string> names;
  std::string attribute;
  ExpressionPtr value;
  ExpressionPtr condition;
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block body;
  Block otherwise;
  std::shared_ptr<MacroNode> macro;
};

struct MacroNode {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with default values, where there are any
  Block body;
};

/// kInvalidArgument with the line: not valid, or a statement, filter or test that is not supported.
absl::StatusOr<Block> ParseTemplate(const std::string& source);

/// Names that the evaluator knows; the parser refuses others.
bool IsFilter(absl::string_view name);
bool IsTest(absl::string_view name);

}  // namespace hone::policy::chat
