// SPDX-License-Identifier: Apache-2.0
// Small models as plain data, small clusters and batches, at random by a seed.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf::test {

/// Recomputation that communication hides changes the last digits of a step.
inline constexpr double kRounding = 1 + 1e-12;

struct RandomJob {
  uint64_t seed = 0;
  Cluster cluster;
  TrainingJob job;
  PlanSearchOptions options;
  int64_t layers = 1;
  /// Of the model: how its links differ, and what each costs.
  struct Link {
    bool layer = false;
    double flops = 0, bytes = 0, width = 0, parameters = 0, selective = 0;
    int64_t count = 0; // of a run of layers
  };
  std::vector<Link> links; // before, the layers, (between, other layers,) after
  double stream = 0;       // bytes of one sample
  bool tied = false;

  /// Deterministic; cut by `model` as Megatron-LM does, with sequence parallelism or without, along the sequence by
  /// `context`, and the layers' weights by `expert`.
  ModelWork work(const LayoutKey &key) const;
  static bool possible(const LayoutKey &key) { return !key.ulysses || key.model * key.context <= 2; }
  LayoutSource source();

private:
  std::map<LayoutKey, ModelWork> known;
};

RandomJob randomJob(uint64_t seed);

/// The first and the last seed that KERF_SEEDS="1..300" asks for; without it these.
std::pair<uint64_t, uint64_t> seedsOr(uint64_t from, uint64_t to);

/// Its groups, or the cluster itself where all ranks are alike.
std::vector<Cluster *> alikeParts(Cluster &cluster);

} // namespace kerf::test
