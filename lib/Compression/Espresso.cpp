// SPDX-License-Identifier: Apache-2.0
// Algorithm 1 of Espresso (Wang, Lin, Xu, Ng, "Hi-Speed DNN Training with Espresso", EuroSys 2023), for compression on
// the device that computes the gradients.
#include "Evaluation.h"

#include <algorithm>
#include <numeric>

namespace kerf::compression {

namespace {

/// Returns the first layer whose gradients can matter: those before the last wait of the communication stream are sent
/// while later layers still run, and compressing them would only lengthen the wait.
size_t firstAfterLastBubble(const std::vector<SendTime> &sends) {
  size_t first = 0;
  for (size_t l = 0; l < sends.size(); ++l)
    if (sends[l].idleBefore)
      first = l;
  while (first > 0 && sends[first - 1].start == sends[first].start && sends[first - 1].idleBefore)
    --first; // layers of the same bucket
  return first;
}

} // namespace

PlannedGradients planByEspresso(const PlanProblem &problem) {
  Evaluation at(problem);
  double best = at.seconds(), plain = best;
  std::vector<size_t> order(problem.gradients.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const PlanGradient &one = problem.gradients[a], &other = problem.gradients[b];
    return one.bytes != other.bytes ? one.bytes > other.bytes : one.layer > other.layer;
  });
  size_t remaining = 0; // first layer that Remove() leaves
  auto remove = [&] {
    std::vector<SendTime> sends;
    at.seconds(&sends);
    remaining = sends.empty() ? 0 : firstAfterLastBubble(sends);
  };
  remove();
  for (size_t t : order) {
    if (problem.gradients[t].layer < remaining)
      continue;
    int least = 0;
    for (size_t o = 1; o < problem.gradients[t].options.size(); ++o) {
      at.change(t, static_cast<int>(o));
      if (double seconds = at.seconds(); seconds < best) {
        best = seconds;
        least = static_cast<int>(o);
      }
    }
    at.change(t, least);
    if (least)
      remove();
  }
  return {at.choice(), best, plain, at.evaluations()};
}

} // namespace kerf::compression
