#include "verifier/queue/redis_connection.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace hone::verifier {
namespace {

/// hiredis writes without MSG_NOSIGNAL: a Redis that went away would end the process, unless the program happens to ignore
/// SIGPIPE. Blocks the signal in this thread and takes away the one that a write has caused.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec no_time = {};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &no_time);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

RedisReply Copy(const redisReply& from) {
  RedisReply reply;
  switch (from.type) {
    case REDIS_REPLY_INTEGER:
      reply.kind = RedisReply::Kind::kInteger;
      reply.integer = from.integer;
      break;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      reply.kind = RedisReply::Kind::kText;
      reply.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_ARRAY:
      reply.kind = RedisReply::Kind::kList;
      reply.list.reserve(from.elements);
      for (size_t i = 0; i < from.elements; ++i) reply.list.push_back(Copy(*from.element[i]));
      break;
    default: break;
  }
  return reply;
}

/// Redis' own error words, by what the caller can do about them.
absl::Status ErrorOf(const std::string& name, absl::string_view text) {
  const std::string message = absl::StrCat(name, ": ", text);
  for (absl::string_view passing : {"LOADING", "BUSY", "TRYAGAIN", "MASTERDOWN", "READONLY", "NOSCRIPT", "CLUSTERDOWN"}) {
    if (absl::StartsWith(text, passing)) return absl::UnavailableError(message);
  }
  if (absl::StartsWith(text, "OOM") || absl::StartsWith(text, "MISCONF")) return absl::ResourceExhaustedError(message);
  for (absl::string_view refused : {"NOAUTH", "WRONGPASS", "NOPERM", "ERR invalid password", "ERR DB index",
                                    "ERR AUTH", "ERR Client sent AUTH"}) {
    if (absl::StartsWith(text, refused)) return absl::FailedPreconditionError(message);
  }
  return absl::InternalError(message);
}

}  // namespace

std::string RedisAddress::Name() const { return absl::StrCat("redis://", host, ":", port, "/", database); }

absl::StatusOr<RedisAddress> ParseRedisUrl(const std::string& url) {
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("'", url, "': ", why, "; expected redis://[[user]:password@]host[:port][/database]"));
  };
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, "redis://")) return wrong("not a redis:// address");
  RedisAddress address;
  if (const size_t at = rest.rfind('@'); at != absl::string_view::npos) {
    const absl::string_view login = rest.substr(0, at);
    const size_t colon = login.find(':');
    if (colon == absl::string_view::npos) return wrong("a login without a colon");
    address.user = std::string(login.substr(0, colon));
    address.password = std::string(login.substr(colon + 1));
    rest.remove_prefix(at + 1);
  }
  if (const size_t slash = rest.find('/'); slash != absl::string_view::npos) {
    const absl::string_view database = rest.substr(slash + 1);
    if (!database.empty() && (!absl::SimpleAtoi(database, &address.database) || address.database < 0)) {
      return wrong("the database is no number");
    }
    rest = rest.substr(0, slash);
  }
  if (const size_t colon = rest.rfind(':'); colon != absl::string_view::npos && !absl::EndsWith(rest, "]")) {
    if (!absl::SimpleAtoi(rest.substr(colon + 1), &address.port) || address.port < 1 || address.port > 65535) {
      return wrong("the port is not in [1, 65535]");
    }
    rest = rest.substr(0, colon);
  }
  absl::ConsumePrefix(&rest, "[");
  absl::ConsumeSuffix(&rest, "]");
  if (rest.empty()) return wrong("no host");
  address.host = std::string(rest);
  const char* password = std::getenv("HONE_REDIS_PASSWORD");
  if (address.password.empty() && password != nullptr) address.password = password;
  return address;
}

absl::string_view RedisReply::TextAt(size_t index) const {
  return index < list.size() ? absl::string_view(list[index].text) : absl::string_view();
}

RedisConnection::RedisConnection(redisContext* context, std::string name) : context_(context), name_(std::move(name)) {}
RedisConnection::~RedisConnection() { redisFree(context_); }

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnection::Open(const RedisAddress& address, absl::Duration timeout) {
  redisContext* context = redisConnectWithTimeout(address.host.c_str(), address.port, absl::ToTimeval(timeout));
  if (context == nullptr) return absl::ResourceExhaustedError("out of memory");
  std::unique_ptr<RedisConnection> connection(new RedisConnection(context, address.Name()));
  if (context->err != 0) return absl::UnavailableError(absl::StrCat(address.Name(), ": ", context->errstr));
  redisEnableKeepAlive(context);
  redisSetTimeout(context, absl::ToTimeval(timeout));
  if (!address.password.empty()) {
    std::vector<absl::string_view> login = {"AUTH"};
    if (!address.user.empty()) login.push_back(address.user);
    login.push_back(address.password);
    HONE_RETURN_IF_ERROR(connection->Run(login).status());
  }
  HONE_RETURN_IF_ERROR(connection->Run({"SELECT", absl::StrCat(address.database)}).status());
  return connection;
}

absl::Status RedisConnection::Broken() {
  broken_ = true;
  return absl::UnavailableError(absl::StrCat(name_, ": ", context_->err != 0 ? context_->errstr : "the connection broke"));
}

absl::Status RedisConnection::Append(const std::vector<absl::string_view>& arguments) {
  std::vector<const char*> data;
  std::vector<size_t> sizes;
  for (absl::string_view argument : arguments) {
    data.push_back(argument.data() == nullptr ? "" : argument.data());
    sizes.push_back(argument.size());
  }
  if (redisAppendCommandArgv(context_, static_cast<int>(data.size()), data.data(), sizes.data()) != REDIS_OK) return Broken();
  return absl::OkStatus();
}

absl::StatusOr<RedisReply> RedisConnection::Next() {
  const WithoutSigpipe guard;
  void* raw = nullptr;
  if (redisGetReply(context_, &raw) != REDIS_OK || raw == nullptr) return Broken();
  const std::unique_ptr<void, void (*)(void*)> owner(raw, freeReplyObject);
  const auto& reply = *static_cast<const redisReply*>(raw);
  if (reply.type == REDIS_REPLY_ERROR) return ErrorOf(name_, absl::string_view(reply.str, reply.len));
  return Copy(reply);
}

absl::StatusOr<RedisReply> RedisConnection::Run(const std::vector<absl::string_view>& arguments) {
  if (broken_) return Broken();
  HONE_RETURN_IF_ERROR(Append(arguments));
  return Next();
}

absl::StatusOr<std::vector<absl::StatusOr<RedisReply>>> RedisConnection::RunAll(
    const std::vector<std::vector<absl::string_view>>& commands) {
  if (broken_) return Broken();
  for (const std::vector<absl::string_view>& command : commands) HONE_RETURN_IF_ERROR(Append(command));
  std::vector<absl::StatusOr<RedisReply>> replies;
  for (size_t i = 0; i < commands.size(); ++i) {
    replies.push_back(Next());
    if (broken_) return Broken();
  }
  return replies;
}

absl::StatusOr<RedisReply> RedisConnection::Receive(absl::Duration timeout) {
  if (broken_) return Broken();
  void* ready = nullptr;
  if (redisGetReplyFromReader(context_, &ready) != REDIS_OK) return Broken();
  if (ready == nullptr) {
    pollfd waiting{context_->fd, POLLIN, 0};
    const int polled = poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
    if (polled == 0 || (polled < 0 && errno == EINTR)) return absl::DeadlineExceededError("nothing was said");
    return Next();
  }
  const std::unique_ptr<void, void (*)(void*)> owner(ready, freeReplyObject);
  return Copy(*static_cast<const redisReply*>(ready));
}

void RedisConnection::Shutdown() { shutdown(context_->fd, SHUT_RDWR); }

}  // namespace hone::verifier
