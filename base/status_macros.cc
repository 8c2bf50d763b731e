#include "base/status_macros.h"

#include <cstdio>
#include <cstdlib>

namespace hone::internal {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace hone::internal
