// SPDX-License-Identifier: Apache-2.0
// dot_general as a loop over batches of one matrix product. Each operand is seen as (batches, free, contracted) with
// one stride for the last two; where its dimensions do not merge so, it is packed into scratch first. float32 runs
// oneDNN's matmul, made once; float64, which oneDNN lacks, our own product.
#include "Families.h"
#include "Gemm.h"
#include "OneThread.h"
#include "StridedCopy.h"

#include <algorithm>
#include <array>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>

namespace kerf::runtime::kernels {

namespace {
struct MergedDim {
  int64_t size = 1, stride = 1;
};

/// One operand as (batch..., rows, columns) of its own memory or of packed scratch.
struct Side {
  std::vector<int64_t> batchStrides;
  int64_t row = 0, column = 0; // strides of the free and of the contracted dimension, in elements
  bool packs = false;
  StridedCopy packing;
};

/// Neighbours whose strides fit become one dimension; nothing where some do not.
std::optional<MergedDim> merged(const Shape &shape, const std::vector<int64_t> &strides,
                                const std::vector<int64_t> &dims) {
  MergedDim all;
  bool any = false;
  for (int64_t d : dims) {
    if (shape[d] == 1)
      continue;
    if (any && all.stride != strides[d] * shape[d])
      return std::nullopt;
    all = {all.size * shape[d], strides[d]};
    any = true;
  }
  return all;
}

Side sideOf(const TensorView &view, const std::vector<int64_t> &batch, const std::vector<int64_t> &free,
            const std::vector<int64_t> &contracted) {
  Side side;
  std::vector<int64_t> strides = stridesOf(view.shape);
  std::optional<MergedDim> rows = merged(view.shape, strides, free), columns = merged(view.shape, strides, contracted);
  if (rows && columns) {
    // A dimension of size 1 may have any stride: one that makes the other rows as far apart as they are long.
    if (rows->size == 1)
      rows->stride = columns->stride == 1 ? columns->size : 1;
    if (columns->size == 1)
      columns->stride = rows->stride == 1 ? rows->size : 1;
    if (rows->stride == 1 || columns->stride == 1) {
      side.row = rows->stride;
      side.column = columns->stride;
      for (int64_t d : batch)
        side.batchStrides.push_back(strides[d]);
      return side;
    }
  }
  side.packs = true;
  int64_t columnSize = 1, size = 1;
  for (int64_t d : contracted)
    columnSize *= view.shape[d];
  std::vector<CopyDim> dims;
  for (const auto *group : {&contracted, &free, &batch})
    for (auto d = group->rbegin(); d != group->rend(); ++d) {
      dims.push_back({view.shape[*d], strides[*d], size});
      if (group == &batch)
        side.batchStrides.insert(side.batchStrides.begin(), size);
      size *= view.shape[*d];
    }
  side.row = columnSize;
  side.column = 1;
  side.packing = StridedCopy(std::move(dims), bytesOf(view.dtype));
  return side;
}

struct Sizes {
  int64_t batches = 1, m = 1, n = 1, k = 1;
};

/// Everything but the product itself: where each batch's matrices start, and what is packed before.
struct DotPlan {
  Sizes sizes;
  Side lhs, rhs;
  int64_t lhsOffset = 0, rhsOffset = 0, productOffset = 0; // in scratch
  std::vector<std::pair<int64_t, int64_t>> starts;         // of each batch, in elements
};

/// oneDNN's matmul on two-dimensional views; its objects live as long as the kernel.
class OneDnnMatmul {
public:
  static Result<std::shared_ptr<OneDnnMatmul>> make(const DotPlan &plan) {
    try {
      OneThread oneThread;
      auto made = std::make_shared<OneDnnMatmul>();
      using dnnl::memory;
      const Sizes &s = plan.sizes;
      memory::desc a({s.m, s.k}, memory::data_type::f32, memory::dims{plan.lhs.row, plan.lhs.column});
      memory::desc b({s.k, s.n}, memory::data_type::f32, memory::dims{plan.rhs.column, plan.rhs.row});
      memory::desc c({s.m, s.n}, memory::data_type::f32, memory::dims{s.n, 1});
      dnnl::primitive_attr attr;
      attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
      made->engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
      made->stream = dnnl::stream(made->engine);
      dnnl::matmul::primitive_desc description({a, b, c}, attr, made->engine);
      made->primitive = dnnl::matmul(description);
      made->scratchBytes = int64_t(description.scratchpad_desc().get_size());
      made->a = memory(a, made->engine, nullptr);
      made->b = memory(b, made->engine, nullptr);
      made->c = memory(c, made->engine, nullptr);
      made->pad = memory(description.scratchpad_desc(), made->engine, nullptr);
      return made;
    } catch (const dnnl::error &e) {
      return Error{fmt::format("dot_general: oneDNN has no product of {} x {} by {} x {}: {}", plan.sizes.m,
                               plan.sizes.k, plan.sizes.k, plan.sizes.n, e.what()),
                   ExitStatus::InternalCheck};
    }
  }

  Status run(const float *lhs, const float *rhs, float *result, void *scratch) const {
    OneThread oneThread;
    dnnl_memory_set_data_handle(a.get(), const_cast<float *>(lhs));
    dnnl_memory_set_data_handle(b.get(), const_cast<float *>(rhs));
    dnnl_memory_set_data_handle(c.get(), result);
    dnnl_memory_set_data_handle(pad.get(), scratch);
    std::array<dnnl_exec_arg_t, 4> arguments = {{{DNNL_ARG_SRC, a.get()},
                                                 {DNNL_ARG_WEIGHTS, b.get()},
                                                 {DNNL_ARG_DST, c.get()},
                                                 {DNNL_ARG_SCRATCHPAD, pad.get()}}};
    dnnl_status_t status = dnnl_primitive_execute(primitive.get(), stream.get(), arguments.size(), arguments.data());
    if (status != dnnl_success)
      return Error{fmt::format("dot_general: oneDNN's matmul failed with status {}", int(status)),
                   ExitStatus::InternalCheck};
    return ok();
  }

  int64_t scratchBytes = 0;

private:
  dnnl::engine engine;
  dnnl::stream stream;
  dnnl::matmul primitive;
  dnnl::memory a, b, c, pad;
};

template <typename T>
Kernel kernelOf(const BindRequest &request, const DotPlan &plan, std::shared_ptr<OneDnnMatmul> matmul) {
  const T *lhs = dataOf<T>(request.operands[0]), *rhs = dataOf<T>(request.operands[1]);
  T *result = mutableDataOf<T>(request.results[0]);
  T *packedLhs = scratchAt<T>(request.scratch, plan.lhsOffset),
    *packedRhs = scratchAt<T>(request.scratch, plan.rhsOffset);
  void *scratch = scratchAt<std::byte>(request.scratch, plan.productOffset);
  return [=]() -> Status {
    const T *a = lhs, *b = rhs;
    if (plan.lhs.packs) {
      plan.lhs.packing(lhs, packedLhs);
      a = packedLhs;
    }
    if (plan.rhs.packs) {
      plan.rhs.packing(rhs, packedRhs);
      b = packedRhs;
    }
    const Sizes &s = plan.sizes;
    for (int64_t i = 0; i < int64_t(plan.starts.size()); ++i) {
      auto [lhsStart, rhsStart] = plan.starts[i];
      T *c = result + i * s.m * s.n;
      if constexpr (std::is_same_v<T, float>) {
        if (matmul) {
          if (Status status = matmul->run(a + lhsStart, b + rhsStart, c, scratch); !status)
            return status;
          continue;
        }
      }
      gemm<T>(s.m, s.n, s.k, T(1), {a + lhsStart, plan.lhs.row, plan.lhs.column},
              {b + rhsStart, plan.rhs.column, plan.rhs.row}, c, s.n, Into::Overwrite, scratch);
    }
    return ok();
  };
}

/// Products below this many multiplications are done by our own code: a call of oneDNN costs about as much (1 us).
constexpr int64_t kSmallProduct = 4096;

template <typename T> Result<Planned> planned(const BindRequest &request, DotPlan &plan) {
  ScratchLayout layout;
  const Sizes &s = plan.sizes;
  plan.lhsOffset = layout.take(plan.lhs.packs ? request.operands[0].bytes() : 0);
  plan.rhsOffset = layout.take(plan.rhs.packs ? request.operands[1].bytes() : 0);
  std::shared_ptr<OneDnnMatmul> matmul;
  bool empty = s.batches == 0 || s.m == 0 || s.n == 0 || s.k == 0;
  if (std::is_same_v<T, float> && !empty && s.m * s.n * s.k > kSmallProduct) {
    Result<std::shared_ptr<OneDnnMatmul>> made = OneDnnMatmul::make(plan);
    if (!made)
      return made.error();
    matmul = *made;
  }
  plan.productOffset = layout.take(matmul ? matmul->scratchBytes : gemmScratchBytes<T>(s.m, s.n, s.k));
  return Planned{kernelOf<T>(request, plan, std::move(matmul)), layout.bytes()};
}
} // namespace

Result<Planned> planDotGeneral(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  const TensorView &lhs = request.operands[0], &rhs = request.operands[1], &result = request.results[0];
  std::vector<int64_t> lhsBatch = check.dimensions("lhs_batching", lhs.shape.size());
  std::vector<int64_t> rhsBatch = check.dimensions("rhs_batching", rhs.shape.size());
  std::vector<int64_t> lhsContracted = check.dimensions("lhs_contracting", lhs.shape.size());
  std::vector<int64_t> rhsContracted = check.dimensions("rhs_contracting", rhs.shape.size());
  check.require(lhsBatch.size() == rhsBatch.size(), "the left side has {} batching dimensions, the right side {}",
                lhsBatch.size(), rhsBatch.size());
  check.require(lhsContracted.size() == rhsContracted.size(),
                "the left side has {} contracting dimensions, the right side {}", lhsContracted.size(),
                rhsContracted.size());
  check.dtype(rhs, "the right side", lhs.dtype);
  check.dtype(result, "the result", lhs.dtype);
  if (check.failed())
    return check.error();

  auto has = [](const std::vector<int64_t> &dims, int64_t d) {
    return std::find(dims.begin(), dims.end(), d) != dims.end();
  };
  auto freeOf = [&](const TensorView &view, const std::vector<int64_t> &batch, const std::vector<int64_t> &contracted) {
    std::vector<int64_t> free;
    for (int64_t d = 0; d < int64_t(view.shape.size()); ++d) {
      check.require(!has(batch, d) || !has(contracted, d), "dimension {} is both batching and contracting", d);
      if (!has(batch, d) && !has(contracted, d))
        free.push_back(d);
    }
    return free;
  };
  std::vector<int64_t> lhsFree = freeOf(lhs, lhsBatch, lhsContracted), rhsFree = freeOf(rhs, rhsBatch, rhsContracted);
  DotPlan plan;
  Shape expected;
  for (size_t i = 0; i < lhsBatch.size(); ++i) {
    int64_t size = lhs.shape[lhsBatch[i]];
    check.require(size == rhs.shape[rhsBatch[i]], "batching dimensions have {} on the left and {} on the right", size,
                  rhs.shape[rhsBatch[i]]);
    expected.push_back(size);
    plan.sizes.batches *= size;
  }
  for (size_t i = 0; i < lhsContracted.size(); ++i) {
    int64_t size = lhs.shape[lhsContracted[i]];
    check.require(size == rhs.shape[rhsContracted[i]], "contracting dimensions have {} on the left and {} on the right",
                  size, rhs.shape[rhsContracted[i]]);
    plan.sizes.k *= size;
  }
  for (int64_t d : lhsFree) {
    expected.push_back(lhs.shape[d]);
    plan.sizes.m *= lhs.shape[d];
  }
  for (int64_t d : rhsFree) {
    expected.push_back(rhs.shape[d]);
    plan.sizes.n *= rhs.shape[d];
  }
  check.shape(result, "the result", expected);
  if (check.failed())
    return check.error();

  plan.lhs = sideOf(lhs, lhsBatch, lhsFree, lhsContracted);
  plan.rhs = sideOf(rhs, rhsBatch, rhsFree, rhsContracted);
  if (request.results[0].elements() > 0)
    for (int64_t i = 0; i < plan.sizes.batches; ++i) {
      int64_t left = 0, right = 0, rest = i;
      for (size_t d = lhsBatch.size(); d-- > 0; rest /= expected[d]) {
        left += rest % expected[d] * plan.lhs.batchStrides[d];
        right += rest % expected[d] * plan.rhs.batchStrides[d];
      }
      plan.starts.push_back({left, right});
    }
  return forFloat(request, lhs.dtype, [&](auto type) { return planned<typename decltype(type)::type>(request, plan); });
}

} // namespace kerf::runtime::kernels
