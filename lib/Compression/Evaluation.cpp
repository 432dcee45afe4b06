// SPDX-License-Identifier: Apache-2.0
#include "Evaluation.h"

namespace kerf::compression {

Evaluation::Evaluation(const PlanProblem &problem)
    : problem(problem), layers(problem.layers), gradientsOf(problem.layers.size()), now(problem.gradients.size(), 0) {
  size_t t = 0;
  for (size_t l = 0; l < layers.size(); ++l) {
    size_t begin = t;
    while (t < problem.gradients.size() && problem.gradients[t].layer == l)
      layers[l].syncBytes += problem.gradients[t++].bytes;
    gradientsOf[l] = {begin, t};
    sumLayer(l);
  }
}

void Evaluation::sumLayer(size_t layer) {
  SyncCost sum;
  for (size_t t = gradientsOf[layer].first; t < gradientsOf[layer].second; ++t)
    addCost(sum, problem.gradients[t].options[now[t]].cost);
  layers[layer].sync = sum;
}

void Evaluation::set(const OptionIndices &choice) {
  now = choice;
  for (size_t l = 0; l < layers.size(); ++l)
    sumLayer(l);
}

void Evaluation::change(size_t gradient, int option) {
  if (now[gradient] == option)
    return;
  now[gradient] = option;
  sumLayer(problem.gradients[gradient].layer);
}

double Evaluation::seconds(std::vector<SendTime> *sends) {
  ++count;
  StreamEnds ends = runStreams(layers, problem.rules, sends);
  return std::max(ends.compute, ends.communication);
}

} // namespace kerf::compression
