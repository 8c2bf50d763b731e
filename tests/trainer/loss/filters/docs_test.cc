// docs/rewards.md states what the code states.

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "base/file.h"
#include "rewards/part_table.h"
#include "trainer/loss/filters/filter.h"

namespace hone::trainer {
namespace {

TEST_CASE("docs/rewards.md has the table of the filters", "[filters]") {
  const std::string table = rewards::PartTable<Filter>();
  const std::string page = *ReadFile(HONE_SOURCE_FOLDER "/docs/rewards.md");
  INFO("docs/rewards.md should have:\n" << table);
  CHECK(page.find(table) != std::string::npos);
}

}  // namespace
}  // namespace hone::trainer
