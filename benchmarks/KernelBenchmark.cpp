// SPDX-License-Identifier: Apache-2.0
// Benchmarks Kerf's kernels on one thread against a reference in the same run: dot_general against a bare oneDNN matmul
// (f32) and against the machine's peak (f64, for which there is no library here), layer_norm against oneDNN's,
// attention against the two products that it consists of. Every line shows GFLOP/s or GB/s; quote the ratio of
// neighbouring lines.
#include "kerf/Runtime/Cpu/Kernels.h"

#include <benchmark/benchmark.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

using namespace kerf;
using namespace kerf::runtime;

namespace {
struct Free {
  void operator()(void *memory) const { std::free(memory); }
};

struct Spec {
  DType dtype;
  Shape shape;
};

/// One bound kernel with its own tensors, filled with small numbers.
class BoundKernel {
public:
  BoundKernel(const char *op, nlohmann::ordered_json attrs, const std::vector<Spec> &operands,
              const std::vector<Spec> &results) {
    instruction.op = op;
    instruction.attrs = std::move(attrs);
    BindRequest request{instruction, views(operands), views(results), mesh, 0, nullptr};
    Result<int64_t> scratch = scratchBytes(request);
    request.scratch = allocate(scratch ? *scratch : 0);
    Result<Kernel> bound = bindKernel(request);
    if (!scratch || !bound) {
      std::fprintf(stderr, "%s\n", (scratch ? bound.error() : scratch.error()).message.c_str());
      std::exit(1);
    }
    kernel = *bound;
  }
  void run() const { benchmark::DoNotOptimize(bool(kernel())); }

private:
  void *allocate(int64_t bytes) {
    memory.emplace_back(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
    return memory.back().get();
  }
  std::vector<TensorView> views(const std::vector<Spec> &specs) {
    std::vector<TensorView> all;
    for (const Spec &spec : specs) {
      TensorView view{nullptr, spec.dtype, spec.shape};
      view.data = allocate(view.bytes());
      for (int64_t i = 0; i < view.elements(); ++i)
        if (spec.dtype == DType::F32)
          static_cast<float *>(view.data)[i] = float(i % 17) / 16 - 0.5f;
        else
          static_cast<double *>(view.data)[i] = double(i % 17) / 16 - 0.5;
      all.push_back(view);
    }
    return all;
  }

  package::Instruction instruction;
  Mesh mesh;
  std::vector<std::unique_ptr<void, Free>> memory;
  Kernel kernel;
};

void countFlops(benchmark::State &state, double flops) {
  state.counters["GFLOP/s"] = benchmark::Counter(flops / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

template <DType dtype> void dotGeneral(benchmark::State &state) {
  int64_t n = state.range(0);
  nlohmann::ordered_json none = nlohmann::ordered_json::array();
  BoundKernel kernel(
      "dot_general",
      {{"lhs_batching", none}, {"rhs_batching", none}, {"lhs_contracting", {1}}, {"rhs_contracting", {0}}},
      {{dtype, {n, n}}, {dtype, {n, n}}}, {{dtype, {n, n}}});
  for (auto _ : state)
    kernel.run();
  countFlops(state, 2.0 * n * n * n);
}

void oneDnnMatmul(benchmark::State &state) {
  int64_t n = state.range(0);
  using dnnl::memory;
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  memory::desc desc({n, n}, memory::data_type::f32, memory::format_tag::ab);
  memory a(desc, engine), b(desc, engine), c(desc, engine);
  for (memory *m : {&a, &b, &c})
    std::fill_n(static_cast<float *>(m->get_data_handle()), n * n, 0.25f);
  dnnl::matmul matmul(dnnl::matmul::primitive_desc({desc, desc, desc}, engine));
  for (auto _ : state)
    matmul.execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
  countFlops(state, 2.0 * n * n * n);
}

constexpr int64_t kRows = 1024, kWidth = 768; // sizes of GPT-2

void countBytes(benchmark::State &state) {
  state.counters["GB/s"] =
      benchmark::Counter(2.0 * kRows * kWidth * sizeof(float) / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

void layerNorm(benchmark::State &state) {
  BoundKernel kernel("layer_norm", {{"epsilon", 1e-5}},
                     {{DType::F32, {kRows, kWidth}}, {DType::F32, {kWidth}}, {DType::F32, {kWidth}}},
                     {{DType::F32, {kRows, kWidth}}, {DType::F32, {kRows}}, {DType::F32, {kRows}}});
  for (auto _ : state)
    kernel.run();
  countBytes(state);
}

void oneDnnLayerNorm(benchmark::State &state) {
  using dnnl::memory;
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  memory::desc desc({kRows, kWidth}, memory::data_type::f32, memory::format_tag::ab);
  memory::desc rows({kRows}, memory::data_type::f32, memory::format_tag::a),
      width({kWidth}, memory::data_type::f32, memory::format_tag::a);
  dnnl::layer_normalization_forward::desc operation(dnnl::prop_kind::forward_training, desc, rows, 1e-5f,
                                                    dnnl::normalization_flags::use_scale |
                                                        dnnl::normalization_flags::use_shift);
  dnnl::layer_normalization_forward norm(dnnl::layer_normalization_forward::primitive_desc(operation, engine));
  memory x(desc, engine), y(desc, engine), mean(rows, engine), variance(rows, engine), scale(width, engine),
      shift(width, engine);
  std::fill_n(static_cast<float *>(x.get_data_handle()), kRows * kWidth, 0.25f);
  std::fill_n(static_cast<float *>(scale.get_data_handle()), kWidth, 1.0f);
  std::fill_n(static_cast<float *>(shift.get_data_handle()), kWidth, 1.0f);
  for (auto _ : state)
    norm.execute(stream, {{DNNL_ARG_SRC, x},
                          {DNNL_ARG_DST, y},
                          {DNNL_ARG_MEAN, mean},
                          {DNNL_ARG_VARIANCE, variance},
                          {DNNL_ARG_SCALE, scale},
                          {DNNL_ARG_SHIFT, shift}});
  countBytes(state);
}

struct AttentionSpecs {
  Spec q, lse;
  double flops; // flops of the two products, with a causal mask
};
AttentionSpecs attentionSpecs(int64_t s) {
  constexpr int64_t kHeads = 12, kHeadWidth = 64;
  return {{DType::F32, {1, s, kHeads, kHeadWidth}}, {DType::F32, {1, kHeads, s}}, 2.0 * s * s * kHeads * kHeadWidth};
}

void attention(benchmark::State &state) {
  auto [q, lse, flops] = attentionSpecs(state.range(0));
  BoundKernel kernel("attention", {{"scale", 0.125}, {"causal", true}}, {q, q, q}, {q, lse});
  for (auto _ : state)
    kernel.run();
  countFlops(state, flops);
}

void attentionBackward(benchmark::State &state) {
  auto [q, lse, flops] = attentionSpecs(state.range(0));
  BoundKernel kernel("attention_backward", {{"scale", 0.125}, {"causal", true}}, {q, q, q, q, lse, q}, {q, q, q});
  for (auto _ : state)
    kernel.run();
  countFlops(state, flops * 2.5);
}

void gelu(benchmark::State &state) {
  BoundKernel kernel("gelu", {{"approximate", true}}, {{DType::F32, {kRows, kWidth}}}, {{DType::F32, {kRows, kWidth}}});
  for (auto _ : state)
    kernel.run();
  countBytes(state);
}

BENCHMARK(dotGeneral<DType::F32>)->Arg(64)->Arg(256)->Arg(1024);
BENCHMARK(oneDnnMatmul)->Arg(64)->Arg(256)->Arg(1024);
BENCHMARK(dotGeneral<DType::F64>)->Arg(64)->Arg(256)->Arg(1024);
BENCHMARK(layerNorm);
BENCHMARK(oneDnnLayerNorm);
BENCHMARK(gelu);
BENCHMARK(attention)->Arg(128)->Arg(1024);
BENCHMARK(attentionBackward)->Arg(128)->Arg(1024);
} // namespace

int main(int argc, char **argv) {
  omp_set_num_threads(1); // Kerf's kernels run on one thread anyway; oneDNN's must too
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
