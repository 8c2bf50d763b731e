#include "base/metrics_page.h"

#include <httplib.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <string>

#include "tests/support/free_port.h"

namespace hone {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("A scrape gets the newest step's figures, kinds as labels, and nothing that is not finite", "[base]") {
  const int port = FreePort();
  const std::string address = "127.0.0.1:" + std::to_string(port);
  const auto page = MetricsPage::Serve(address);
  REQUIRE(page.ok());
  (*page)->Set(3, {{"learn/loss", 9}, {"learn/kl", 1}});
  (*page)->Set(4, {{"learn/loss", 0.25}, {"verdict/OK", 0.75}, {"verdict/COMPILE", 0.25}, {"reward/part/musacoder", -1}, {"learn/entropy", std::nan("")}});
  const auto scraped = httplib::Client("127.0.0.1", port).Get("/metrics");
  REQUIRE(scraped);
  CHECK(scraped->status == 200);
  const std::string& text = scraped->body;
  CHECK_THAT(text, ContainsSubstring("# TYPE hone_run_learn_loss gauge\nhone_run_learn_loss 0.25\n"));
  CHECK_THAT(text, ContainsSubstring("hone_run_verdict{kind=\"COMPILE\"} 0.25\nhone_run_verdict{kind=\"OK\"} 0.75\n"));
  CHECK_THAT(text, ContainsSubstring("hone_run_reward_part{kind=\"musacoder\"} -1\n"));
  CHECK_THAT(text, ContainsSubstring("hone_run_step 4\n"));
  CHECK_THAT(text, !ContainsSubstring("entropy"));
  CHECK_THAT(text, !ContainsSubstring("learn_kl"));

  const auto twice = MetricsPage::Serve(address);
  CHECK(twice.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(twice.status().message()), ContainsSubstring(address + ": Address already in use"));
}

}  // namespace
}  // namespace hone
