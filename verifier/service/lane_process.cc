#include "verifier/service/lane_process.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "verifier/lane/affinity.h"
#include "verifier/service/noop_lane.h"
#include "verifier/service/wire.h"

namespace hone::verifier {
namespace {

constexpr int kChildFd = 3;
constexpr absl::Duration kIdle = absl::Milliseconds(300);  // without a job, until a lane works ahead: there are none just now

class LaneProcess final : public Lane {
 public:
  LaneProcess(Child child, UniqueFd socket, absl::Duration grace)
      : child_(std::move(child)), socket_(std::move(socket)), grace_(grace) {}

  absl::Status AwaitReady(SteadyTime deadline) {
    const absl::StatusOr<LaneReply> reply = Receive(deadline);
    if (!reply.ok()) return reply.status();
    const auto* facts = std::get_if<LaneFacts>(&*reply);
    if (facts == nullptr) return absl::InternalError("the lane did not say what it is");
    facts_ = *facts;
    return absl::OkStatus();
  }

  absl::StatusOr<Verdict> Judge(const LaneJob& job) override {
    const SteadyTime deadline = SteadyTime::Now() + absl::Milliseconds(job.protocol.run_timeout_ms) + grace_;
    HONE_ASSIGN_OR_RETURN(Judged judged, Ask<Judged>(job, deadline));
    supply_ = judged.supply;
    return std::move(judged.verdict);
  }

  absl::StatusOr<Signature> Describe(const Task& task) override {
    return Ask<Signature>(task, SteadyTime::Now() + grace_);
  }

  LaneFacts Facts() const override { return facts_; }
  RunnerSupply Supply() const override { return supply_; }

  /// Both ends then read as closed; the descriptor itself stays until no thread can be using it.
  void Interrupt() override {
    absl::MutexLock lock(&mutex_);
    interrupted_ = true;
    shutdown(socket_.get(), SHUT_RDWR);
  }

 private:
  template <class Answer>
  absl::StatusOr<Answer> Ask(const LaneRequest& request, SteadyTime deadline) {
    const absl::Status sent = SendFrame(socket_.get(), EncodeLaneRequest(request), deadline);
    if (!sent.ok()) return Died(sent);
    absl::StatusOr<LaneReply> reply = Receive(deadline);
    if (!reply.ok()) return reply.status();
    if (auto* answer = std::get_if<Answer>(&*reply)) return std::move(*answer);
    return absl::InternalError("the lane answered another question");
  }

  absl::StatusOr<LaneReply> Receive(SteadyTime deadline) {
    absl::StatusOr<std::string> frame = ReceiveFrame(socket_.get(), deadline);
    if (!frame.ok()) return Died(frame.status());
    return DecodeLaneReply(*frame);
  }

  /// Ends the child and says what became of it.
  absl::Status Died(const absl::Status& cause) {
    {
      absl::MutexLock lock(&mutex_);
      if (interrupted_) return absl::CancelledError("the lane was stopped");
    }
    if (absl::IsDeadlineExceeded(cause)) {
      child_.Kill();
      return absl::DeadlineExceededError("the lane did not answer in time and was killed");
    }
    // The socket closes an instant before the process can be reaped.
    absl::StatusOr<int> code = child_.Wait(SteadyTime::Now() + absl::Seconds(1));
    child_.Kill();
    if (!code.ok()) return absl::UnavailableError(absl::StrCat("the lane is gone: ", cause.message()));
    if (*code > 128) return absl::UnavailableError(absl::StrCat("the lane died of signal ", *code - 128));
    return absl::UnavailableError(absl::StrCat("the lane ended with exit code ", *code));
  }

  Child child_;
  const UniqueFd socket_;
  const absl::Duration grace_;
  LaneFacts facts_;
  RunnerSupply supply_;
  absl::Mutex mutex_;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<Verdict> JudgeAloud(Lane& lane, const LaneJob& job, const Logger& log) {
  log.Debug("judging", {{"task", job.task.id}, {"toolchain", job.build.toolchain}});
  absl::StatusOr<Verdict> verdict = lane.Judge(job);
  if (verdict.ok()) {
    log.Debug("judged", {{"status", Name(verdict->status)}, {"check_s", verdict->seconds.check}, {"time_s", verdict->seconds.time}});
  } else {
    log.Warning("cannot judge", {{"task", job.task.id}, {"error", verdict.status().message()}});
  }
  return verdict;
}

absl::StatusOr<LaneReply> Answer(Lane& lane, const absl::StatusOr<LaneRequest>& request, const Logger& log) {
  if (!request.ok()) return request.status();
  if (const auto* job = std::get_if<LaneJob>(&*request)) {
    HONE_ASSIGN_OR_RETURN(Verdict verdict, JudgeAloud(lane, *job, log.With({{"trace", job->trace_id}})));
    return Judged{std::move(verdict), lane.Supply()};
  }
  HONE_ASSIGN_OR_RETURN(Signature signature, lane.Describe(std::get<Task>(*request)));
  return signature;
}

absl::StatusOr<LaneReply> Greeting(const absl::StatusOr<std::unique_ptr<Lane>>& lane) {
  if (!lane.ok()) return lane.status();
  return (*lane)->Facts();
}

absl::StatusOr<std::unique_ptr<Lane>> CreateLane(const LaneOptions& options) {
  if (options.device == kNoopDevice) return MakeNoopLane();
  return Lane::Create(options);
}

/// Whether something is there to be read, or the end of the stream.
bool HasWork(int fd, absl::Duration wait) {
  pollfd item = {fd, POLLIN, 0};
  return poll(&item, 1, static_cast<int>(absl::ToInt64Milliseconds(wait))) != 0;
}

/// The next job waits for at most one step.
void WorkAheadUntilAsked(Lane& lane, int fd) {
  if (HasWork(fd, kIdle)) return;
  while (lane.WorkAhead() && !HasWork(fd, absl::ZeroDuration())) {
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Lane>> StartLaneProcess(const LaneProcessOptions& options) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return ErrnoStatus(errno, "making a socket pair");
  UniqueFd ours(ends[0]), theirs(ends[1]);
  SpawnOptions spawn;
  spawn.argv = {options.program.empty() ? absl::StrCat(ProgramFolder(), "/hone-verifier") : options.program,
                "lane",
                absl::StrCat("--fd=", kChildFd),
                absl::StrCat("--device=", options.lane.device),
                absl::StrCat("--python=", options.lane.python),
                absl::StrCat("--sandbox=", options.lane.sandbox),
                absl::StrCat("--runners-ahead=", options.lane.runners_ahead),
                absl::StrCat("--task-memory-share=", options.lane.task_memory_share),
                absl::StrCat("--cpu-core=", options.lane.cpu_core),
                absl::StrCat("--log-level=", std::string(Name(options.log_level)))};
  spawn.pass_fds = {{theirs.get(), kChildFd}, {2, 2}};
  HONE_ASSIGN_OR_RETURN(Child child, [&] {
    const ScopedCores cores(options.cores);
    return Child::Spawn(spawn);
  }());
  theirs.Reset();
  auto lane = std::make_unique<LaneProcess>(std::move(child), std::move(ours), options.grace);
  HONE_RETURN_IF_ERROR(lane->AwaitReady(SteadyTime::Now() + options.start_timeout));
  return std::unique_ptr<Lane>(std::move(lane));
}

int ServeLane(int fd, const LaneOptions& options) {
  constexpr SteadyTime kNever = SteadyTime::InfiniteFuture();
  absl::StatusOr<std::unique_ptr<Lane>> lane = CreateLane(options);
  if (!SendFrame(fd, EncodeLaneReply(Greeting(lane)), kNever).ok() || !lane.ok()) return 1;
  while (true) {
    WorkAheadUntilAsked(**lane, fd);
    const absl::StatusOr<std::string> frame = ReceiveFrame(fd, kNever);
    if (!frame.ok()) return 0;
    const std::string reply = EncodeLaneReply(Answer(**lane, DecodeLaneRequest(*frame), options.log));
    if (!SendFrame(fd, reply, kNever).ok()) return 0;
  }
}

}  // namespace hone::verifier
