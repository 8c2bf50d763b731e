// docs/rewards.md states what the code states.

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "absl/strings/str_split.h"
#include "base/file.h"
#include "rewards/advantage/advantage.h"
#include "rewards/part_table.h"
#include "rewards/terms/term.h"
#include "rewards/turns/turn_rule.h"

namespace hone::rewards {
namespace {

void CheckTable(const std::string& table) {
  const std::string page = *ReadFile(HONE_SOURCE_FOLDER "/docs/rewards.md");
  for (const absl::string_view row : absl::StrSplit(table, '\n', absl::SkipEmpty())) {
    INFO("docs/rewards.md lacks this row:\n" << row);
    CHECK(page.find(std::string(row)) != std::string::npos);
  }
  INFO("docs/rewards.md has rows that the code has not, or in another order");
  CHECK(page.find(table) != std::string::npos);
}

TEST_CASE("docs/rewards.md has the table of the terms", "[rewards]") { CheckTable(PartTable<Term>()); }
TEST_CASE("docs/rewards.md has the table of the turn rules", "[rewards]") { CheckTable(PartTable<TurnRule>()); }
TEST_CASE("docs/rewards.md has the table of the advantages", "[rewards]") { CheckTable(PartTable<Advantage>()); }

}  // namespace
}  // namespace hone::rewards
