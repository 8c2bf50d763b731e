#include "recorded_samples.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "absl/strings/match.h"
#include "base/file.h"
#include "tests/support/shared_data.h"

namespace hone::test {
namespace {

// Elements of a tensor of a task, from its sizes by name.
int64_t Elements(const std::string& task, const std::string& tensor, const Sizes& s) {
  const auto at = [&s](const char* name) { return s.at(name); };
  if (s.count("n")) return task == "mse_loss" && tensor == "out" ? 1 : at("n");
  if (task == "matmul") return tensor == "a" ? at("M") * at("K") : tensor == "b" ? at("K") * at("N") : at("M") * at("N");
  if (task == "matvec") return tensor == "a" ? at("M") * at("K") : tensor == "x" ? at("K") : at("M");
  if (task == "conv1d") {
    return tensor == "x"   ? at("B") * at("Cin") * at("L")
           : tensor == "w" ? at("Cout") * at("Cin") * at("K")
                           : at("B") * at("Cout") * (at("L") - at("K") + 1);
  }
  if (task == "max_pool1d") {
    return at("rows") * (tensor == "x" ? at("L") : (at("L") + 2 * at("P") - at("K")) / at("S") + 1);
  }
  if (tensor == "w" || tensor == "gamma" || tensor == "beta") return at("cols");
  if ((task == "row_sum" || task == "argmax") && tensor == "y") return at("rows");
  return at("rows") * at("cols");
}

}  // namespace

std::vector<RecordedSample> ReadRecordedSamples() {
  const std::string path = SharedData("qwen_coder_native_samples.jsonl");
  const auto text = ReadFile(path);
  if (!text.ok()) return {};
  return cli::ParseRecordedSamples(*text, path).value();
}

Signature SignatureOf(const RecordedSample& sample) {
  std::vector<std::string> sizes, scalars;
  std::vector<TensorArgument> tensors;
  for (const cli::RecordedArgument& argument : sample.arguments) {
    if (absl::EndsWith(argument.type, "*")) {
      const DType dtype = absl::StrContains(argument.type, "int") ? DType::kInt32 : DType::kFloat32;
      const bool input = absl::StartsWith(argument.type, "const");
      tensors.push_back(input ? Input(argument.name, dtype) : Output(argument.name, dtype));
    } else {
      (argument.type == "int" ? sizes : scalars).push_back(argument.name);
    }
  }
  return MakeSignature(std::move(tensors), sizes, scalars);
}

Call MakeCall(const RecordedSample& sample, const Signature& signature, const Sizes& sizes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Call call;
  for (const SizeArgument& size : signature.sizes) call.sizes.push_back(sizes.at(size.name));
  call.scalars.assign(signature.scalars.size(), 1.7);
  for (const TensorArgument& tensor : signature.tensors) {
    std::vector<float> values(Elements(sample.task, tensor.spec.name, sizes));
    for (float& v : values) v = normal(random);
    call.tensors.push_back(Bytes(values));
  }
  return call;
}

std::vector<double> Expected(const RecordedSample& sample, const Call& call) {
  const std::string& task = sample.task;
  const std::vector<float> x = Floats(call.tensors[0]);
  const std::vector<float> second = call.tensors.size() > 2 ? Floats(call.tensors[1]) : std::vector<float>();
  const std::vector<float> third = call.tensors.size() > 3 ? Floats(call.tensors[2]) : std::vector<float>();
  const auto& s = call.sizes;
  std::vector<double> y;
  if (task == "relu") {
    for (double v : x) y.push_back(v > 0 ? v : 0);
  } else if (task == "sigmoid") {
    for (double v : x) y.push_back(1 / (1 + std::exp(-v)));
  } else if (task == "gelu") {
    for (double v : x) y.push_back(0.5 * v * (1 + std::erf(v / std::sqrt(2.0))));
  } else if (task == "saxpy") {
    for (size_t i = 0; i < x.size(); ++i) y.push_back(static_cast<float>(call.scalars[0]) * double{x[i]} + second[i]);
  } else if (task == "mse_loss") {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) sum += (double{x[i]} - second[i]) * (double{x[i]} - second[i]);
    y.push_back(sum / static_cast<double>(x.size()));
  } else if (task == "matmul") {
    for (int64_t m = 0; m < s[0]; ++m) {
      for (int64_t n = 0; n < s[2]; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < s[1]; ++k) sum += double{x[m * s[1] + k]} * second[k * s[2] + n];
        y.push_back(sum);
      }
    }
  } else if (task == "matvec") {
    for (int64_t m = 0; m < s[0]; ++m) {
      double sum = 0;
      for (int64_t k = 0; k < s[1]; ++k) sum += double{x[m * s[1] + k]} * second[k];
      y.push_back(sum);
    }
  } else if (task == "conv1d") {
    const int64_t B = s[0], Cin = s[1], Cout = s[2], L = s[3], K = s[4];
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t o = 0; o < Cout; ++o) {
        for (int64_t t = 0; t < L - K + 1; ++t) {
          double sum = 0;
          for (int64_t i = 0; i < Cin; ++i) {
            for (int64_t k = 0; k < K; ++k) sum += double{x[(b * Cin + i) * L + t + k]} * second[(o * Cin + i) * K + k];
          }
          y.push_back(sum);
        }
      }
    }
  } else if (task == "max_pool1d") {
    const int64_t L = s[1], K = s[2], S = s[3], P = s[4];
    for (int64_t r = 0; r < s[0]; ++r) {
      for (int64_t t = 0; t < (L + 2 * P - K) / S + 1; ++t) {
        double best = -std::numeric_limits<double>::infinity();
        for (int64_t j = t * S - P; j < t * S - P + K; ++j) {
          if (j >= 0 && j < L) best = std::max(best, double{x[r * L + j]});
        }
        y.push_back(best);
      }
    }
  } else if (task == "transpose") {
    for (int64_t c = 0; c < s[1]; ++c) {
      for (int64_t r = 0; r < s[0]; ++r) y.push_back(x[r * s[1] + c]);
    }
  } else {  // one row at a time
    const int64_t rows = s[0], cols = s[1];
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = &x[r * cols];
      double sum = 0, squares = 0;
      for (int64_t c = 0; c < cols; ++c) {
        sum += row[c];
        squares += double{row[c]} * row[c];
      }
      const double mean = sum / static_cast<double>(cols);
      double variance = 0;
      for (int64_t c = 0; c < cols; ++c) variance += (row[c] - mean) * (row[c] - mean) / static_cast<double>(cols);
      const double largest = *std::max_element(row, row + cols);
      double exponentials = 0, running = 0;
      for (int64_t c = 0; c < cols; ++c) exponentials += std::exp(row[c] - largest);
      if (task == "row_sum") y.push_back(sum);
      if (task == "argmax") y.push_back(static_cast<double>(std::max_element(row, row + cols) - row));
      for (int64_t c = 0; c < cols; ++c) {
        if (task == "softmax") y.push_back(std::exp(row[c] - largest) / exponentials);
        if (task == "rms_norm") y.push_back(row[c] / std::sqrt(squares / static_cast<double>(cols) + 1e-5) * second[c]);
        if (task == "layer_norm") y.push_back((row[c] - mean) / std::sqrt(variance + 1e-5) * second[c] + third[c]);
        if (task == "cumsum") y.push_back(running += row[c]);
      }
    }
  }
  return y;
}

}  // namespace hone::test
