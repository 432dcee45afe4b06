// SPDX-License-Identifier: Apache-2.0
// Routing of tokens to experts and back: dispatch and combine, and their gradients. dispatch makes a copy of a
// token for each of its chosen experts, and each copy gets a slot of its expert. The slot is the number of earlier
// copies in the same batch entry that go to the same expert, ordered by token and then by choice. Every op counts the
// slots again, so that only the choices have to be saved for the backward pass.
#include "Families.h"
#include "Simd.h"

#include <algorithm>

namespace kerf::runtime::kernels {

namespace {

constexpr int64_t kMostExperts = int64_t(1) << 24; // limits the scratch memory, which holds one number for each expert

/// The sizes of a routing op.
struct RoutingSizes {
  int64_t experts, local;                // number of experts on all ranks and on this rank
  int64_t batch, tokens, choices, slots; // batch entries, tokens of each, experts of each token, slots of an expert
  int64_t width;                         // elements of a token
};

/// The tensors of a routing op, which are operands or results: `slots` [e, b, c, d], `indices` (the chosen experts) and
/// `weights` [b, s, k], and `tokens` [b, s, d].
struct RoutingViews {
  const TensorView &slots, &indices, &weights, &tokens;
};

std::optional<RoutingSizes> routingSizes(Checker &check, const BindRequest &request, const RoutingViews &views) {
  int64_t experts = check.integer("experts");
  check.indices(views.indices, "the indices");
  check.require(views.slots.shape.size() == 4, "the slots have {} dimensions, not 4", views.slots.shape.size());
  check.require(views.tokens.shape.size() == 3, "the tokens have {} dimensions, not 3", views.tokens.shape.size());
  check.require(views.indices.shape.size() == 3, "the indices have {} dimensions, not 3", views.indices.shape.size());
  check.dtype(views.slots, "the tensor of slots", views.tokens.dtype);
  check.dtype(views.weights, "the weights", views.tokens.dtype);
  if (check.failed())
    return std::nullopt;
  const Shape &slots = views.slots.shape, &tokens = views.tokens.shape;
  int64_t choices = views.indices.shape[2];
  check.shape(views.indices, "the indices", {tokens[0], tokens[1], choices});
  check.shape(views.weights, "the weights", {tokens[0], tokens[1], choices});
  check.shape(views.slots, "the tensor of slots", {slots[0], tokens[0], slots[2], tokens[2]});
  if (request.operands.size() == 4) {
    check.scalar(request.operands[3], "the offset");
    check.indices(request.operands[3], "the offset");
  } else {
    check.require(experts == slots[0], "attribute 'experts' is {}, but there are slots for {} experts", experts,
                  slots[0]);
  }
  check.require(experts >= 0 && experts <= kMostExperts, "attribute 'experts' is {}, 0 to {} are supported", experts,
                kMostExperts);
  if (check.failed())
    return std::nullopt;
  return RoutingSizes{experts, slots[0], tokens[0], tokens[1], choices, slots[2], tokens[2]};
}

/// Calls visit(choice, token, slot) for every copy of a token, in order. `slot` is the copy's row in the tensor
/// of slots, or -1 if the copy has no slot on this rank. After each batch entry b, calls done(b, first expert of
/// the rank). At that time, `counts`, which has one number for each expert on all ranks, holds how often each
/// expert was chosen.
template <typename I, typename Visit, typename Done>
Status forEachCopy(const RoutingSizes &r, const I *indices, const TensorView &offset, int64_t *counts, Visit visit,
                   Done done) {
  int64_t first = offset.data ? int64_t(readScalar(offset)) : 0;
  for (int64_t b = 0; b < r.batch; ++b) {
    std::fill_n(counts, r.experts, 0);
    for (int64_t s = 0; s < r.tokens; ++s)
      for (int64_t j = 0; j < r.choices; ++j) {
        int64_t token = b * r.tokens + s, choice = token * r.choices + j, expert = indices[choice];
        if (expert < 0 || expert >= r.experts)
          return Error{fmt::format("expert {} at [{}, {}, {}] is outside of [0, {}); check the input data", expert, b,
                                   s, j, r.experts)};
        int64_t place = counts[expert]++, local = expert - first;
        bool here = local >= 0 && local < r.local && place < r.slots;
        visit(choice, token, here ? (local * r.batch + b) * r.slots + place : -1);
      }
    done(b, first);
  }
  return ok();
}

constexpr auto kNothing = [](int64_t, int64_t) {};

template <typename T> void scaled(T weight, const T *from, T *to, int64_t n) {
  dispatch(
      [](auto, T weight, const T *from, T *to, int64_t n) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i)
          to[i] = weight * from[i];
      },
      weight, from, to, n);
}

template <typename T> void addScaled(T weight, const T *from, T *to, int64_t n) {
  dispatch(
      [](auto, T weight, const T *from, T *to, int64_t n) {
#pragma omp simd
        for (int64_t i = 0; i < n; ++i)
          to[i] += weight * from[i];
      },
      weight, from, to, n);
}

template <typename T> T inner(const T *x, const T *y, int64_t n) {
  T sum = 0;
  dispatch(
      [](auto, const T *x, const T *y, int64_t n, T *result) {
        T sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < n; ++i)
          sum += x[i] * y[i];
        *result = sum;
      },
      x, y, n, &sum);
  return sum;
}

TensorView offsetOf(const BindRequest &request) {
  return request.operands.size() == 4 ? request.operands[3] : TensorView();
}

/// Checks an instruction, takes scratch memory for the counts of experts, and returns the kernel that make(index type,
/// element type, sizes, counts) builds.
template <typename Make>
Result<PlannedKernel> planRouting(const BindRequest &request, const RoutingViews &views, Make make) {
  Checker check(request);
  std::optional<RoutingSizes> sizes = routingSizes(check, request, views);
  if (!sizes)
    return check.error();
  ScratchLayout layout;
  auto *counts = scratchAt<int64_t>(request.scratch, layout.take(sizes->experts * int64_t(sizeof(int64_t))));
  return withIndexType(request, views.indices.dtype, [&](auto index) {
    return withFloatType(request, views.tokens.dtype, [&](auto type) -> Result<PlannedKernel> {
      return PlannedKernel{make(index, type, *sizes, counts), layout.bytes()};
    });
  });
}

bool countsFit(Checker &check) { return check.counts(3, 4, 1); }

} // namespace

Result<PlannedKernel> planDispatch(const BindRequest &request) {
  if (Checker check(request); !countsFit(check))
    return check.error();
  RoutingViews views{request.results[0], request.operands[1], request.operands[2], request.operands[0]};
  return planRouting(request, views, [&](auto index, auto type, const RoutingSizes &r, int64_t *counts) -> Kernel {
    using I = typename decltype(index)::type;
    using T = typename decltype(type)::type;
    return [=, x = dataOf<T>(views.tokens), weights = dataOf<T>(views.weights), indices = dataOf<I>(views.indices),
            y = mutableDataOf<T>(views.slots), offset = offsetOf(request)]() -> Status {
      auto copy = [&](int64_t choice, int64_t token, int64_t slot) {
        if (slot >= 0)
          scaled(weights[choice], x + token * r.width, y + slot * r.width, r.width);
      };
      auto clearRest = [&](int64_t b, int64_t first) {
        for (int64_t e = 0; e < r.local; ++e) {
          int64_t expert = first + e,
                  filled = expert >= 0 && expert < r.experts ? std::min(counts[expert], r.slots) : 0;
          std::fill_n(y + ((e * r.batch + b) * r.slots + filled) * r.width, (r.slots - filled) * r.width, T(0));
        }
      };
      return forEachCopy(r, indices, offset, counts, copy, clearRest);
    };
  });
}

Result<PlannedKernel> planCombine(const BindRequest &request) {
  if (Checker check(request); !countsFit(check))
    return check.error();
  RoutingViews views{request.operands[0], request.operands[1], request.operands[2], request.results[0]};
  return planRouting(request, views, [&](auto index, auto type, const RoutingSizes &r, int64_t *counts) -> Kernel {
    using I = typename decltype(index)::type;
    using T = typename decltype(type)::type;
    return [=, y = mutableDataOf<T>(views.tokens), weights = dataOf<T>(views.weights),
            indices = dataOf<I>(views.indices), x = dataOf<T>(views.slots), offset = offsetOf(request)]() -> Status {
      std::fill_n(y, r.batch * r.tokens * r.width, T(0));
      auto add = [&](int64_t choice, int64_t token, int64_t slot) {
        if (slot >= 0)
          addScaled(weights[choice], x + slot * r.width, y + token * r.width, r.width);
      };
      return forEachCopy(r, indices, offset, counts, add, kNothing);
    };
  });
}

Result<PlannedKernel> planCombineBackward(const BindRequest &request) {
  if (Checker check(request); !countsFit(check))
    return check.error();
  RoutingViews views{request.operands[0], request.operands[1], request.results[0], request.operands[2]};
  return planRouting(request, views, [&](auto index, auto type, const RoutingSizes &r, int64_t *counts) -> Kernel {
    using I = typename decltype(index)::type;
    using T = typename decltype(type)::type;
    return [=, tokens = dataOf<T>(views.tokens), y = mutableDataOf<T>(views.weights),
            indices = dataOf<I>(views.indices), x = dataOf<T>(views.slots), offset = offsetOf(request)]() -> Status {
      auto product = [&](int64_t choice, int64_t token, int64_t slot) {
        y[choice] = slot < 0 ? T(0) : inner(x + slot * r.width, tokens + token * r.width, r.width);
      };
      return forEachCopy(r, indices, offset, counts, product, kNothing);
    };
  });
}

} // namespace kerf::runtime::kernels
