// A client of the verifier in C++: what a training loop or an agent links (hone_verifier_client).
//
//   hone verifier --listen 127.0.0.1:50151 &
//   verify_client 127.0.0.1:50151 tasks/softmax/tempered_softmax.py examples/softmax.cu examples/softmax_wrong.cu
//
// Several endpoints, separated by commas, share the load, and the death of one costs only time.

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "verifier/client/client.h"

namespace {

absl::Status Judge(const std::string& endpoints, const std::string& task, const std::vector<std::string>& candidates) {
  hone::verifier::ClientOptions options;
  options.endpoints = absl::StrSplit(endpoints, ',');
  options.deadline = absl::Minutes(5);  // of one verdict, waiting in the queue included
  HONE_ASSIGN_OR_RETURN(const auto client, hone::verifier::Client::Create(options));

  std::vector<hone::VerifyRequest> requests(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    HONE_ASSIGN_OR_RETURN(requests[i].task.reference, hone::ReadFile(task));
    HONE_ASSIGN_OR_RETURN(requests[i].candidate.source, hone::ReadFile(candidates[i]));
    HONE_ASSIGN_OR_RETURN(requests[i].protocol, hone::ProtocolById("quick"));
    requests[i].trace_id = "example";  // stands in the verifier's log lines
  }
  // One stream; verdicts come as they are ready. What breaks on the way is tried again, on another endpoint too.
  return client->VerifyAll(requests, [&](size_t i, const hone::Verdict& verdict) {
    const hone::Timing* speed = verdict.speed();
    std::printf("%s: %s %s", candidates[i].c_str(), std::string(hone::Name(verdict.status)).c_str(), verdict.message.c_str());
    if (speed != nullptr) std::printf(" %.2fx [%.2f, %.2f]", speed->speedup.median, speed->speedup.low, speed->speedup.high);
    std::printf("\n");
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: verify_client ENDPOINT[,ENDPOINT...] TASK.py CANDIDATE.cu...\n");
    return 2;
  }
  const absl::Status status = Judge(argv[1], argv[2], std::vector<std::string>(argv + 3, argv + argc));
  if (!status.ok()) std::fprintf(stderr, "verify_client: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
