#pragma once

// How a run that workers sample for deals out its prompts.

#include <cstdint>
#include <string>

#include "base/config.h"

namespace hone::cli {

struct WorkersSettings {
  std::string listen;
  int64_t store_port = 0;
  std::string transport = "auto";
  int64_t count = 1;
  double lease_s = 60;
  double quorum = 1;
  double grace_s = 30;
  int64_t max_attempts = 10;
  double patience_s = 3600;
};
template <class F>
void Describe(F& f, WorkersSettings& c) {
  f.Value("listen", c.listen, "host:port or unix:/path where hone worker finds this run; empty: this process samples");
  f.Value("store_port", c.store_port, Range<int64_t>(0, 65535), "where weights are met, on the same host; 0: any that is free");
  f.Value("transport", c.transport, OneOf{{"auto", "nccl", "store"}},
          "of weights; auto: nccl from a GPU, else store, which also serves a worker on the learner's own GPU");
  f.Value("count", c.count, Range<int64_t>(1, 4096), "workers expected: none takes more than its share of a batch, also the first that comes");
  f.Value("lease_s", c.lease_s, Range(0.1, 86400.0), "seconds without a sign of life after which a worker's groups go to others");
  f.Value("quorum", c.quorum, Range(0.01, 1.0), "share of a batch's groups after which the rest is waited for no longer than grace_s");
  f.Value("grace_s", c.grace_s, Range(0.0, 86400.0), "seconds; groups that come later go with a later batch");
  f.Value("max_attempts", c.max_attempts, Range<int64_t>(1, 100000), "leases of a group that may be lost or given back before it is given up");
  f.Value("patience_s", c.patience_s, Range(1.0, 1e7), "seconds in which no group comes and no worker is there, after which the run ends");
}

}  // namespace hone::cli
