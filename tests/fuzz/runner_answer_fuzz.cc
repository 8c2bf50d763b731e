// Any message from a candidate's process: a report, and from that a verdict that is never OK by its own word, that travels,
// and that can be written down and read back.

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/journal.h"
#include "proto/codec.h"
#include "verifier/lane/findings.h"
#include "verifier/runner/runner_host.h"

namespace {

hone::verifier::DeviceTable Table() {
  hone::verifier::DeviceTable table = {};
  table.launch_error_name = [](int) { return "cudaErrorUnknown"; };
  table.out_of_memory = 2;
  return table;
}

void Judge(const hone::verifier::Finding& finding) {
  hone::Verdict verdict;
  verdict.status = finding.status;
  verdict.message = finding.message;
  if (finding.rule) verdict.rules.push_back(*finding.rule);
  if (verdict.status == hone::VerdictStatus::kOk || verdict.message.size() > 1000) std::abort();
  for (const char c : verdict.message) {
    if ((c >= 0 && c < ' ') || c == '\x7f') std::abort();  // it stands in logs and terminals
  }
  const auto read = hone::VerdictFromJson(hone::VerdictToJson(verdict));
  if (!read.ok() || read->status != verdict.status) std::abort();
  const auto travelled = hone::proto::Decode<hone::Verdict>(hone::proto::Encode(verdict));
  if (!travelled.ok() || travelled->status != verdict.status) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hone::verifier;
  static const DeviceTable table = Table();
  // The first byte chooses the command, and how near the message is to what a runner sends.
  const uint8_t choice = size > 0 ? data[0] : 0;
  Command command;
  command.kind = static_cast<CommandKind>(1 + choice % 4);
  command.epoch = 0x1234567890abcdef;
  Answer answer;
  const size_t bytes = size > 0 ? std::min(size - 1, sizeof answer) : 0;
  if (bytes > 0) std::memcpy(&answer, data + 1, bytes);
  if ((choice & 0x10) != 0) answer.magic = kRunnerMagic;
  if ((choice & 0x20) != 0) answer.epoch = command.epoch;
  if ((choice & 0x40) != 0) answer.kind = static_cast<AnswerKind>(1 + (choice & 7));
  const std::string output(reinterpret_cast<const char*>(data), size);
  const std::vector<PlacedTensor> tensors = {{"x", 1 << 20, 4096}, {"out", 1 << 21, 4096}};
  for (const Answer* said : {static_cast<const Answer*>(&answer), static_cast<const Answer*>(nullptr)}) {
    const RunnerReport report = ReportOf(command, said);
    if (said == nullptr && report.kind != RunnerReport::Kind::kGarbage) std::abort();
    if (report.ok()) continue;
    Judge(ExplainReport(report, table, tensors, absl::Seconds(1), output));
    Judge(ExplainPython(report, table, absl::Seconds(1), output));
  }
  return 0;
}
