#include "verifier/lane/seeds.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sys/random.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "base/hash.h"

namespace hone::verifier {

absl::StatusOr<SecretSeeds> SecretSeeds::Create() {
  SecretSeeds seeds;
  if (getrandom(seeds.secret_.data(), seeds.secret_.size(), 0) != static_cast<ssize_t>(seeds.secret_.size())) {
    return ErrnoStatus(errno, "drawing a secret");
  }
  std::memcpy(&seeds.state_, seeds.secret_.data(), sizeof seeds.state_);
  return seeds;
}

int64_t SecretSeeds::NextSeed() {
  const absl::string_view secret(reinterpret_cast<const char*>(secret_.data()), secret_.size());
  const std::string digest = ContentKey({"seed", secret, absl::StrCat(++counter_)});
  return static_cast<int64_t>(std::strtoull(digest.substr(0, 16).c_str(), nullptr, 16) >> 2);
}

uint64_t SecretSeeds::Below(uint64_t bound) { return bound < 2 ? 0 : Next() % bound; }

/// splitmix64.
uint64_t SecretSeeds::Next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::string SecretSeeds::Id() const {
  const absl::string_view secret(reinterpret_cast<const char*>(secret_.data()), secret_.size());
  return ContentKey({"name", secret, absl::StrCat(counter_)}).substr(0, 16);
}

}  // namespace hone::verifier
