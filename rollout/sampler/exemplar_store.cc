#include "rollout/sampler/exemplar_store.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "rollout/sampler/exemplar_draw.h"

namespace hone::rollout {
namespace {

constexpr int64_t kVersion = 1;

/// Ends in a rollback unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database), status_(database.Execute("BEGIN IMMEDIATE")) {}
  ~Transaction() {
    if (open_ && status_.ok()) database_.Execute("ROLLBACK").IgnoreError();
  }
  const absl::Status& status() const { return status_; }
  absl::Status Commit() {
    open_ = false;
    return database_.Execute("COMMIT");
  }

 private:
  Database& database_;
  absl::Status status_;
  bool open_ = true;
};

/// The score of a verified pass; std::nullopt for anything else.
std::optional<double> SpeedupOf(const Verdict& verdict, const std::string& estimate) {
  if (!verdict.ok() || verdict.speed() == nullptr) return std::nullopt;
  const Estimate& speedup = verdict.speed()->speedup;
  const double value = estimate == "median" ? speedup.median : speedup.low;
  if (!std::isfinite(value) || value <= 0) return std::nullopt;
  return value;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExemplarStore>> ExemplarStore::Open(const std::string& path,
                                                                   const ExemplarConfig& config) {
  HONE_ASSIGN_OR_RETURN(std::unique_ptr<Database> database, Database::Open(path));
  std::unique_ptr<ExemplarStore> store(new ExemplarStore(config, std::move(database)));
  HONE_RETURN_IF_ERROR(store->CreateTables());
  return store;
}

absl::Status ExemplarStore::CreateTables() {
  Transaction transaction(*database_);
  HONE_RETURN_IF_ERROR(transaction.status());
  HONE_ASSIGN_OR_RETURN(const int64_t version, Number("PRAGMA user_version", ""));
  HONE_ASSIGN_OR_RETURN(const int64_t tables, Number("SELECT COUNT(*) FROM sqlite_master", ""));
  if (version > kVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("exemplar store of version ", version, "; this one reads ", kVersion));
  }
  if (version == 0 && tables > 0) return absl::DataLossError("a database, but not an exemplar store");
  if (version == 0) {
    HONE_RETURN_IF_ERROR(database_->Execute(R"(
      CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL);  -- device, baseline
      CREATE TABLE exemplars (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        task TEXT NOT NULL,
        content TEXT NOT NULL,             -- SHA-256 of the source
        bucket INTEGER NOT NULL,
        speedup REAL NOT NULL,
        source TEXT NOT NULL,
        origin TEXT NOT NULL,
        policy_version INTEGER NOT NULL,
        evicted_at INTEGER                 -- sequence that took its place; NULL: in the store
      );
      CREATE INDEX live ON exemplars (task, bucket, sequence) WHERE evicted_at IS NULL;
      CREATE UNIQUE INDEX contents ON exemplars (task, content) WHERE evicted_at IS NULL;
      PRAGMA user_version = 1;)"));
  }
  return transaction.Commit();
}

absl::StatusOr<int64_t> ExemplarStore::Number(const std::string& sql, const std::string& task_id) {
  HONE_ASSIGN_OR_RETURN(Statement statement, database_->Prepare(sql));
  if (!task_id.empty()) statement.Bind(1, task_id);
  HONE_ASSIGN_OR_RETURN(const bool row, statement.Step());
  return row ? statement.Int(0) : 0;
}

/// The first value given for `key` holds for the file.
absl::Status ExemplarStore::Bind(const std::string& key, const std::string& value) {
  HONE_ASSIGN_OR_RETURN(Statement read, database_->Prepare("SELECT value FROM facts WHERE key = ?"));
  read.Bind(1, key);
  HONE_ASSIGN_OR_RETURN(const bool known, read.Step());
  if (known && read.Bytes(0) != value) {
    return absl::FailedPreconditionError(absl::StrCat("the exemplar store holds scores of ", key, " '", read.Bytes(0),
                                                      "'; a candidate of ", key, " '", value,
                                                      "' cannot be compared with them"));
  }
  if (known) return absl::OkStatus();
  HONE_ASSIGN_OR_RETURN(Statement write, database_->Prepare("INSERT INTO facts VALUES (?, ?)"));
  return write.Bind(1, key).Bind(2, value).Run();
}

absl::StatusOr<bool> ExemplarStore::Known(const std::string& task_id, const std::string& content) {
  HONE_ASSIGN_OR_RETURN(
      Statement statement,
      database_->Prepare("SELECT 1 FROM exemplars WHERE task = ? AND content = ? AND evicted_at IS NULL"));
  statement.Bind(1, task_id).Bind(2, content);
  return statement.Step();
}

absl::StatusOr<OfferResult> ExemplarStore::Offer(const ExemplarOffer& offer) {
  std::optional<double> speedup = SpeedupOf(offer.verdict, config_.estimate);
  if (!speedup || offer.source.empty() || offer.task_id.empty()) return OfferResult::kIneligible;
  HONE_ASSIGN_OR_RETURN(const bool known, Known(offer.task_id, Sha256Hex(offer.source)));
  if (known) return OfferResult::kKnown;
  HONE_ASSIGN_OR_RETURN(const std::optional<double> best, Best(offer.task_id));
  if (config_.remeasure.Doubts(*speedup, best)) {
    if (!offer.second) return OfferResult::kDoubted;
    if (offer.second->status == VerdictStatus::kInfra) return OfferResult::kDoubted;  // our fault: nothing was measured
    const std::optional<double> again = SpeedupOf(*offer.second, config_.estimate);
    if (!again || offer.second->device != offer.verdict.device || !config_.remeasure.Confirms(*speedup, *again)) {
      return OfferResult::kRefuted;
    }
    speedup = std::min(*speedup, *again);
  }
  Transaction transaction(*database_);
  HONE_RETURN_IF_ERROR(transaction.status());
  HONE_RETURN_IF_ERROR(Bind("device", offer.verdict.device));
  HONE_RETURN_IF_ERROR(Bind("baseline", std::string(Name(offer.verdict.speed()->baseline))));
  HONE_RETURN_IF_ERROR(Insert(offer, *speedup));
  HONE_RETURN_IF_ERROR(transaction.Commit());
  return OfferResult::kStored;
}

absl::Status ExemplarStore::Insert(const ExemplarOffer& offer, double speedup) {
  const auto bucket = static_cast<int64_t>(std::floor(speedup / config_.bucket_width));
  HONE_ASSIGN_OR_RETURN(Statement statement,
                        database_->Prepare("INSERT INTO exemplars (task, content, bucket, speedup, source, origin, "
                                           "policy_version) VALUES (?, ?, ?, ?, ?, ?, ?)"));
  statement.Bind(1, offer.task_id).Bind(2, Sha256Hex(offer.source)).Bind(3, bucket).BindReal(4, speedup);
  HONE_RETURN_IF_ERROR(statement.Bind(5, offer.source).Bind(6, offer.origin).Bind(7, offer.policy_version).Run());
  HONE_ASSIGN_OR_RETURN(const int64_t sequence, Number("SELECT MAX(sequence) FROM exemplars", ""));
  return MakeRoom(offer.task_id, bucket, sequence);
}

absl::Status ExemplarStore::MakeRoom(const std::string& task_id, int64_t bucket, int64_t sequence) {
  HONE_ASSIGN_OR_RETURN(
      const int64_t in_bucket,
      Number(absl::StrCat("SELECT COUNT(*) FROM exemplars WHERE task = ? AND evicted_at IS NULL AND bucket = ", bucket),
             task_id));
  if (in_bucket > config_.per_bucket) HONE_RETURN_IF_ERROR(EvictOldest(task_id, bucket, sequence));
  HONE_ASSIGN_OR_RETURN(const int64_t in_task,
                        Number("SELECT COUNT(*) FROM exemplars WHERE task = ? AND evicted_at IS NULL", task_id));
  if (in_task <= config_.per_task) return absl::OkStatus();
  // The fullest bucket; of equally full ones the slowest, so that the best scores stay.
  HONE_ASSIGN_OR_RETURN(const int64_t fullest,
                        Number("SELECT bucket FROM exemplars WHERE task = ? AND evicted_at IS NULL GROUP BY bucket "
                               "ORDER BY COUNT(*) DESC, bucket ASC LIMIT 1",
                               task_id));
  return EvictOldest(task_id, fullest, sequence);
}

absl::Status ExemplarStore::EvictOldest(const std::string& task_id, int64_t bucket, int64_t sequence) {
  HONE_ASSIGN_OR_RETURN(Statement statement,
                        database_->Prepare("UPDATE exemplars SET evicted_at = ? WHERE sequence = (SELECT MIN(sequence) "
                                           "FROM exemplars WHERE task = ? AND bucket = ? AND evicted_at IS NULL)"));
  return statement.Bind(1, sequence).Bind(2, task_id).Bind(3, bucket).Run();
}

absl::StatusOr<std::optional<std::pair<Exemplar, Exemplar>>> ExemplarStore::Draw(const std::string& task_id,
                                                                                 SplitMix& random) {
  std::vector<int64_t> buckets;
  std::vector<int64_t> counts;
  std::vector<double> means;
  HONE_ASSIGN_OR_RETURN(Statement statement,
                        database_->Prepare("SELECT bucket, COUNT(*), AVG(speedup) FROM exemplars WHERE task = ? AND "
                                           "evicted_at IS NULL GROUP BY bucket ORDER BY bucket"));
  statement.Bind(1, task_id);
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool row, statement.Step());
    if (!row) break;
    buckets.push_back(statement.Int(0));
    counts.push_back(statement.Int(1));
    means.push_back(statement.Real(2));
  }
  if (buckets.size() < 2) return std::nullopt;
  auto [slower, faster] = DrawTwoBuckets(means, config_.tau, random);
  if (slower > faster) std::swap(slower, faster);
  HONE_ASSIGN_OR_RETURN(Exemplar first, DrawFrom(task_id, buckets[slower], counts[slower], random));
  HONE_ASSIGN_OR_RETURN(Exemplar second, DrawFrom(task_id, buckets[faster], counts[faster], random));
  return std::make_pair(std::move(first), std::move(second));
}

absl::StatusOr<Exemplar> ExemplarStore::DrawFrom(const std::string& task_id, int64_t bucket, int64_t count,
                                                 SplitMix& random) {
  HONE_ASSIGN_OR_RETURN(Statement statement,
                        database_->Prepare("SELECT source, speedup FROM exemplars WHERE task = ? AND bucket = ? AND "
                                           "evicted_at IS NULL ORDER BY sequence LIMIT 1 OFFSET ?"));
  statement.Bind(1, task_id).Bind(2, bucket).Bind(3, random.Below(count));
  HONE_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return absl::InternalError(absl::StrCat("bucket ", bucket, " of ", task_id, " lost a candidate"));
  return Exemplar{statement.Bytes(0), statement.Real(1)};
}

absl::StatusOr<std::optional<double>> ExemplarStore::Best(const std::string& task_id) {
  HONE_ASSIGN_OR_RETURN(
      Statement statement,
      database_->Prepare("SELECT speedup FROM exemplars WHERE task = ? AND evicted_at IS NULL ORDER BY "
                         "speedup DESC LIMIT 1"));
  statement.Bind(1, task_id);
  HONE_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return std::nullopt;
  return statement.Real(0);
}

absl::StatusOr<int64_t> ExemplarStore::Size() {
  return Number("SELECT COUNT(*) FROM exemplars WHERE evicted_at IS NULL", "");
}

absl::StatusOr<int64_t> ExemplarStore::Mark() {
  return Number("SELECT seq FROM sqlite_sequence WHERE name = 'exemplars'", "");
}

absl::Status ExemplarStore::RestoreTo(int64_t mark) {
  Transaction transaction(*database_);
  HONE_RETURN_IF_ERROR(transaction.status());
  HONE_ASSIGN_OR_RETURN(const int64_t now, Mark());
  HONE_ASSIGN_OR_RETURN(const int64_t forgotten, Number("SELECT value FROM facts WHERE key = 'forgotten'", ""));
  if (mark > now || mark < forgotten) {
    return absl::NotFoundError(
        absl::StrCat("exemplar store has no mark ", mark, ": it can go back to ", forgotten, " up to ", now));
  }
  HONE_RETURN_IF_ERROR(
      database_->Execute(absl::StrCat("DELETE FROM exemplars WHERE sequence > ", mark, ";",
                                      "UPDATE exemplars SET evicted_at = NULL WHERE evicted_at > ", mark, ";",
                                      "UPDATE sqlite_sequence SET seq = ", mark, " WHERE name = 'exemplars'")));
  return transaction.Commit();
}

absl::Status ExemplarStore::Forget(int64_t mark) {
  Transaction transaction(*database_);
  HONE_RETURN_IF_ERROR(transaction.status());
  HONE_RETURN_IF_ERROR(database_->Execute(absl::StrCat("DELETE FROM exemplars WHERE evicted_at <= ", mark)));
  HONE_RETURN_IF_ERROR(
      database_->Execute(absl::StrCat("INSERT OR REPLACE INTO facts VALUES ('forgotten', '", mark, "')")));
  return transaction.Commit();
}

}  // namespace hone::rollout
