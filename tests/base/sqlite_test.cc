#include "base/sqlite.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "base/file.h"

namespace hone {
namespace {

TEST_CASE("A full disk is told in one line that names the file", "[base][sqlite]") {
  const TempFolder folder = *TempFolder::Create("sqlite");
  const std::string path = folder.path() + "/queue.db";
  const auto database = Database::Open(path).value();
  REQUIRE(database->Execute("CREATE TABLE job(\n  payload BLOB)").ok());
  REQUIRE(database->Execute("PRAGMA max_page_count = 4").ok());
  Statement insert = database->Prepare("INSERT INTO job(payload)\n  VALUES(?)").value();
  const std::string payload(1 << 20, 'x');
  const absl::Status status = insert.BindBlob(1, payload).Run();
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(status.message() == path + ": database or disk is full");
}

TEST_CASE("A file that another process holds is told as that, and a wrong statement with its text in one line", "[base][sqlite]") {
  const TempFolder folder = *TempFolder::Create("sqlite");
  const std::string path = folder.path() + "/queue.db";
  const auto database = Database::Open(path).value();
  REQUIRE(database->Execute("CREATE TABLE job(payload BLOB)").ok());
  const absl::Status second = Database::Open(path).status();
  CHECK(second.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(second.message() == path + ": in use by another process");
  CHECK(database->Execute("INSERT INTO\n  jobs VALUES(1)").message() == path + ": no such table: jobs, in: INSERT INTO jobs VALUES(1)");
}

}  // namespace
}  // namespace hone
