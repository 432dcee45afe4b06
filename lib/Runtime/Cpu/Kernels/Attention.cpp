// SPDX-License-Identifier: Apache-2.0
// The kernels of attention over all keys and of its gradient.
#include "Attention.h"

namespace kerf::runtime::kernels {

/// Sets which block of keys this step of ring attention works on, and which of the rank's queries attend to which of
/// the block's keys (docs/operators.md).
static void readRingStep(Checker &check, const BindRequest &request, AttentionSizes &z) {
  std::vector<AxisRef> axes = check.axes("axes");
  int64_t step = check.integer("step"), ranks = shardCount(axes);
  bool causal = check.flag("causal"), balanced = check.flag("balanced");
  check.require(step > 0 && step < ranks, "step {} of {} ranks", step, ranks);
  check.require(!balanced || (causal && z.s % 2 == 0), "balanced asks for causal and an even number of queries, not {}",
                z.s);
  if (check.failed())
    return;
  int64_t here = position(request.mesh, axes, request.rank), block = (here - step + ranks) % ranks;
  z.causal = false;
  z.maskColumn = block * z.t;
  if (balanced && block < here)
    z.seen = z.t / 2;
  else if (balanced)
    z.from = z.s / 2;
  else if (causal && block > here)
    z.to = 0;
}

std::optional<AttentionSizes> attentionSizes(Checker &check, const BindRequest &request, size_t first, bool masked,
                                             KeyScope scope) {
  const auto &in = request.operands;
  const TensorView &q = in[first], &k = in[first + 1], &v = in[first + 2];
  for (const TensorView *view : {&q, &k, &v})
    check.require(view->shape.size() == 4, "query, key and value have {}, {} and {} dimensions, not 4", q.shape.size(),
                  k.shape.size(), v.shape.size());
  AttentionSizes z{};
  z.scale = check.number("scale");
  z.causal = check.flag("causal");
  z.masked = masked;
  if (check.failed())
    return std::nullopt;
  z.b = q.shape[0], z.s = q.shape[1], z.h = q.shape[2], z.d = q.shape[3];
  z.t = k.shape[1], z.g = k.shape[2], z.e = v.shape[3];
  check.dtype(k, "the key", q.dtype);
  check.dtype(v, "the value", q.dtype);
  check.shape(k, "the key", {z.b, z.t, z.g, z.d});
  check.shape(v, "the value", {z.b, z.t, z.g, z.e});
  check.require(z.g > 0 ? z.h % z.g == 0 : z.h == 0, "{} query heads are no multiple of {} key/value heads", z.h, z.g);
  z.to = z.s, z.seen = z.t;
  bool cut = request.instruction.attrs.contains("query_axes");
  std::vector<AxisRef> axes = cut ? check.axes("query_axes") : std::vector<AxisRef>();
  check.require(!z.causal || cut || z.s == z.t, "causal attention of {} queries over {} keys", z.s, z.t);
  if (!check.failed())
    z.firstQuery = position(request.mesh, axes, request.rank) * z.s;
  int64_t columns = z.t;
  if (scope == KeyScope::OneBlock && !check.failed()) {
    readRingStep(check, request, z);
    columns *= shardCount(check.axes("axes"));
  }
  if (masked && !check.failed()) {
    const TensorView &mask = in[first + 3];
    z.maskIsBool = mask.dtype == DType::Bool;
    check.require(z.maskIsBool || mask.dtype == q.dtype, "the mask is {}, neither bool nor {}", toString(mask.dtype),
                  toString(q.dtype));
    bool fits = mask.shape.size() == 4 && (mask.shape[0] == 1 || mask.shape[0] == z.b) &&
                (mask.shape[1] == 1 || mask.shape[1] == z.h) && mask.shape[2] == z.s && mask.shape[3] == columns;
    check.require(fits, "the mask is {}, not [1 or {}, 1 or {}, {}, {}]", typeText(mask), z.b, z.h, z.s, columns);
    if (fits) {
      z.maskBatch = mask.shape[0] == 1 ? 0 : mask.shape[1] * z.s * columns;
      z.maskHead = mask.shape[1] == 1 ? 0 : z.s * columns;
      z.maskRow = columns;
    }
  }
  if (check.failed())
    return std::nullopt;
  return z;
}

Result<PlannedKernel> planAttention(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(3, 4, 2))
    return check.error();
  std::optional<AttentionSizes> sizes = attentionSizes(check, request, 0, request.operands.size() == 4, KeyScope::All);
  if (!sizes)
    return check.error();
  const AttentionSizes &z = *sizes;
  const TensorView &out = request.results[0], &lse = request.results[1];
  check.shape(out, "the result", {z.b, z.s, z.h, z.e});
  check.shape(lse, "the log-sum-exp", {z.b, z.h, z.s});
  check.dtype(out, "the result", request.operands[0].dtype);
  check.dtype(lse, "the log-sum-exp", computeType(request.operands[0].dtype));
  if (check.failed())
    return check.error();
  return withElementOfFloats(request, out.dtype, [&](auto type) -> Result<PlannedKernel> {
    using E = typename decltype(type)::type;
    using T = ComputeType<E>;
    ScratchLayout layout;
    AttentionCall<E> all = callOf<E>(request, 0, z, Direction::Forward, layout);
    return PlannedKernel{
        [all, y = mutableDataOf<E>(out), logSums = mutableDataOf<T>(lse)] {
          forTasks(all.team, all.z.b * all.z.h, [&](int64_t task, int64_t thread) {
            const AttentionSizes &z = all.z;
            AttentionCall<E> call = all.ofThread(thread);
            int64_t h = task % z.h;
            call.eachBlock({task / z.h, h, h / (z.h / z.g)}, [&](Head at, int64_t row, int64_t rows, int64_t keys) {
              call.score(at, row, rows, keys);
              auto normalize = [](auto, T *scores, T *logSums, int64_t rows, int64_t keys) {
                for (int64_t i = 0; i < rows; ++i)
                  logSums[i] = normalizeRow(scores + i * keys, keys);
              };
              dispatch(normalize, call.scores, logSums + (at.b * z.h + at.h) * z.s + row, rows, keys);
              multiply(rows, z.e, keys, call.asFactor(call.scores, rows, keys), call.values(at),
                       y + call.rowOfOutput(at, row), z.h * z.e, GemmOutput::Overwrite, call.scratch);
            });
          });
          return ok();
        },
        layout.bytes()};
  });
}

Result<PlannedKernel> attentionBackward(Checker &check, const BindRequest &request, size_t first, bool masked,
                                        const AttentionSizes &z) {
  const auto &in = request.operands;
  const TensorView *others = &in[first + (masked ? 4 : 3)];
  const TensorView &out = others[0], &lse = others[1], &gradient = others[2];
  check.shape(out, "the output", {z.b, z.s, z.h, z.e});
  check.shape(lse, "the log-sum-exp", {z.b, z.h, z.s});
  check.dtype(out, "the output", in[first].dtype);
  check.dtype(lse, "the log-sum-exp", computeType(in[first].dtype));
  check.sameType(gradient, "the gradient", out, "the output");
  if (first > 0)
    check.sameType(in[0], "the query's gradient so far", in[first], "the query");
  for (size_t i = 0; i < 3; ++i)
    check.sameType(request.results[i], "a result", in[first + i], "its operand");
  if (check.failed())
    return check.error();
  return withElementOfFloats(request, in[first].dtype, [&](auto type) -> Result<PlannedKernel> {
    using E = typename decltype(type)::type;
    ScratchLayout layout;
    Backward<E> backward = {callOf<E>(request, first, z, Direction::Backward, layout),
                            dataOf<E>(out),
                            dataOf<E>(gradient),
                            dataOf<ComputeType<E>>(lse),
                            first > 0 ? dataOf<E>(in[0]) : nullptr,
                            mutableDataOf<E>(request.results[0]),
                            mutableDataOf<E>(request.results[1]),
                            mutableDataOf<E>(request.results[2])};
    return PlannedKernel{[backward] {
                           backward.run();
                           return ok();
                         },
                         layout.bytes()};
  });
}

Result<PlannedKernel> planAttentionBackward(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(6, 7, 3))
    return check.error();
  bool masked = request.operands.size() == 7;
  std::optional<AttentionSizes> sizes = attentionSizes(check, request, 0, masked, KeyScope::All);
  if (!sizes)
    return check.error();
  return attentionBackward(check, request, 0, masked, *sizes);
}

} // namespace kerf::runtime::kernels
