#include "verifier/service/access.h"

#include <sys/stat.h>

#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "base/steady_time.h"

namespace hone::verifier {
namespace {

constexpr int64_t kMaxFileBytes = 4 << 20;
constexpr size_t kMaxTokenBytes = 4096;

struct Client {
  std::string name;
  absl::Time expires = absl::InfiniteFuture();
  int quota = 0;
};
using Clients = std::map<std::string, Client>;  // by the hash of their token

absl::StatusOr<Clients> Parse(const std::string& path, absl::string_view text) {
  Clients clients;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const auto wrong = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": ", why));
    };
    if (words.size() != 4) return wrong(absl::StrCat(words.size(), " words; expected client, hash, end, open requests"));
    Client client;
    client.name = words[0];
    if (words[1].size() != 64 || words[1].find_first_not_of("0123456789abcdef") != std::string::npos) {
      return wrong(absl::StrCat("'", words[1], "' is no SHA-256 in 64 lower-case hexadecimal digits"));
    }
    std::string error;
    if (words[2] != "never" && !absl::ParseTime(absl::RFC3339_full, words[2], &client.expires, &error)) {
      return wrong(absl::StrCat("'", words[2], "' is neither a time like 2027-01-31T00:00:00Z nor never"));
    }
    if (!absl::SimpleAtoi(words[3], &client.quota) || client.quota < 1 || client.quota > 1'000'000) {
      return wrong(absl::StrCat("'", words[3], "' open requests; allowed are 1 to 1000000"));
    }
    if (!clients.emplace(words[1], std::move(client)).second) return wrong("this hash stands in an earlier line");
  }
  if (clients.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": names no client, so that nobody could come in"));
  return clients;
}

struct Stamp {
  int64_t seconds = 0, nanos = 0, size = -1;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

Stamp StampOf(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return {};
  return {info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_size};
}

/// Open requests by client, shared with the permits.
struct Counts {
  absl::Mutex mutex;
  std::map<std::string, int> open ABSL_GUARDED_BY(mutex);
};

class OpenRequest final : public Permit {
 public:
  OpenRequest(std::shared_ptr<Counts> counts, std::string client) : counts_(std::move(counts)), client_(std::move(client)) {}
  ~OpenRequest() override {
    absl::MutexLock lock(&counts_->mutex);
    if (--counts_->open[client_] == 0) counts_->open.erase(client_);
  }
  const std::string& client() const override { return client_; }

 private:
  const std::shared_ptr<Counts> counts_;
  const std::string client_;
};

class TokenFile final : public AccessControl {
 public:
  TokenFile(std::string path, Logger log) : path_(std::move(path)), log_(log.For("access")) {}

  absl::Status Read() {
    absl::MutexLock lock(&mutex_);
    return ReadLocked();
  }

  absl::StatusOr<std::shared_ptr<Permit>> Admit(absl::string_view authorization, absl::Time now) override {
    absl::string_view token = authorization;
    if (!absl::ConsumePrefix(&token, "Bearer ") && !absl::ConsumePrefix(&token, "bearer ")) {
      return absl::UnauthenticatedError("a bearer token is needed: authorization: Bearer <token>");
    }
    if (token.size() > kMaxTokenBytes) return absl::UnauthenticatedError("the token is unknown");
    HONE_ASSIGN_OR_RETURN(const Client client, Find(Sha256Hex(token)));
    if (now >= client.expires) {
      return absl::UnauthenticatedError(absl::StrCat("the token of ", client.name, " expired at ",
                                                     absl::FormatTime(absl::RFC3339_sec, client.expires, absl::UTCTimeZone())));
    }
    absl::MutexLock lock(&counts_->mutex);
    int& open = counts_->open[client.name];
    if (open >= client.quota) {
      return absl::ResourceExhaustedError(absl::StrCat(client.name, " has ", open, " requests open, its quota; wait for one to end"));
    }
    ++open;
    return std::make_shared<OpenRequest>(counts_, client.name);
  }

 private:
  absl::StatusOr<Client> Find(const std::string& hash) {
    absl::MutexLock lock(&mutex_);
    if (SteadyTime::Now() - looked_ > absl::Seconds(1)) {
      looked_ = SteadyTime::Now();
      if (StampOf(path_) != stamp_) {
        if (const absl::Status read = ReadLocked(); !read.ok()) log_.Error("tokens stay as they were", {{"error", read.message()}});
      }
    }
    const auto found = clients_.find(hash);
    if (found == clients_.end()) return absl::UnauthenticatedError("the token is unknown");
    return found->second;
  }

  absl::Status ReadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    stamp_ = StampOf(path_);
    HONE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path_, kMaxFileBytes));
    HONE_ASSIGN_OR_RETURN(clients_, Parse(path_, text));
    return absl::OkStatus();
  }

  const std::string path_;
  const Logger log_;
  const std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
  absl::Mutex mutex_;
  Clients clients_ ABSL_GUARDED_BY(mutex_);
  Stamp stamp_ ABSL_GUARDED_BY(mutex_);
  SteadyTime looked_ ABSL_GUARDED_BY(mutex_) = SteadyTime::InfinitePast();
};

}  // namespace

absl::StatusOr<std::unique_ptr<AccessControl>> AccessControl::Load(const std::string& path, Logger log) {
  auto access = std::make_unique<TokenFile>(path, std::move(log));
  HONE_RETURN_IF_ERROR(access->Read());
  return access;
}

}  // namespace hone::verifier
