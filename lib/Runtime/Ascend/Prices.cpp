// SPDX-License-Identifier: Apache-2.0
#include "Prices.h"

#include <algorithm>
#include <set>
#include <utility>

namespace kerf::runtime::ascend {

namespace {
// The 910A has 1.2 TB/s and 64 and 256 TFLOP/s of float32 and 16-bit products, the 910B3 1.6 TB/s and 94 and 313
// TFLOP/s. Efficiencies: memory 0.80; products 0.65 and 0.75; attention 0.30. A test compares them with their sources.
constexpr Prices kFirst{4.5e-6, 1.2e12 * 0.80, 64e12 * 0.65, 256e12 * 0.65, 256e12 * 0.30};
constexpr Prices kLater{4.5e-6, 1.6e12 * 0.80, 94e12 * 0.75, 313e12 * 0.75, 313e12 * 0.30};

/// Returns the bytes of the elements that a view reaches: repeated elements are read once.
double reachedBytes(const View &view) {
  double elements = 1;
  for (size_t d = 0; d < view.sizes.size(); ++d)
    elements *= view.strides[d] == 0 ? 1 : double(view.sizes[d]);
  return elements * double(bytesOf(view.dtype));
}

const View &viewAt(const OperatorCall &call, size_t i) { return std::get<View>(call.arguments[i]); }

/// The multiplications of a call, and their rate.
struct Work {
  double flops = 0, flopsPerSecond = 1;
};
Work workOf(const OperatorCall &call, const Prices &prices) {
  auto rate = [&](const View &view) { return view.dtype == DType::F32 ? prices.flopsOfFloat : prices.flopsOfHalf; };
  auto product = [&](size_t left, size_t to) {
    const View &a = viewAt(call, left), &c = viewAt(call, to);
    return Work{2.0 * double(c.elements()) * double(a.sizes.back()), rate(a)};
  };
  if (call.one == &op::Matmul)
    return product(0, 2);
  if (call.one == &op::Addmm || call.one == &op::Baddbmm)
    return product(1, 5);
  if (call.one == &op::Convolution) {
    const View &kernel = viewAt(call, 1), &y = viewAt(call, 9);
    return {2.0 * double(y.elements()) * double(kernel.elements() / std::max<int64_t>(kernel.sizes[0], 1)), rate(y)};
  }
  if (call.one == &op::FlashAttentionScore || call.one == &op::FlashAttentionScoreGrad) {
    // Queries [b, s, h, d] and keys [b, t, g, d]: two products forward, five backward.
    const View &query = viewAt(call, 0), &key = viewAt(call, 1);
    double products = call.one == &op::FlashAttentionScore ? 2 : 5;
    return {products * 2.0 * double(query.elements()) * double(key.sizes[1]), prices.flopsOfFlash};
  }
  return {};
}

double secondsOf(const OperatorCall &call, const Prices &prices) {
  const bool readsStrides =
      call.one == &op::InplaceCopy || call.one == &op::Matmul || call.one == &op::Addmm || call.one == &op::Baddbmm;
  double bytes = 0, launches = 1;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const auto *view = std::get_if<View>(&call.arguments[i]);
    if (!view)
      continue;
    const Kind kind = call.one->kinds[i];
    double passes = kind == Kind::InOut ? 2 : 1;
    bytes += passes * reachedBytes(*view);
    if (readsStrides || isDense(*view))
      continue;
    // The dense copy is written or read, and the other memory is read or written.
    bytes += passes * (reachedBytes(*view) + double(view->bytes()));
    launches += passes;
  }
  Work work = workOf(call, prices);
  return launches * prices.launchSeconds + std::max(bytes / prices.bytesPerSecond, work.flops / work.flopsPerSecond);
}

/// Returns an operator of the calls that the libraries lack; null if they have all.
const Operator *missingOf(const Target &target, const std::vector<Call> &calls) {
  for (const Call &call : calls)
    if (const auto *operation = std::get_if<OperatorCall>(&call);
        operation && target.has && !target.has(*operation->one))
      return operation->one;
  return nullptr;
}

/// A composition as it would be built.
struct Trial {
  const Composition *composition;
  std::vector<Call> calls;
  const Operator *missing; // null if the libraries have all operators
  double seconds;
  /// Orders trials by price; those with a missing operator come last.
  bool operator<(const Trial &other) const {
    return std::pair(missing != nullptr, seconds) < std::pair(other.missing != nullptr, other.seconds);
  }
};

/// Tells which missing operators made `taken` the choice.
void tellOfMissing(const Builder &b, const std::vector<Trial> &trials, const Trial &taken) {
  if (!b.target.onMissing || taken.missing)
    return;
  std::set<std::string> names;
  for (const Call &call : taken.calls)
    if (const auto *operation = std::get_if<OperatorCall>(&call))
      names.insert(operation->one->name);
  for (const Trial &trial : trials)
    if (trial.missing && trial.seconds < taken.seconds)
      b.target.onMissing(b.name(), *trial.missing, names);
}
} // namespace

const Prices &pricesOf(Generation generation) { return generation == Generation::First ? kFirst : kLater; }

double secondsOf(const std::vector<Call> &calls, const Prices &prices) {
  double seconds = 0;
  for (const Call &call : calls)
    if (const auto *operation = std::get_if<OperatorCall>(&call))
      seconds += secondsOf(*operation, prices);
    else if (const auto *copy = std::get_if<CopyCall>(&call))
      seconds += prices.launchSeconds + 2 * double(copy->bytes) / prices.bytesPerSecond;
    else if (const auto *clear = std::get_if<ClearCall>(&call))
      seconds += prices.launchSeconds + double(clear->bytes) / prices.bytesPerSecond;
    else
      seconds += prices.launchSeconds;
  return seconds;
}

void choose(Builder &b, std::initializer_list<Composition> compositions) {
  if (b.failure)
    return;
  const Prices &prices = b.target.prices ? *b.target.prices : pricesOf(b.target.generation);
  // Nothing is made on the device for a composition that is only priced.
  Target priced{b.target.generation};
  priced.has = b.target.has;
  priced.prices = &prices;
  std::vector<Trial> trials;
  std::optional<Error> failure;
  for (const Composition &one : compositions) {
    Builder trial = b.trial(priced);
    one.build(trial);
    if (trial.failure) {
      if (!failure && !trial.failure->message.empty())
        failure = trial.failure;
      continue;
    }
    double seconds = secondsOf(trial.calls.calls, prices);
    const Operator *missing = missingOf(b.target, trial.calls.calls);
    trials.push_back({&one, std::move(trial.calls.calls), missing, seconds});
  }
  auto best = std::min_element(trials.begin(), trials.end());
  if (best != trials.end()) {
    tellOfMissing(b, trials, *best);
    best->composition->build(b);
  } else if (failure) {
    b.fail(*failure);
  }
}

} // namespace kerf::runtime::ascend
