// Prints the first N sample texts, each as a little-endian 32-bit length and its bytes, for make_expected_ids.py.

#include <cstdio>
#include <cstdlib>

#include "tests/policy/tokenizer/sample_text.h"

int main(int argc, char** argv) {
  const uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string text = hone::policy::SampleText(i);
    const uint32_t size = static_cast<uint32_t>(text.size());
    std::fwrite(&size, sizeof size, 1, stdout);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
}
