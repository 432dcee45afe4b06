// SPDX-License-Identifier: Apache-2.0
// Random small training jobs for tests: a model as plain data, a cluster, a batch and constraints, all from one seed.
#pragma once

#include "kerf/PlanSearch/PlanSearch.h"

namespace kerf::test {

/// Tolerance for comparing step times: sums of doubles in another order differ in the last digits.
inline constexpr double kRounding = 1 + 1e-12;

/// A random job, and the inputs of a search for its best plan.
struct RandomJob {
  uint64_t seed = 0;
  Cluster cluster;
  TrainingJob job;
  PlanSearchOptions options;
  int64_t layers = 1;
  /// One segment of the model: the work before the layers, a run of layers, or the work between or after runs.
  struct Link {
    bool layer = false;
    double flops = 0, bytes = 0, width = 0, parameters = 0, selective = 0;
    int64_t count = 0; // number of layers of a run
  };
  std::vector<Link> links; // in forward order; layers may be of two kinds
  double stream = 0;       // activation bytes of one sample between layers
  bool tied = false;       // whether the last segment shares parameters with the first

  /// Returns the model's work under a layout. The axis "model" shards it as Megatron-LM does, "context" cuts the
  /// sequence, and "expert" the layers' weights.
  ModelWork work(const LayoutKey &key) const;
  /// Returns whether the model can be laid out so; some layouts are refused to test the search with gaps.
  static bool possible(const LayoutKey &key) { return !key.ulysses || key.model * key.context <= 2; }
  /// Returns the model as the search takes it. The job must outlive the result.
  LayoutSource source();

private:
  std::map<LayoutKey, ModelWork> known;
};

/// Returns the job of a seed; the same on every machine.
RandomJob randomJob(uint64_t seed);

/// Returns the first and last seed of the environment variable KERF_SEEDS ("1..300"), or the given ones without it.
std::pair<uint64_t, uint64_t> seedsOr(uint64_t from, uint64_t to);

/// Returns the groups of a mixed cluster, or the cluster itself where all ranks are alike.
std::vector<Cluster *> uniformGroups(Cluster &cluster);

} // namespace kerf::test
