// SPDX-License-Identifier: Apache-2.0
// dot_general as one matrix product for each batch. Each operand is seen as a tensor (batch dimensions, free dimension,
// contracted dimension). An operand whose free or contracted dimensions cannot be merged into one strided dimension is
// packed into scratch memory first. The threads of a team share blocks of the result.
//
// A product that is added to a sum computes a part of the product in scratch memory that fits the second-level cache,
// and then adds this part. So the product is rounded, and then the sum, and the bits are those of a product and an
// `accumulate`.
//
// Products of bf16 numbers use the processor's instructions for them where it has any (GemmOfBf16.h); other products of
// 16-bit numbers run as products of float32 numbers.
#include "Families.h"
#include "Gemm.h"
#include "GemmOfBf16.h"
#include "StridedCopy.h"

#include <algorithm>

namespace kerf::runtime::kernels {

namespace {
/// Several dimensions as one: its size, and its stride in elements.
struct MergedDim {
  int64_t size = 1, stride = 1;
};

/// One operand as matrices, in its own memory or packed in scratch memory.
struct Side {
  std::vector<int64_t> batchStrides;
  int64_t row = 0, column = 0; // strides of the free and of the contracted dimension, in elements
  bool packs = false;          // whether the operand is packed
  StridedCopy packing;
};

/// Merges dimensions of a tensor into one. Returns nothing if their strides do not allow that.
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
    // A dimension of size 1 may have any stride. The one chosen makes the matrix look dense.
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

/// The number of batches, and the sizes m x k and k x n of each product's operands.
struct Sizes {
  int64_t batches = 1, m = 1, n = 1, k = 1;
};

/// The plan of an instruction: its sizes, how its operands are packed, and where each batch's matrices start.
struct DotPlan {
  Sizes sizes;
  Side lhs, rhs;
  std::vector<std::pair<int64_t, int64_t>> starts; // for each batch: offsets of its two matrices, in elements
};

/// The largest part of a product that is added to a sum at once. Its columns are as many as gemm packs at once, so that
/// only the right side is packed again for each part.
constexpr int64_t kRowsOfPart = 384, kColumnsOfPart = 768;

/// A call of a product of numbers of the type T, float, double or bf16 (uint16_t), to numbers of the type C.
template <typename T, typename C> struct DotCall {
  DotPlan plan;
  GemmBlocks blocks;
  ThreadTeam *team;
  const T *lhs, *rhs;
  const C *sum; // null where the product is added to nothing
  C *result;
  T *packedLhs, *packedRhs;
  std::byte *scratch;
  int64_t scratchOfThread, scratchOfGemm;

  void run() const {
    const T *a = lhs, *b = rhs;
    if (plan.lhs.packs) {
      plan.lhs.packing(lhs, packedLhs, team);
      a = packedLhs;
    }
    if (plan.rhs.packs) {
      plan.rhs.packing(rhs, packedRhs, team);
      b = packedRhs;
    }
    forTasks(team, int64_t(plan.starts.size()) * blocks.count(), [&](int64_t task, int64_t thread) {
      int64_t batch = task / blocks.count(), block = task % blocks.count();
      int64_t i = block / blocks.columnCount * blocks.rows, j = block % blocks.columnCount * blocks.columns;
      const Sizes &s = plan.sizes;
      auto [lhsStart, rhsStart] = plan.starts[size_t(batch)];
      Block its{a + lhsStart + i * plan.lhs.row, b + rhsStart + j * plan.rhs.row,   (batch * s.m + i) * s.n + j,
                std::min(blocks.rows, s.m - i),  std::min(blocks.columns, s.n - j), scratch + thread * scratchOfThread};
      if constexpr (!isFloat<T>)
        gemmOfBf16(its.rows, its.columns, s.k, {its.lhs, plan.lhs.row, plan.lhs.column},
                   {its.rhs, plan.rhs.column, plan.rhs.row}, sum ? sum + its.place : nullptr, result + its.place, s.n,
                   its.scratch);
      else if (sum)
        addBlock(its);
      else
        multiply(its, its.rows, its.columns, result + its.place, s.n);
    });
  }

private:
  /// A block of the result: its factors, the place of its first element in the result, its size, and scratch memory.
  struct Block {
    const T *lhs, *rhs;
    int64_t place, rows, columns;
    std::byte *scratch;
  };

  /// Writes the product of the block's first `rows` rows and `columns` columns to `to`, whose rows are `stride` apart.
  void multiply(const Block &block, int64_t rows, int64_t columns, T *to, int64_t stride) const {
    gemm<T>(rows, columns, plan.sizes.k, T(1), {block.lhs, plan.lhs.row, plan.lhs.column},
            {block.rhs, plan.rhs.column, plan.rhs.row}, to, stride, GemmOutput::Overwrite, block.scratch);
  }

  void addBlock(const Block &block) const {
    T *product = reinterpret_cast<T *>(block.scratch + scratchOfGemm);
    for (int64_t j = 0; j < block.columns; j += kColumnsOfPart)
      for (int64_t i = 0; i < block.rows; i += kRowsOfPart) {
        int64_t rows = std::min(kRowsOfPart, block.rows - i), columns = std::min(kColumnsOfPart, block.columns - j);
        Block part = block;
        part.lhs += i * plan.lhs.row;
        part.rhs += j * plan.rhs.row;
        multiply(part, rows, columns, product, columns);
        for (int64_t r = 0; r < rows; ++r) {
          int64_t at = block.place + (i + r) * plan.sizes.n + j;
          for (int64_t c = 0; c < columns; ++c)
            result[at + c] = sum[at + c] + product[r * columns + c];
        }
      }
  }
};

template <typename T, typename C> PlannedKernel planned(const BindRequest &request, const DotPlan &plan) {
  ScratchLayout layout;
  const Sizes &s = plan.sizes;
  int64_t lhsOffset = layout.take(plan.lhs.packs ? request.operands[0].bytes() : 0);
  int64_t rhsOffset = layout.take(plan.rhs.packs ? request.operands[1].bytes() : 0);
  GemmBlocks blocks = gemmBlocks(request.team, s.batches, s.m, s.n);
  const bool adds = request.operands.size() == 3;
  const int64_t rows = adds ? std::min(blocks.rows, kRowsOfPart) : blocks.rows,
                columns = adds ? std::min(blocks.columns, kColumnsOfPart) : blocks.columns;
  ScratchLayout ofThread;
  if constexpr (isFloat<T>)
    ofThread.take(gemmScratchBytes<T>(rows, columns, s.k));
  else
    ofThread.take(gemmOfBf16ScratchBytes(blocks.rows, blocks.columns, s.k));
  const int64_t scratchOfGemm = ofThread.bytes();
  ofThread.take(adds && isFloat<T> ? rows * columns * int64_t(sizeof(T)) : 0);
  const int64_t scratchOfThread = ofThread.bytes();
  int64_t productOffset = layout.take(scratchOfThread * threadsOf(request.team));
  DotCall<T, C> call{plan,
                     blocks,
                     request.team,
                     dataOf<T>(request.operands[0]),
                     dataOf<T>(request.operands[1]),
                     adds ? dataOf<C>(request.operands[2]) : nullptr,
                     mutableDataOf<C>(request.results[0]),
                     scratchAt<T>(request.scratch, lhsOffset),
                     scratchAt<T>(request.scratch, rhsOffset),
                     scratchAt<std::byte>(request.scratch, productOffset),
                     scratchOfThread,
                     scratchOfGemm};
  return {[call = std::move(call)] {
            call.run();
            return ok();
          },
          layout.bytes()};
}

/// Plans a product of float32 or float64 numbers, or one by gemmOfBf16 of bf16 numbers to bf16 or float32 numbers.
Result<PlannedKernel> planOfFactors(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 3, 1))
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
  if (lhs.dtype != DType::BF16 || result.dtype != DType::F32)
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
  if (request.operands.size() == 3)
    check.sameType(request.operands[2], "the sum so far", result, "the result");
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
  if (lhs.dtype == DType::BF16)
    return result.dtype == DType::BF16 ? planned<uint16_t, uint16_t>(request, plan)
                                       : planned<uint16_t, float>(request, plan);
  return withFloatType(request, lhs.dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    return planned<T, T>(request, plan);
  });
}

} // namespace

Result<PlannedKernel> planDotGeneral(const BindRequest &request) {
  const bool isOf8Bits = !request.operands.empty() && isFloat8(request.operands[0].dtype);
  return isOf8Bits ? planFloat8Product(request) : planOfFactors(request);
}

} // namespace kerf::runtime::kernels
