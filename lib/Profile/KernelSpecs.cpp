// SPDX-License-Identifier: Apache-2.0
// The kernels to measure: those of a transformer's training step, in sizes that fit into a cache up to sizes that do
// not. Operations are counted as in the dialect.
#include "KernelTimer.h"

#include "kerf/Support/Work.h"
#include <fmt/format.h>

using namespace kerf;
using namespace kerf::profile;
using Json = nlohmann::ordered_json;

namespace {

/// The layout of a product's operands: that of the forward, of the left operand's gradient, or of the
/// right operand's gradient.
enum class Layout { Forward, LeftGradient, RightGradient };

KernelSpec product(int64_t m, int64_t n, int64_t k, DType dtype, Layout layout) {
  bool leftLast = layout != Layout::RightGradient, rightFirst = layout != Layout::LeftGradient;
  Shape left = leftLast ? Shape{m, k} : Shape{k, m}, right = rightFirst ? Shape{k, n} : Shape{n, k};
  KernelSpec spec;
  spec.name = fmt::format("dot_general {} {} x {} by {} x {}", toString(dtype), m, k, k, n);
  spec.op = "dot_general";
  spec.attrs = {{"lhs_batching", Json::array()},
                {"rhs_batching", Json::array()},
                {"lhs_contracting", {leftLast ? 1 : 0}},
                {"rhs_contracting", {rightFirst ? 0 : 1}}};
  spec.operands = {{dtype, left}, {dtype, right}};
  spec.results = {{dtype, {m, n}}};
  spec.work.kernelClass = KernelClass::Product;
  spec.work.dtype = toString(dtype);
  spec.work.m = static_cast<double>(m), spec.work.n = static_cast<double>(n), spec.work.k = static_cast<double>(k);
  spec.work.flops = 2 * spec.work.m * spec.work.n * spec.work.k;
  return spec;
}

/// Returns causal attention: of the s x s pairs, only those on and below the diagonal are computed.
KernelSpec attention(int64_t samples, int64_t sequence, int64_t heads, int64_t width, bool backward,
                     DType dtype = DType::F32) {
  TensorSpec q{dtype, {samples, sequence, heads, width}}, lse{DType::F32, {samples, heads, sequence}};
  KernelSpec spec;
  spec.op = backward ? "attention_backward" : "attention";
  spec.name = fmt::format("{} {} x {} x {} x {}", spec.op, samples, sequence, heads, width);
  spec.attrs = {{"scale", 0.125}, {"causal", true}};
  spec.operands = backward ? std::vector<TensorSpec>{q, q, q, q, lse, q} : std::vector<TensorSpec>{q, q, q};
  spec.results = backward ? std::vector<TensorSpec>{q, q, q} : std::vector<TensorSpec>{q, lse};
  auto s = static_cast<double>(sequence), batch = static_cast<double>(samples * heads);
  spec.work.kernelClass = KernelClass::Attention;
  spec.work.dtype = toString(dtype);
  spec.work.flops = batch * s * (s + 1) * static_cast<double>(width) * (backward ? 5 : 2);
  spec.work.m = spec.work.n = s, spec.work.k = static_cast<double>(width), spec.work.batch = batch;
  return spec;
}

/// Returns a kernel over a tensor of rows x width with `flopsEach` operations per element.
KernelSpec rowsKernel(const char *op, KernelClass kernelClass, Json attrs, std::vector<TensorSpec> operands,
                      std::vector<TensorSpec> results, int64_t elements, double flopsEach) {
  KernelSpec spec;
  spec.op = op;
  spec.name = fmt::format("{} of {} elements", op, elements);
  spec.attrs = std::move(attrs);
  spec.operands = std::move(operands);
  spec.results = std::move(results);
  spec.work.kernelClass = kernelClass;
  spec.work.flops = flopsEach * static_cast<double>(elements);
  return spec;
}

void addPointwise(std::vector<KernelSpec> &specs, int64_t rows, int64_t width, DType dtype = DType::F32) {
  TensorSpec x{dtype, {rows, width}};
  int64_t n = rows * width;
  auto add = [&](const char *op, Json attrs, std::vector<TensorSpec> in, std::vector<TensorSpec> out, double flops) {
    specs.push_back(rowsKernel(op, KernelClass::Pointwise, std::move(attrs), std::move(in), std::move(out), n, flops));
  };
  add("add", Json::object(), {x, x}, {x}, 1);
  add("gelu", {{"approximate", true}}, {x}, {x}, kGeluFlops);
  add("gelu_backward", {{"approximate", true}}, {x, x}, {x}, kGeluBackwardFlops);
}

void addReductions(std::vector<KernelSpec> &specs, int64_t rows, int64_t width, DType dtype = DType::F32) {
  TensorSpec x{dtype, {rows, width}}, row{DType::F32, {width}}, column{DType::F32, {rows}};
  TensorSpec labels{DType::I64, {rows}, width};
  int64_t n = rows * width;
  auto add = [&](const char *op, Json attrs, std::vector<TensorSpec> in, std::vector<TensorSpec> out, double flops) {
    specs.push_back(rowsKernel(op, KernelClass::Reduction, std::move(attrs), std::move(in), std::move(out), n, flops));
  };
  add("layer_norm", {{"epsilon", 1e-5}}, {x, row, row}, {x, column, column}, kLayerNormFlops);
  add("layer_norm_backward", Json::object(), {x, row, column, column, x}, {x, row, row}, kLayerNormBackwardFlops);
  add("rms_norm", {{"epsilon", 1e-5}}, {x, row}, {x, column}, kRmsNormFlops);
  add("rms_norm_backward", Json::object(), {x, row, column, x}, {x, row}, kRmsNormBackwardFlops);
  add("cross_entropy", {{"ignore_index", -100}}, {x, labels}, {column, column}, kCrossEntropyFlops);
  add("cross_entropy_backward", {{"ignore_index", -100}}, {x, labels, column, column}, {x}, kCrossEntropyBackwardFlops);
  add("reduce", {{"kind", "sum"}, {"dimensions", {0}}}, {x}, {{dtype, {width}}}, 1);
}

void addMoves(std::vector<KernelSpec> &specs, int64_t rows, int64_t width, DType dtype = DType::F32) {
  TensorSpec x{dtype, {rows, width}}, row{dtype, {width}}, table{dtype, {2 * rows, width}};
  TensorSpec ids{DType::I64, {rows}, 2 * rows};
  int64_t n = rows * width;
  const auto bytes = static_cast<double>(bytesOf(dtype));
  auto add = [&](const char *op, KernelClass kind, Json attrs, std::vector<TensorSpec> in,
                 std::vector<TensorSpec> out) -> KernelSpec & {
    specs.push_back(rowsKernel(op, kind, std::move(attrs), std::move(in), std::move(out), n, 0));
    return specs.back();
  };
  add("broadcast_in_dim", KernelClass::Pointwise, {{"broadcast_dimensions", {1}}}, {row}, {x}).work.flops =
      static_cast<double>(n);
  add("transpose", KernelClass::Movement, {{"permutation", {1, 0}}}, {x}, {{dtype, {width, rows}}});
  add("slice", KernelClass::Movement, {{"start", {0, 0}}, {"limit", {rows, width / 2}}, {"strides", {1, 1}}}, {x},
      {{dtype, {rows, width / 2}}})
      .work.bytes = bytes * static_cast<double>(n); // half is read, half is written
  TensorSpec half{dtype, {rows, width / 2}}, zero{dtype, {}};
  add("concatenate", KernelClass::Movement, {{"dimension", 1}}, {half, half}, {x});
  add("pad", KernelClass::Movement, {{"low", {0, width / 2}}, {"high", {0, 0}}, {"interior", {0, 0}}}, {half, zero},
      {x});
  double slices = bytes * static_cast<double>(n);
  double indices = 8.0 * static_cast<double>(rows);
  add("embedding", KernelClass::Gather, {{"rows", 2 * rows}}, {table, ids}, {x}).work.bytes = 2 * slices + indices;
  KernelSpec &backward = add("embedding_backward", KernelClass::Gather, {{"rows", 2 * rows}}, {ids, x}, {table});
  backward.work.flops = static_cast<double>(n);
}

} // namespace

KernelSpec kerf::profile::productSpec(int64_t m, int64_t n, int64_t k, DType dtype) {
  return product(m, n, k, dtype, Layout::Forward);
}

KernelSpec kerf::profile::streamSpec() {
  constexpr int64_t kElements = int64_t(8) << 20; // 3 x 32 MiB, larger than any cache together with the copies
  TensorSpec x{DType::F32, {kElements}};
  KernelSpec spec = rowsKernel("add", KernelClass::Pointwise, Json::object(), {x, x}, {x}, kElements, 1);
  return spec;
}

std::vector<KernelSpec> kerf::profile::deviceKernelSpecs(DType halfType) {
  std::vector<KernelSpec> specs;
  for (DType dtype : {DType::F32, halfType}) {
    for (int64_t n : {128, 256, 512, 1024, 2048, 4096, 8192})
      specs.push_back(productSpec(n, n, n, dtype));
    for (int64_t k : {64, 128, 256, 512, 1024})
      specs.push_back(productSpec(4096, 4096, k, dtype));
    for (int64_t m : {128, 512, 1536, 3072})
      specs.push_back(product(m, 4096, 4096, dtype, Layout::LeftGradient));
  }
  constexpr int64_t kTokens = 16384; // as many for each length, so that all of them fill the device
  for (bool backward : {false, true})
    for (int64_t width : {64, 128})
      for (int64_t sequence : {256, 1024, 4096})
        specs.push_back(attention(kTokens / sequence, sequence, 16, width, backward, halfType));
  struct Rows {
    int64_t rows, width;
  };
  const Rows sizes[] = {{16, 64}, {256, 256}, {1024, 1024}, {4096, 4096}, {16384, 4096}};
  for (const Rows &r : sizes)
    addPointwise(specs, r.rows, r.width);
  for (const Rows &r : sizes)
    addReductions(specs, r.rows, r.width);
  for (const Rows &r : sizes)
    addMoves(specs, r.rows, r.width);
  return specs;
}

std::vector<KernelSpec> kerf::profile::rowKernelSpecs(int64_t rows, int64_t columns, DType dtype) {
  std::vector<KernelSpec> specs;
  addPointwise(specs, rows, columns, dtype);
  TensorSpec x{dtype, {rows, columns}};
  int64_t n = rows * columns;
  auto add = [&](const char *op, const char *name, Json attrs, std::vector<TensorSpec> in,
                 std::vector<TensorSpec> out) {
    specs.push_back(rowsKernel(op, KernelClass::Pointwise, std::move(attrs), std::move(in), std::move(out), n, 0));
    specs.back().name = name;
  };
  add("gelu", "gelu by erf", {{"approximate", false}}, {x}, {x});
  add("gelu_backward", "gelu_backward by erf", {{"approximate", false}}, {x, x}, {x});
  add("logistic", "logistic", Json::object(), {x}, {x});
  addReductions(specs, rows, columns, dtype);
  add("reduce", "reduce of columns", {{"kind", "sum"}, {"dimensions", {1}}}, {x}, {{dtype, {rows}}});
  add("softmax", "softmax", {{"dimension", 1}}, {x}, {x});
  addMoves(specs, rows, columns, dtype);
  return specs;
}

std::vector<KernelSpec> kerf::profile::kernelSpecs(ProfileOptions::Effort effort) {
  std::vector<KernelSpec> specs;
  struct Sizes {
    int64_t m, n, k;
  };
  // Products of small and medium transformers, then products with few rows, columns or terms.
  const Sizes sizes[] = {{64, 64, 64},    {256, 256, 256},  {512, 512, 512},   {1024, 256, 256}, {1024, 1024, 256},
                         {512, 64, 256},  {1024, 2048, 64}, {256, 1024, 1024}, {128, 128, 32},   {16, 1024, 256},
                         {1024, 16, 256}, {256, 256, 16},   {1, 1024, 1024},   {32, 32, 4096}};
  for (const Sizes &s : sizes)
    for (Layout layout : {Layout::Forward, Layout::LeftGradient, Layout::RightGradient})
      specs.push_back(product(s.m, s.n, s.k, DType::F32, layout));
  for (int64_t n : {64, 256, 512})
    for (DType dtype : {DType::F64, DType::BF16})
      specs.push_back(productSpec(n, n, n, dtype));
  for (bool backward : {false, true}) {
    specs.push_back(attention(8, 64, 2, 32, backward));
    specs.push_back(attention(8, 128, 2, 32, backward));
    specs.push_back(attention(4, 128, 2, 128, backward));
    specs.push_back(attention(4, 128, 4, 64, backward));
    specs.push_back(attention(2, 256, 4, 64, backward));
    specs.push_back(attention(1, 512, 4, 64, backward));
  }
  struct Rows {
    int64_t rows, width;
  };
  std::vector<Rows> rows = {{16, 64}, {256, 64}, {512, 256}, {1024, 512}, {1024, 2048}};
  if (effort == ProfileOptions::Effort::Full)
    rows.push_back({4096, 2048});
  for (const Rows &r : rows) {
    addPointwise(specs, r.rows, r.width);
    addReductions(specs, r.rows, r.width);
    addMoves(specs, r.rows, r.width);
  }
  return specs;
}
