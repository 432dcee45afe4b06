// SPDX-License-Identifier: Apache-2.0
// The kernels of ring attention: attention to one more block of keys and values, and its gradient.
#include "Attention.h"

namespace kerf::runtime::kernels {

namespace {
/// Merges the attention to this block of keys into the attention to earlier blocks. Both are means of values weighted
/// by exponentials, and the logarithm of each sum of weights is known.
template <typename T> struct Merge {
  AttentionCall<T> all;
  const T *soFar, *lseSoFar;
  T *out, *lse;

  void run() const {
    const AttentionSizes &z = all.z;
    copyOver(all.team, soFar, out, z.b * z.s * z.h * z.e);
    copyOver(all.team, lseSoFar, lse, z.b * z.h * z.s);
    forTasks(all.team, z.b * z.h, [&](int64_t task, int64_t thread) {
      AttentionCall<T> call = all.ofThread(thread);
      int64_t h = task % z.h;
      call.eachBlock({task / z.h, h, h / (z.h / z.g)}, [&](Head at, int64_t row, int64_t rows, int64_t keys) {
        call.score(at, row, rows, keys);
        T *outRows = out + call.rowOfOutput(at, row), *sums = lse + (at.b * z.h + at.h) * z.s + row;
        dispatch(
            [](auto, T *scores, T *out, T *sums, int64_t rows, int64_t keys, int64_t e, int64_t outStride) {
              for (int64_t i = 0; i < rows; ++i) {
                T before = sums[i], here = normalizeRow(scores + i * keys, keys), higher = std::max(before, here);
                if (here == -std::numeric_limits<T>::infinity()) // attends to no key of this block; scores are zeros
                  continue;
                sums[i] = higher + std::log(std::exp(before - higher) + std::exp(here - higher));
                T kept = std::exp(before - sums[i]), added = std::exp(here - sums[i]);
#pragma omp simd
                for (int64_t j = 0; j < e; ++j)
                  out[i * outStride + j] *= kept;
#pragma omp simd
                for (int64_t j = 0; j < keys; ++j)
                  scores[i * keys + j] *= added;
              }
            },
            call.scores, outRows, sums, rows, keys, z.e, z.h * z.e);
        gemm<T>(rows, z.e, keys, T(1), {call.scores, keys, 1}, call.values(at), outRows, z.h * z.e, GemmOutput::Add,
                call.scratch);
      });
    });
  }
};

} // namespace

Result<PlannedKernel> planAttentionBlock(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(5, 6, 2))
    return check.error();
  std::optional<AttentionSizes> sizes =
      attentionSizes(check, request, 2, request.operands.size() == 6, KeyScope::OneBlock);
  if (!sizes)
    return check.error();
  const AttentionSizes &z = *sizes;
  const TensorView &soFar = request.operands[0], &lseSoFar = request.operands[1];
  check.shape(soFar, "the result so far", {z.b, z.s, z.h, z.e});
  check.shape(lseSoFar, "the log-sum-exp so far", {z.b, z.h, z.s});
  check.dtype(soFar, "the result so far", request.operands[2].dtype);
  check.dtype(lseSoFar, "the log-sum-exp so far", request.operands[2].dtype);
  check.sameType(request.results[0], "the result", soFar, "the result so far");
  check.sameType(request.results[1], "the log-sum-exp", lseSoFar, "that so far");
  if (check.failed())
    return check.error();
  return withFloatType(request, soFar.dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    ScratchLayout layout;
    Merge<T> merge = {callOf<T>(request, 2, z, Direction::Forward, layout), dataOf<T>(soFar), dataOf<T>(lseSoFar),
                      mutableDataOf<T>(request.results[0]), mutableDataOf<T>(request.results[1])};
    return PlannedKernel{[merge] {
                           merge.run();
                           return ok();
                         },
                         layout.bytes()};
  });
}

Result<PlannedKernel> planAttentionBlockBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(7, 8, 3))
    return check.error();
  bool masked = request.operands.size() == 8;
  std::optional<AttentionSizes> sizes = attentionSizes(check, request, 1, masked, KeyScope::OneBlock);
  if (!sizes)
    return check.error();
  return attentionBackward(check, request, 1, masked, *sizes);
}

} // namespace kerf::runtime::kernels
