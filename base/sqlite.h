#pragma once

// SQLite with owners and Status. One Database is used by one thread at a time: its user brings the lock.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace hone {

/// A prepared statement. Parameters and columns count from 1 and 0, as in SQLite.
class Statement {
 public:
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();

  Statement& Bind(int parameter, int64_t value);
  Statement& Bind(int parameter, absl::string_view text);
  Statement& BindReal(int parameter, double value);
  Statement& BindBlob(int parameter, absl::string_view bytes);  // not copied: must live until Reset

  /// True: a row is there to be read. False: done, and the statement may be bound and stepped again.
  absl::StatusOr<bool> Step();
  /// Steps a statement that yields no rows.
  absl::Status Run();
  /// Ends a Step that yielded a row.
  void Reset();

  int64_t Int(int column) const;
  double Real(int column) const;
  std::string Bytes(int column) const;  // text or blob

 private:
  friend class Database;
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  sqlite3_stmt* statement_ = nullptr;
};

/// A file in write-ahead mode, held by this process alone, so that a second process gets an error instead of a race.
/// A commit survives the death of the process at any point; the last ones may be lost with the power.
class Database {
 public:
  /// Creates the file when missing. kFailedPrecondition: another process holds it. kDataLoss: not a database, or corrupt.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  absl::Status Execute(const std::string& sql);
  absl::StatusOr<Statement> Prepare(const std::string& sql);

 private:
  explicit Database(sqlite3* handle) : handle_(handle) {}
  sqlite3* handle_;
};

}  // namespace hone
