// How near each kernel of the engine comes to the memory's speed, in the shapes of Qwen2.5-1.5B and Qwen3-8B, alone and
// with cold caches. One line of JSON a kernel and setting.
//
//   engine_kernel_bench [step | products | wide | attention | sampling]

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "cmake/torch_pch.h"
#include "policy/model/device.h"
#include "rollout/engine/cuda/check.h"
#include "rollout/engine/cuda/gemv.h"
#include "rollout/engine/cuda/paged_attention.h"
#include "rollout/engine/cuda/sample.h"
#include "rollout/engine/cuda/token_step.h"

namespace hone::rollout::cuda {
namespace {

using at::Tensor;

at::TensorOptions On(at::ScalarType type) { return at::TensorOptions(at::Device(at::kCUDA, 0)).dtype(type); }
__nv_bfloat16* Data(const Tensor& t) { return static_cast<__nv_bfloat16*>(t.data_ptr()); }

// Microseconds of one launch, in a graph of `count` launches.
double Time(int count, const std::function<void(int, cudaStream_t)>& launch) {
  const at::Device device(at::kCUDA, 0);
  const c10::Stream torch_stream = c10::impl::getDeviceGuardImpl(device.type())->getNewStream(device, 0);
  c10::StreamGuard guard(torch_stream);  // for torch's own operators
  const cudaStream_t stream = static_cast<cudaStream_t>(torch_stream.native_handle());
  CheckCuda(cudaDeviceSynchronize());
  for (int i = 0; i < count; ++i) launch(i, stream);
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  for (int i = 0; i < count; ++i) launch(i, stream);
  CheckCuda(cudaStreamEndCapture(stream, &graph));
  CheckCuda(cudaGraphInstantiate(&ready, graph, 0));
  cudaEvent_t from, to;
  CheckCuda(cudaEventCreate(&from));
  CheckCuda(cudaEventCreate(&to));
  float best = 1e9;
  for (int round = 0; round < 8; ++round) {
    CheckCuda(cudaEventRecord(from, stream));
    CheckCuda(cudaGraphLaunch(ready, stream));
    CheckCuda(cudaEventRecord(to, stream));
    CheckCuda(cudaEventSynchronize(to));
    float ms = 0;
    CheckCuda(cudaEventElapsedTime(&ms, from, to));
    best = std::min(best, ms);
  }
  cudaEventDestroy(from);
  cudaEventDestroy(to);
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  return 1e3 * best / count;
}

void Products() {
  struct Shape { const char* name; int in, out; GemvOutput output; bool norm; };
  const Shape shapes[] = {{"qkv", 1536, 2048, GemvOutput::kStore, true}, {"o", 1536, 1536, GemvOutput::kAdd, false},
                          {"gate_up", 1536, 8960, GemvOutput::kGated, true}, {"down", 8960, 1536, GemvOutput::kAdd, false},
                          {"logits", 1536, 151936, GemvOutput::kLogits, true}, {"8b gate_up", 4096, 12288, GemvOutput::kGated, true}};
  for (const Shape& s : shapes) {
    const int64_t rows_of_weight = s.output == GemvOutput::kGated ? 2 * s.out : s.out;
    const int64_t bytes = rows_of_weight * s.in * 2;
    const int count = static_cast<int>(std::clamp<int64_t>((int64_t{1} << 30) / bytes, 2, 64));
    const Tensor weights = at::empty({count, rows_of_weight, s.in}, On(at::kBFloat16)).normal_(0, 0.02);
    const Tensor norm = at::ones({s.in}, On(at::kBFloat16));
    for (const int rows : {1, 2, 4}) {
      const Tensor x = at::randn({rows, s.in}, On(at::kBFloat16));
      const Tensor y = at::zeros({rows, s.out}, On(s.output == GemvOutput::kLogits ? at::kFloat : at::kBFloat16));
      for (const int resident : {2, 3}) {
        const double us = Time(count, [&](int i, cudaStream_t stream) {
          GemvArgs args;
          args.x = Data(x);
          args.norm = s.norm ? Data(norm) : nullptr;
          args.weight = Data(weights[i]);
          args.y = y.data_ptr();
          args.rows = rows;
          args.in = s.in;
          args.out = s.out;
          args.norm_eps = 1e-6f;
          args.output = s.output;
          args.resident = resident;
          CheckCuda(Gemv(args, stream));
        });
        std::printf("{\"kernel\": \"gemv %s\", \"rows\": %d, \"resident\": %d, \"us\": %.2f, \"gb_s\": %.0f}\n", s.name, rows, resident, us, bytes / us / 1e3);
      }
    }
  }
}

// cuBLAS, which takes the products of more rows; ATen asks cublasLt where a bias is added.
void WideProducts() {
  struct Shape { const char* name; int in, out; };
  const Shape shapes[] = {{"1.5b qkv", 1536, 2048}, {"1.5b o", 1536, 1536}, {"1.5b gate_up", 1536, 17920}, {"1.5b down", 8960, 1536},
                          {"8b qkv", 4096, 6144}, {"8b o", 4096, 4096}, {"8b gate_up", 4096, 24576}, {"8b down", 12288, 4096}, {"8b logits", 4096, 151936}};
  for (const Shape& s : shapes) {
    const int64_t bytes = int64_t{s.in} * s.out * 2;
    const int count = static_cast<int>(std::clamp<int64_t>((int64_t{1} << 30) / bytes, 2, 32));
    const Tensor weights = at::empty({count, s.out, s.in}, On(at::kBFloat16)).normal_(0, 0.02);
    for (const int rows : {64, 256}) {
      const Tensor x = at::randn({rows, s.in}, On(at::kBFloat16)), none = at::zeros({s.out}, On(at::kBFloat16));
      Tensor y = at::empty({rows, s.out}, On(at::kBFloat16));
      for (const bool biased : {false, true}) {
        const double us = Time(count, [&](int i, cudaStream_t) { biased ? at::addmm_out(y, none, x, weights[i].t()) : at::mm_out(y, x, weights[i].t()); });
        std::printf("{\"kernel\": \"%s %s\", \"rows\": %d, \"us\": %.2f, \"gb_s\": %.0f, \"tflop_s\": %.0f}\n", biased ? "cublasLt" : "cublas", s.name, rows,
                    us, bytes / us / 1e3, 2e-6 * rows * s.in * s.out / us);
      }
    }
  }
}

// One token through the whole decoder in one kernel, and where the time goes: cycles of a layer's parts, the least, the mean
// and the most of any block.
void WholeSteps() {
  struct Model { const char* name; TokenShape shape; bool bias, head_norms; };
  for (const Model& m : {Model{"1.5b", {28, 1536, 8960, 151936, 12, 2, 128}, true, false}, Model{"8b", {36, 4096, 12288, 151936, 32, 8, 128}, false, true}}) {
    const TokenShape& s = m.shape;
    const int64_t qkv = (s.heads + 2 * s.kv_heads) * s.head_dim, attended = s.heads * s.head_dim;
    std::vector<Tensor> kept;
    const auto weight = [&](int64_t out, int64_t in) { return Data(kept.emplace_back(at::empty({out, in}, On(at::kBFloat16)).normal_(0, 0.02))); };
    const auto ones = [&](int64_t size) { return Data(kept.emplace_back(at::ones({size}, On(at::kBFloat16)))); };
    std::vector<TokenLayer> layers(s.layers);
    double bytes = 2.0 * s.vocab * s.hidden;
    for (TokenLayer& layer : layers) {
      layer = {ones(s.hidden), weight(qkv, s.hidden), m.bias ? ones(qkv) : nullptr, m.head_norms ? ones(s.head_dim) : nullptr,
               m.head_norms ? ones(s.head_dim) : nullptr, weight(s.hidden, attended), ones(s.hidden), weight(2 * s.intermediate, s.hidden),
               weight(s.hidden, s.intermediate)};
      bytes += 2.0 * s.hidden * (qkv + attended + 3.0 * s.intermediate);
    }
    TokenStepArgs a;
    CheckCuda(cudaDeviceGetAttribute(&a.processors, cudaDevAttrMultiProcessorCount, 0));
    CheckCuda(cudaDeviceGetAttribute(&a.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    const Tensor device_layers = at::from_blob(layers.data(), {static_cast<int64_t>(layers.size() * sizeof(TokenLayer))}, at::kByte).to(On(at::kByte).device());
    const Tensor words = at::full({TokenStepWords(s)}, -1, On(at::kInt)), logits = at::empty({s.vocab}, On(at::kFloat));
    const Tensor steps = at::zeros({2}, On(at::kInt)), times = at::zeros({a.processors, kTokenStamps * s.layers + 2}, On(at::kLong));
    const Tensor source = at::zeros({1}, On(at::kInt));
    a.shape = s;
    a.layers = static_cast<const TokenLayer*>(device_layers.const_data_ptr());
    a.embedding = a.head = weight(s.vocab, s.hidden);
    a.final_norm = ones(s.hidden);
    a.sources = source.const_data_ptr<int32_t>();
    a.norm_eps = 1e-6f;
    a.scale = 0.088f;
    a.words = reinterpret_cast<uint32_t*>(words.mutable_data_ptr<int32_t>());
    a.logits = logits.mutable_data_ptr<float>();
    a.steps = steps.mutable_data_ptr<int32_t>();
    for (const int length : {640, 4096}) {
      const int64_t pages = length / kPagePositions;
      const Tensor cache = at::zeros({s.layers, pages, 2, s.kv_heads, kPagePositions, s.head_dim}, On(at::kBFloat16));
      const Tensor table = at::randperm(pages, at::kInt).to(On(at::kInt).device()), position = at::full({1}, length - 1, On(at::kInt));
      const Tensor angles = at::zeros({length, s.head_dim}, On(at::kBFloat16));
      a.pages = Data(cache);
      a.layer_stride = cache.stride(0);
      a.tables = table.const_data_ptr<int32_t>();
      a.positions = position.const_data_ptr<int32_t>();
      a.angles = Data(angles);
      a.times = nullptr;
      const double us = Time(4, [&](int, cudaStream_t stream) { CheckCuda(TokenStep(a, stream)); });
      a.times = reinterpret_cast<long long*>(times.mutable_data_ptr<int64_t>());
      Time(1, [&](int, cudaStream_t stream) { CheckCuda(TokenStep(a, stream)); });
      const Tensor host = times.cpu().to(at::kDouble);
      const Tensor layer = (host.narrow(1, 1, kTokenStamps * s.layers) - host.narrow(1, 0, kTokenStamps * s.layers))
                               .narrow(1, kTokenStamps - 1, kTokenStamps * (s.layers - 1))
                               .view({a.processors, s.layers - 1, kTokenStamps})
                               .mean(1);  // [blocks, parts]: cycles a layer, the first left out
      const char* parts[kTokenStamps] = {"wait_x", "qkv", "attention", "wait_attended", "o", "wait_x_mlp", "gate_up", "wait_gated", "down"};
      std::printf("{\"kernel\": \"whole step %s\", \"length\": %d, \"us\": %.1f, \"gb_s\": %.0f, \"cycles\": {", m.name, length, us, bytes / us / 1e3);
      for (int i = 0; i < kTokenStamps; ++i) {
        const Tensor part = layer.select(1, i);
        std::printf("\"%s\": [%.0f, %.0f, %.0f], ", parts[i], part.min().item<double>(), part.mean().item<double>(), part.max().item<double>());
      }
      const Tensor ends = host.select(1, kTokenStamps * s.layers + 1);
      std::printf("\"logits\": %.0f, \"all\": %.0f}}\n", (ends - host.select(1, kTokenStamps * s.layers)).mean().item<double>(),
                  (ends - host.select(1, 0)).mean().item<double>());
      std::fflush(stdout);
    }
  }
}

void Attentions() {
  struct Shape { const char* name; int heads, kv_heads; };
  for (const Shape s : {Shape{"1.5b", 12, 2}, Shape{"8b", 32, 8}}) {
    for (const int rows : {1, 64, 256}) {
      const int length = 640, stride = 64, dim = 128;
      const int64_t pages = int64_t{rows} * (length / kPagePositions + 1);
      const int64_t page_numbers = 2 * s.kv_heads * kPagePositions * dim;
      const int layers = static_cast<int>(std::clamp<int64_t>((int64_t{2} << 30) / (pages * page_numbers * 2), 2, 28));
      const Tensor cache = at::zeros({layers, pages, page_numbers}, On(at::kBFloat16));
      const Tensor tables = at::randperm(pages, at::kInt).to(On(at::kInt).device()).view({rows, -1});
      const Tensor wide = at::zeros({rows, stride}, On(at::kInt));
      wide.narrow(1, 0, tables.size(1)).copy_(tables);
      const Tensor positions = at::full({rows}, length - 1, On(at::kInt)), angles = at::zeros({length, dim / 2, 2}, On(at::kBFloat16));
      const Tensor qkv = at::randn({rows, (s.heads + 2 * s.kv_heads) * dim}, On(at::kBFloat16)), out = at::empty({rows, s.heads * dim}, On(at::kBFloat16));
      const Tensor arrived = at::zeros({rows * s.heads}, On(at::kInt));
      const int64_t bytes = int64_t{rows} * length * s.kv_heads * dim * 4;
      for (const int warps : {3, 4, 8}) {
        for (const int split : {128, 256, 1024}) {
          PagedAttentionArgs args;
          args.qkv = Data(qkv);
          args.out = Data(out);
          args.positions = positions.const_data_ptr<int32_t>();
          args.tables = wide.const_data_ptr<int32_t>();
          args.rotate.angles = Data(angles);
          args.scale = 0.088f;
          args.rows = rows;
          args.heads = s.heads;
          args.table_stride = stride;
          args.split_positions = split;
          args.max_splits = (stride * kPagePositions + split - 1) / split;
          args.warps = warps;
          const Tensor partial = at::empty({PagedAttentionScratch(rows, s.heads, dim, args.max_splits)}, On(at::kFloat));
          args.partial = partial.mutable_data_ptr<float>();
          args.arrived = arrived.mutable_data_ptr<int32_t>();
          const double us = Time(layers, [&](int i, cudaStream_t stream) {
            args.pages = {Data(cache[i]), s.kv_heads, dim};
            CheckCuda(PagedAttention(args, stream));
          });
          std::printf("{\"kernel\": \"attention %s\", \"rows\": %d, \"warps\": %d, \"split\": %d, \"us\": %.2f, \"gb_s\": %.0f}\n", s.name, rows, warps, split, us, bytes / us / 1e3);
        }
      }
    }
  }
}

void Samplings() {
  const int vocab = 151936;
  for (const int rows : {1, 64, 256}) {
    const Tensor logits = at::randn({rows, vocab}, On(at::kFloat));
    for (const bool filtered : {false, true}) {
      std::vector<SampleRow> host(rows);
      for (SampleRow& row : host) row.top_p = filtered ? 0.95f : 1.0f;
      const Tensor device_rows = at::from_blob(host.data(), {rows * static_cast<int64_t>(sizeof(SampleRow))}, at::kByte).to(On(at::kByte).device());
      const Tensor stats = at::empty({rows * 256 * 12}, On(at::kByte)), draws = at::zeros({rows * 8}, On(at::kByte));
      SampleArgs args;
      args.logits = logits.const_data_ptr<float>();
      args.rows = static_cast<const SampleRow*>(device_rows.const_data_ptr());
      args.stats = static_cast<ChunkStats*>(stats.data_ptr());
      args.draws = static_cast<Draw*>(draws.data_ptr());
      args.count = rows;
      args.vocab = vocab;
      const double us = Time(8, [&](int, cudaStream_t stream) { CheckCuda(Sample(args, stream)); });
      std::printf("{\"kernel\": \"sample\", \"rows\": %d, \"top_p\": %s, \"us\": %.2f}\n", rows, filtered ? "0.95" : "1", us);
    }
  }
}

}  // namespace
}  // namespace hone::rollout::cuda

int main(int count, char** arguments) {
  if (const auto device = hone::policy::FindDevice("cuda"); !device.ok()) {
    std::fprintf(stderr, "%s\n", std::string(device.status().message()).c_str());
    return 2;
  }
  at::NoGradGuard no_grad;
  const std::string only = count > 1 ? arguments[1] : "";
  const auto wanted = [&](const char* part) { return only.empty() || only == part; };
  if (wanted("step")) hone::rollout::cuda::WholeSteps();
  if (wanted("products")) hone::rollout::cuda::Products();
  if (wanted("wide")) hone::rollout::cuda::WideProducts();
  if (wanted("attention")) hone::rollout::cuda::Attentions();
  if (wanted("sampling")) hone::rollout::cuda::Samplings();
  return 0;
}
