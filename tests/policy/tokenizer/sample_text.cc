#include "tests/policy/tokenizer/sample_text.h"

#include <cstdlib>

#include "base/hash.h"
#include "policy/tokenizer/unicode.h"

namespace hone::policy {
namespace {

const char* const kCode[] = {
    "__global__ void softmax(const float* __restrict__ x, float* y, int rows, int cols) {\n",
    "  const int row = blockIdx.x * blockDim.y + threadIdx.y;\n  if (row >= rows) return;\n",
    "  extern __shared__ __align__(16) unsigned char smem[];\n\n\n",
    "  float4 v = reinterpret_cast<const float4*>(x)[(size_t)row * cols / 4 + lane];\n",
    "\t\tacc = fmaf(a[i][k], b[k][j], acc);\t// 2*M*N*K flops\r\n",
    "  for (int offset = 16; offset > 0; offset >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, offset));\n",
    "  asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\\n\" :: \"r\"(dst), \"l\"(src));\n",
    "dim3 grid((n + 255) / 256, 1, 1);\nlaunch<<<grid, 256, 48 * 1024, stream>>>(x, y, n);\n",
    "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def __init__(self, in_features: int):\n",
    "        super().__init__()\n        self.fc = nn.Linear(in_features, 4096, bias=False)\n\n",
    "    def forward(self, x):\n        return torch.relu(self.fc(x)).sum(dim=-1, keepdim=True)  # [batch, 1]\n",
    "template <typename T, int kTile = 32> struct Foo { static constexpr auto value = sizeof(T) << kTile; };\n",
    "#define CHECK_CUDA(x) do { cudaError_t e = (x); if (e != cudaSuccess) abort(); } while (0)\n",
    "if(a&&b||!c){return a?b:c;}else{x^=y;z|=~w;}", "0x1F 1e-5f 3.14159265358979 1_000_000 007 12345678901234567890",
    "std::vector<std::pair<int64_t,std::string>>v{{1,\"a\"},{2,\"b\\u00e9\\n\"}};", "```cpp\n#include <cuda_runtime.h>\n```\n",
    "SELECT * FROM t WHERE a='it''s' AND b<>\"q\";", "https://example.org/a/b?c=d&e=%20f#g", "{\"k\": [1, 2.5e10, null, true]}"};

const char* const kProse[] = {
    "The quick brown fox jumps over the lazy dog.", "I'm sure they'll say we've done it, don't you think he'd agree?",
    "I'LL NEVER DON'T IT'S WE'VE THEY'RE I'D", "it'\u017F 'S 's 'T\u017F", "na\u00efve caf\u00e9 \u00e0 la cr\u00e8me br\u00fbl\u00e9e",
    "na\u0069\u0308ve cafe\u0301 cre\u0300me", "Stra\u00dfe \u00fcber \u00c4pfel \ufb01nden", "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u8fd9\u662f\u4e00\u4e2aCUDA\u5185\u6838\u3002",
    "\u77e9\u9635\u4e58\u6cd5\u7684\u5171\u4eab\u5185\u5b58\u4f18\u5316\uff1a\u6bcf\u4e2a\u7ebf\u7a0b\u5757\u8ba1\u7b97\u4e00\u4e2a32\u00d732\u7684\u5206\u5757",
    "\u3053\u3093\u306b\u3061\u306f\u3001\u4e16\u754c\u3002\u30ab\u30bf\u30ab\u30ca \u304b\u3099", "\uc548\ub155\ud558\uc138\uc694 \u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0401\u043b\u043a\u0430",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0661\u0662\u0663", "\u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05dc\u05dd", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e \u0958 \u0967\u0968\u0969", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01 \u0e33",
    "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5 \u1fbd", "Xin ch\u00e0o th\u1ebf gi\u1edbi, \u0111\u01b0\u1eddng Ngo\u0323\u0302c", "\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0 \u1c92\u10d0", "\u0f56\u0f7c\u0f51\u0f0b\u0f66\u0f90\u0f51\u0f0b \u0f73"};

const char* const kSymbols[] = {
    "\U0001F680\U0001F525", "\U0001F468\u200D\U0001F469\u200D\U0001F467\u200D\U0001F466", "\U0001F44D\U0001F3FD", "\U0001F1E9\U0001F1EA\U0001F1E8\U0001F1F3", "\u2764\ufe0f", "\u00b2\u00b3\u00bd\u2460\u2167\u0bf0",
    "\u2200x\u2208\u211d: \u2211\u1d62 x\u1d62\u00b2 \u2264 \u221e", "\u212b \u2126 \u212a \uf900 \U0002f800", "\u200b\u200c\u200d\ufeff\u00ad", "a\u0300\u0301\u0323\u0345b", "\u0344\u0958\u09dc\u2adc",
    "\u2581\u2581x\u2581", "\u0120\u010a\u00c4", "<0x0A><0xFF>", "\u202eabc\u202c", "\ufffd\ufffe\uffff", "\U0010ffff\U000e0001", "\u2028\u2029\u0085", "\U0001d54f\U0001d7d8\U0001e900", "\u1e9e\u0130\u0131"};

const char* const kSpecials[] = {"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>",
                                 "<|start_header_id|>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<pad>", "<unk>",
                                 "<think>", "</think>", "<tool_call>", "<|fim_prefix|>", "<unused12>", "<|im_start", "<|", "<|im_end|><|im_end|>",
                                 "[INST]", "</s>", "<mask>", "<h1>", "<|reserved_special_token_5|>"};

const char32_t kSpaces[] = {0x20, 0x20, 0x20, 0x0A, 0x0A, 0x0D, 0x09, 0x0B, 0x0C, 0x85, 0xA0, 0x1680, 0x180E, 0x2000, 0x2003,
                            0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0x200B, 0xFEFF, 0x1C, 0x1F};

/// SplitMix64: the same everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0xD1342543DE82EF95u) {}
  uint64_t Below(uint64_t n) {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (z ^ (z >> 31)) % n;
  }
  template <class T, size_t n>
  T Pick(T const (&items)[n]) {
    return items[Below(n)];
  }

 private:
  uint64_t state_;
};

void AppendRandomChar(Random& random, std::string& text) {
  constexpr char32_t kEnds[] = {0x80, 0x250, 0x600, 0x1100, 0x3000, 0xA000, 0x10000, 0x20000, 0x30000, 0x110000};
  const char32_t c = static_cast<char32_t>(random.Below(random.Pick(kEnds)));
  AppendChar(c >= 0xD800 && c < 0xE000 ? U'x' : c, text);
}

void AppendRun(Random& random, std::string& text) {
  const char* const units[] = {"a", " ", "\n", "ab", "0", "=", "\u4e2d", "e\u0301", "\U0001F600", "\t", "-_", " x", "\r\n", "\x80"};
  const std::string unit = random.Pick(units);
  const uint64_t longest = random.Below(20) == 0 ? 3000 : 60;
  for (uint64_t n = 1 + random.Below(longest); n > 0; --n) text += unit;
}

void AppendFragment(Random& random, std::string& text) {
  switch (random.Below(12)) {
    case 0:
    case 1:
    case 2: text += random.Pick(kCode); break;
    case 3: text += random.Pick(kProse); break;
    case 4: text += random.Pick(kSymbols); break;
    case 5: text += random.Pick(kSpecials); break;
    case 6:
      for (uint64_t n = 1 + random.Below(6); n > 0; --n) AppendChar(random.Pick(kSpaces), text);
      break;
    case 7:
      for (uint64_t n = 1 + random.Below(12); n > 0; --n) AppendRandomChar(random, text);
      break;
    case 8:
      for (uint64_t n = 1 + random.Below(8); n > 0; --n) text.push_back(static_cast<char>(random.Below(256)));
      break;
    case 9:
      for (uint64_t n = 1 + random.Below(20); n > 0; --n) text.push_back(static_cast<char>(32 + random.Below(95)));
      break;
    case 10: AppendRun(random, text); break;
    default:  // words glued and capitalised at random
      for (uint64_t n = 1 + random.Below(4); n > 0; --n) {
        const std::string prose = random.Pick(kProse);
        text += prose.substr(random.Below(prose.size()), 1 + random.Below(9));
      }
  }
}

}  // namespace

std::string SampleText(uint64_t i) {
  Random random(i);
  std::string text;
  for (uint64_t n = 1 + random.Below(7); n > 0; --n) AppendFragment(random, text);
  if (random.Below(8) == 0) text.resize(random.Below(text.size() + 1));  // cut anywhere, inside characters too
  return text;
}

uint32_t HashIds(absl::Span<const int32_t> ids) {
  const absl::string_view bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t));
  return static_cast<uint32_t>(std::strtoul(Sha256Hex(bytes).substr(0, 8).c_str(), nullptr, 16));
}

}  // namespace hone::policy
