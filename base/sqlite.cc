#include "base/sqlite.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hone {
namespace {

/// One line. The statement stands in it only where it may be what is wrong.
absl::Status SqliteStatus(sqlite3* handle, int code, std::string sql) {
  const char* name = sqlite3_db_filename(handle, "main");
  const std::string file = name == nullptr ? "" : name;
  const std::string message = absl::StrCat(file, ": ", sqlite3_errmsg(handle));
  switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_NOMEM: return absl::ResourceExhaustedError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return absl::FailedPreconditionError(absl::StrCat(file, ": in use by another process"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return absl::DataLossError(message);
    case SQLITE_CANTOPEN: return absl::NotFoundError(message);
    case SQLITE_PERM:
    case SQLITE_READONLY: return absl::PermissionDeniedError(message);
    default:
      absl::RemoveExtraAsciiWhitespace(&sql);
      return absl::InternalError(absl::StrCat(message, ", in: ", sql));
  }
}

}  // namespace

Statement::Statement(Statement&& other) noexcept : statement_(std::exchange(other.statement_, nullptr)) {}

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(statement_, other.statement_);
  return *this;
}

Statement::~Statement() { sqlite3_finalize(statement_); }

Statement& Statement::Bind(int parameter, int64_t value) {
  HONE_CHECK(sqlite3_bind_int64(statement_, parameter, value) == SQLITE_OK);
  return *this;
}

Statement& Statement::Bind(int parameter, absl::string_view text) {
  HONE_CHECK(sqlite3_bind_text(statement_, parameter, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT) ==
             SQLITE_OK);
  return *this;
}

Statement& Statement::BindReal(int parameter, double value) {
  HONE_CHECK(sqlite3_bind_double(statement_, parameter, value) == SQLITE_OK);
  return *this;
}

Statement& Statement::BindBlob(int parameter, absl::string_view bytes) {
  const char* data = bytes.data() == nullptr ? "" : bytes.data();
  HONE_CHECK(sqlite3_bind_blob64(statement_, parameter, data, bytes.size(), SQLITE_STATIC) == SQLITE_OK);
  return *this;
}

absl::StatusOr<bool> Statement::Step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  absl::Status status = absl::OkStatus();
  if (code != SQLITE_DONE) status = SqliteStatus(sqlite3_db_handle(statement_), code, sqlite3_sql(statement_));
  Reset();
  if (!status.ok()) return status;
  return false;
}

absl::Status Statement::Run() {
  HONE_ASSIGN_OR_RETURN(const bool row, Step());
  HONE_CHECK(!row);
  return absl::OkStatus();
}

void Statement::Reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

int64_t Statement::Int(int column) const { return sqlite3_column_int64(statement_, column); }

double Statement::Real(int column) const { return sqlite3_column_double(statement_, column); }

std::string Statement::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  if (data == nullptr) return "";
  return std::string(static_cast<const char*>(data), static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  if (handle == nullptr) return absl::ResourceExhaustedError(absl::StrCat(path, ": no memory to open the database"));
  std::unique_ptr<Database> database(new Database(handle));
  if (code != SQLITE_OK) return absl::Status(SqliteStatus(handle, code, "open").code(),
                                             absl::StrCat(path, ": ", sqlite3_errmsg(handle)));
  HONE_RETURN_IF_ERROR(database->Execute("PRAGMA locking_mode = EXCLUSIVE"));
  HONE_RETURN_IF_ERROR(database->Execute("PRAGMA journal_mode = WAL"));
  HONE_RETURN_IF_ERROR(database->Execute("PRAGMA synchronous = NORMAL"));
  // Takes the lock now instead of at the first write.
  HONE_RETURN_IF_ERROR(database->Execute("BEGIN IMMEDIATE; COMMIT"));
  return database;
}

Database::~Database() { sqlite3_close_v2(handle_); }

absl::Status Database::Execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : SqliteStatus(handle_, code, sql);
}

absl::StatusOr<Statement> Database::Prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_, sql.c_str(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                      &statement, nullptr);
  if (code != SQLITE_OK) return SqliteStatus(handle_, code, sql);
  return Statement(statement);
}

}  // namespace hone
