#include "verifier/cache/result_cache.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/hash.h"
#include "base/sqlite.h"
#include "base/status_macros.h"
#include "proto/codec.h"

namespace hone::verifier {
namespace {

constexpr int64_t kEntryOverheadBytes = 128;  // key, index entry, row header
// Uses are counted in steps of this many insertions, so that most hits need no write.
constexpr int64_t kUseStep = 16;

constexpr char kSchema[] = R"sql(
CREATE TABLE IF NOT EXISTS meta(version TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS result(
  key TEXT PRIMARY KEY,
  used INTEGER NOT NULL,    -- the last use, in steps of insertions
  verdict BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_use ON result(used);)sql";

Task WithoutNames(Task task) {
  task.id.clear();
  task.level = 0;
  task.family.clear();
  task.description.clear();
  task.split = Split::kTrain;
  task.weak = false;
  return task;
}

}  // namespace

std::string TaskContentKey(const Task& task) { return Sha256Hex(proto::Encode(WithoutNames(task))); }

std::string ResultKey(const Task& task, const Candidate& candidate, const Protocol& protocol, absl::string_view device,
                      absl::string_view toolchain) {
  return ContentKey({proto::Encode(WithoutNames(task)), proto::Encode(candidate), proto::Encode(protocol), device,
                     toolchain});
}

bool Cacheable(const Verdict& verdict) {
  switch (verdict.status) {
    case VerdictStatus::kOk:
    case VerdictStatus::kParse:
    case VerdictStatus::kForbidden:
    case VerdictStatus::kCompile:
    case VerdictStatus::kRuntime:
    case VerdictStatus::kIncorrect: return true;
    case VerdictStatus::kCompileTimeout:
    case VerdictStatus::kTimeout:
    case VerdictStatus::kOom:
    case VerdictStatus::kCheat:
    case VerdictStatus::kInfra: return false;
  }
  return false;
}

namespace {

class SqliteCache final : public ResultCache {
 public:
  struct State;
  explicit SqliteCache(std::unique_ptr<State> state) : state_(std::move(state)) {}
  absl::StatusOr<std::optional<Verdict>> Find(const std::string& key) override;
  absl::Status Put(const std::string& key, const Verdict& verdict) override;
  int64_t entries() const override;
  int64_t bytes() const override;

 private:
  const std::unique_ptr<State> state_;
};

struct SqliteCache::State {
  const int64_t limit_bytes;
  mutable absl::Mutex mutex;
  std::unique_ptr<Database> database ABSL_GUARDED_BY(mutex);
  std::optional<Statement> find, touch, put, oldest, remove ABSL_GUARDED_BY(mutex);
  int64_t entries ABSL_GUARDED_BY(mutex) = 0;
  int64_t bytes ABSL_GUARDED_BY(mutex) = 0;
  int64_t insertions ABSL_GUARDED_BY(mutex) = 0;

  explicit State(int64_t limit) : limit_bytes(limit) {}

  absl::Status Prepare(const std::string& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::Status EmptyUnlessOf(const std::string& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::Status Count() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::Status Remove(const std::string& key, int64_t verdict_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::Status Evict() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  int64_t Now() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return insertions / kUseStep; }
};

absl::Status SqliteCache::State::Prepare(const std::string& version) {
  HONE_RETURN_IF_ERROR(database->Execute(kSchema));
  HONE_RETURN_IF_ERROR(EmptyUnlessOf(version));
  const auto prepare = [this](std::optional<Statement>& to, const char* sql) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(Statement statement, database->Prepare(sql));
    to.emplace(std::move(statement));
    return absl::OkStatus();
  };
  HONE_RETURN_IF_ERROR(prepare(find, "SELECT verdict, used FROM result WHERE key = ?"));
  HONE_RETURN_IF_ERROR(prepare(touch, "UPDATE result SET used = ? WHERE key = ?"));
  HONE_RETURN_IF_ERROR(prepare(put, "INSERT INTO result(key, used, verdict) VALUES(?, ?, ?)"));
  HONE_RETURN_IF_ERROR(prepare(oldest, "SELECT key, length(verdict) FROM result ORDER BY used LIMIT 1"));
  HONE_RETURN_IF_ERROR(prepare(remove, "DELETE FROM result WHERE key = ?"));
  return Count();
}

absl::Status SqliteCache::State::EmptyUnlessOf(const std::string& version) {
  HONE_ASSIGN_OR_RETURN(Statement read, database->Prepare("SELECT version FROM meta"));
  HONE_ASSIGN_OR_RETURN(const bool written, read.Step());
  if (written && read.Bytes(0) == version) return absl::OkStatus();
  read.Reset();
  HONE_RETURN_IF_ERROR(database->Execute("DELETE FROM result; DELETE FROM meta"));
  HONE_ASSIGN_OR_RETURN(Statement write, database->Prepare("INSERT INTO meta(version) VALUES(?)"));
  return write.Bind(1, version).Run();
}

absl::Status SqliteCache::State::Count() {
  HONE_ASSIGN_OR_RETURN(Statement sums, database->Prepare(
                                            "SELECT count(*), total(length(verdict)), max(used) FROM result"));
  HONE_ASSIGN_OR_RETURN(const bool row, sums.Step());
  HONE_CHECK(row);
  entries = sums.Int(0);
  bytes = sums.Int(1) + entries * kEntryOverheadBytes;
  insertions = (sums.Int(2) + 1) * kUseStep;
  return absl::OkStatus();
}

absl::Status SqliteCache::State::Remove(const std::string& key, int64_t verdict_bytes) {
  HONE_RETURN_IF_ERROR(remove->Bind(1, key).Run());
  --entries;
  bytes -= verdict_bytes + kEntryOverheadBytes;
  return absl::OkStatus();
}

absl::Status SqliteCache::State::Evict() {
  while (bytes > limit_bytes && entries > 0) {
    HONE_ASSIGN_OR_RETURN(const bool row, oldest->Step());
    HONE_CHECK(row);
    const std::string key = oldest->Bytes(0);
    const int64_t verdict_bytes = oldest->Int(1);
    oldest->Reset();
    HONE_RETURN_IF_ERROR(Remove(key, verdict_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Verdict>> SqliteCache::Find(const std::string& key) {
  std::string bytes;
  {
    absl::MutexLock lock(&state_->mutex);
    HONE_ASSIGN_OR_RETURN(const bool row, state_->find->Bind(1, key).Step());
    if (!row) return std::nullopt;
    bytes = state_->find->Bytes(0);
    const bool stale = state_->find->Int(1) < state_->Now();
    state_->find->Reset();
    if (stale) HONE_RETURN_IF_ERROR(state_->touch->Bind(1, state_->Now()).Bind(2, key).Run());
  }
  HONE_ASSIGN_OR_RETURN(Verdict verdict, proto::Decode<Verdict>(bytes));
  verdict.from_cache = true;
  return verdict;
}

absl::Status SqliteCache::Put(const std::string& key, const Verdict& verdict) {
  if (!Cacheable(verdict)) return absl::OkStatus();
  const std::string bytes = proto::Encode(verdict);
  absl::MutexLock lock(&state_->mutex);
  HONE_ASSIGN_OR_RETURN(const bool row, state_->find->Bind(1, key).Step());
  if (row) {
    const int64_t old_bytes = static_cast<int64_t>(state_->find->Bytes(0).size());
    state_->find->Reset();
    HONE_RETURN_IF_ERROR(state_->Remove(key, old_bytes));
  }
  HONE_RETURN_IF_ERROR(state_->put->Bind(1, key).Bind(2, state_->Now()).BindBlob(3, bytes).Run());
  ++state_->insertions;
  ++state_->entries;
  state_->bytes += static_cast<int64_t>(bytes.size()) + kEntryOverheadBytes;
  return state_->Evict();
}

int64_t SqliteCache::entries() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->entries;
}

int64_t SqliteCache::bytes() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->bytes;
}

class FarmCache final : public ResultCache {
 public:
  explicit FarmCache(std::unique_ptr<SharedBytes> shared) : shared_(std::move(shared)) {}

  absl::StatusOr<std::optional<Verdict>> Find(const std::string& key) override {
    HONE_ASSIGN_OR_RETURN(const std::optional<std::string> bytes, shared_->Get(key));
    if (!bytes) return std::nullopt;
    HONE_ASSIGN_OR_RETURN(Verdict verdict, proto::Decode<Verdict>(*bytes));
    verdict.from_cache = true;
    return verdict;
  }
  absl::Status Put(const std::string& key, const Verdict& verdict) override {
    return Cacheable(verdict) ? shared_->Put(key, proto::Encode(verdict)) : absl::OkStatus();
  }
  int64_t entries() const override { return shared_->entries(); }
  int64_t bytes() const override { return shared_->bytes(); }

 private:
  const std::unique_ptr<SharedBytes> shared_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ResultCache>> ResultCache::Open(const ResultCacheOptions& options) {
  auto state = std::make_unique<SqliteCache::State>(options.limit_bytes);
  {
    absl::MutexLock lock(&state->mutex);
    HONE_ASSIGN_OR_RETURN(state->database, Database::Open(options.path));
    HONE_RETURN_IF_ERROR(state->Prepare(options.version));
    HONE_RETURN_IF_ERROR(state->Evict());
  }
  return std::make_unique<SqliteCache>(std::move(state));
}

std::unique_ptr<ResultCache> ResultCache::Over(std::unique_ptr<SharedBytes> shared) {
  return std::make_unique<FarmCache>(std::move(shared));
}

}  // namespace hone::verifier
