// What the vendor's tools print, as a model can use it; and the call that they watch.

#include "verifier/lane/observer.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "lane/bench.h"
#include "verifier/lane/tool_reports.h"

namespace hone::verifier {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

// Layout of compute-sanitizer 2025.3.
constexpr char kReport[] = R"(========= COMPUTE-SANITIZER
the candidate prints this
========= Invalid __global__ read of size 4 bytes
=========     at scale(const float *, float *, int)+0xa0 in /call/candidate.cu:7
=========     by thread (96,0,0) in block (3,0,0)
=========     Address 0x7f2a6be00f80 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2a6be00000 of size 3968 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cudaLaunchKernel [0x7f34c] in libcudart.so.13
=========
========= Target application returned an error
========= ERROR SUMMARY: 1 error
)";

TEST_CASE("A memory checker's report keeps what happened where, and loses its frame and the host's", "[verifier][lane]") {
  const std::string report = TrimSanitizerReport(kReport, 4000);
  CHECK_THAT(report, ContainsSubstring("Invalid __global__ read of size 4 bytes"));
  CHECK_THAT(report, ContainsSubstring("in candidate.cu:7"));
  CHECK_THAT(report, ContainsSubstring("1 bytes after the nearest allocation"));
  CHECK_THAT(report, ContainsSubstring("ERROR SUMMARY: 1 error"));
  CHECK_THAT(report, !ContainsSubstring("Host Frame") && !ContainsSubstring("backtrace") && !ContainsSubstring("prints this"));
  CHECK(TrimSanitizerReport(kReport, 60).size() <= 60);
}

TEST_CASE("A memory checker that finds nothing has no report", "[verifier][lane]") {
  CHECK(TrimSanitizerReport("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", 4000).empty());
  CHECK(TrimSanitizerReport("", 4000).empty());
}

constexpr char kTable[] = R"csv(==PROF== Connected to process 7 (/usr/bin/hone-runner)
==PROF== Profiling "sum" - 0: 0%....50%....100% - 8 passes
"ID","Process ID","Kernel Name","dram__bytes.sum","dram__throughput.avg.pct_of_peak_sustained_elapsed","gpu__time_duration.sum","sm__sass_thread_inst_executed_op_fadd_pred_on.sum","sm__sass_thread_inst_executed_op_ffma_pred_on.sum","sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active"
"","","","byte","%","ns","inst","inst","%","%"
"0","7","first(const float *, int)","1,000","50","100","10","0","20","40"
"1","7","second<float>(float *)","4000","10","300","0","5","60","80"
"2","7","first(const float *, int)","3000","90","300","30","0","20","80"
)csv";

TEST_CASE("A profile names each kernel once, by time, with what its launches did together", "[verifier][lane]") {
  const absl::StatusOr<std::vector<KernelProfile>> profile = ParseProfile(kTable);
  REQUIRE(profile.ok());
  REQUIRE(profile->size() == 2);
  const KernelProfile& first = profile->front();
  CHECK(first.kernel == "first");
  CHECK(first.launches == 2);
  CHECK(first.time_ns == 400);
  CHECK_THAT(first.share, WithinRel(400.0 / 700, 1e-12));
  CHECK(first.bytes == 4000);
  CHECK(first.flop == 40);
  CHECK_THAT(first.occupancy, WithinRel((100 * 0.4 + 300 * 0.8) / 400, 1e-12));
  CHECK_THAT(first.roofline, WithinRel((100 * 0.5 + 300 * 0.9) / 400, 1e-12));
  const KernelProfile& second = profile->back();
  CHECK(second.kernel == "second<float>");
  CHECK(second.flop == 10);  // a multiply-add is two operations
  CHECK_THAT(second.roofline, WithinRel(0.6, 1e-12));
}

TEST_CASE("A profiler that may not read counters says so", "[verifier][lane]") {
  const auto denied = ParseProfile("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters\n");
  CHECK(absl::IsUnavailable(denied.status()));
  CHECK_THAT(std::string(denied.status().message()), ContainsSubstring("ERR_NVGPUCTRPERM"));
  CHECK(absl::IsInternal(ParseProfile("no table\n").status()));
}

TEST_CASE("A table that a candidate prints is read like any other text", "[verifier][lane]") {
  const std::string columns = "ID,ID,Kernel Name,gpu__time_duration.sum";
  for (const char* row : {"0,1", "0,1,k", "0,1,k,nan", "0,1,k,-5", "0,1,k,1e999", "0,1,k,inf", "0,1,\xff\xfe,7"}) {
    INFO(row);
    const auto profile = ParseProfile(absl::StrCat(columns, "\n", row, "\n"));
    REQUIRE(profile.ok());
    for (const KernelProfile& kernel : *profile) {
      CHECK((kernel.time_ns == 0 || kernel.time_ns == 7));
      CHECK((kernel.kernel == "k" || kernel.kernel == "\uFFFD"));
    }
  }
  std::string many = columns;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&many, "\n0,1,k", i, ",1");
  CHECK(ParseProfile(many)->size() == 64);
  CHECK(ParseProfile(absl::StrCat(columns, "\n0,1,", std::string(100'000, 'k'), ",1"))->front().kernel.size() <= 300);
  CHECK(TrimSanitizerReport("========= \xff", 4000) == "\uFFFD");
}

/// Stands for compute-sanitizer: runs the rest of its line and reports that it ended well, or that it did not.
constexpr char kFakeChecker[] = R"(#!/bin/sh
echo "========= COMPUTE-SANITIZER"
while [ "${1#--}" != "$1" ]; do shift 2; done
if "$@"; then echo "========= ERROR SUMMARY: 0 errors"; else echo "========= the call failed"; echo "========= ERROR SUMMARY: 1 error"; fi
)";

ObserverOptions Options(const TempFolder& folder) {
  ObserverOptions options;
  options.program = absl::StrCat(HONE_BINARY_DIR, "/bin/hone-runner");
  options.libraries = {absl::StrCat(HONE_BINARY_DIR, "/lib/libhone_cpu_runtime.so")};
  options.sandbox = "none";  // the tool is not one of the system's
  options.checker = folder.path() + "/checker";
  REQUIRE(WriteFileAtomically(options.checker, kFakeChecker).ok());
  REQUIRE(chmod(options.checker.c_str(), 0755) == 0);
  return options;
}

TEST_CASE("The watched call runs the candidate on real inputs, and its failure is the tool's to see", "[verifier][lane]") {
  test::Bench& bench = test::Bench::Get();
  const TempFolder folder = TempFolder::Create("observer-test").value();
  LaneJob job;
  job.task = test::RowScale();
  job.signature = bench.Describe(job.task);
  const auto device = Device::Open("cpu:0").value();
  const Observer observer(device.get(), Options(folder));
  SecretSeeds seeds = SecretSeeds::Create().value();
  ReferenceWorkerOptions worker_options;
  const char* python = std::getenv("HONE_PYTHON");
  worker_options.python = python != nullptr ? python : "python3";
  worker_options.script = ResourcePath("lane/reference_worker.py");
  const auto worker = ReferenceWorker::Create(worker_options).value();
  TaskSetsCache cache(device.get(), worker.get(), &seeds, LimitsFor(device->properties()));
  const TaskSets* sets = cache.Get(job.task, job.signature, Protocol{}, Format::kNative).value();

  job.build = bench.artefacts().Build(test::kRowScale, job.signature);
  REQUIRE(job.build.status == VerdictStatus::kOk);
  absl::StatusOr<std::string> report = observer.Sanitize(job, sets->cases.back());
  INFO(report.status());
  REQUIRE(report.ok());
  CHECK(report->empty());

  job.build = bench.artefacts().Hostile("return 9;");
  report = observer.Sanitize(job, sets->cases.back());
  REQUIRE(report.ok());
  CHECK_THAT(*report, ContainsSubstring("the call failed"));
}

TEST_CASE("A tool that is not there, or that does not start, is no failure of the candidate", "[verifier][lane]") {
  const auto device = Device::Open("cpu:0").value();
  const Observer observer(device.get(), ObserverOptions());
  CHECK(absl::IsUnavailable(observer.Sanitize(LaneJob(), CheckCase()).status()));
  CHECK(absl::IsUnavailable(observer.Profile(LaneJob(), CheckCase()).status()));
}

}  // namespace
}  // namespace hone::verifier
