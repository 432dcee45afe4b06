// SPDX-License-Identifier: Apache-2.0
// What a model's training step does on one rank, for one microbatch, before it is cut into stages: a chain of segments.
// Plain data; the program's bridge writes it (kerf/Transforms/ModelWork.h), cutting it gives a StepWork
// (kerf/PlanSearch/StepOfPlan.h).
//
//   "embedding"  -  "layer" x 96  -  "head"
//
// Mesh axes are numbered as a plan names them (kPlanAxes), whatever their order and their sizes: a ref of size 0 is the
// whole axis.
#pragma once

#include "kerf/CostModel/StepWork.h"

namespace kerf {

/// A segment of the chain through the model, in forward order: before the layers, a run of layers, (between, a run,)
/// after.
struct ChainLink {
  Segment segment;                     // repeat 1
  int64_t layers = 0;                  // of a run; 0: what stands before, between or after
  std::vector<std::string> names = {}; // of the run's layers, "transformer.h.7"; empty: not known
};

struct ModelWork {
  std::vector<ChainLink> chain;
  /// Parameters that a later link uses too (tied embeddings): a copy where another stage holds that link.
  std::vector<std::pair<size_t, ParameterGroup>> tied;
  int64_t samples = 1;                          // that `tokens` and `modelFlops` are of
  double tokens = 0, modelFlops = 0;            // of all ranks
  double streamBytes = 0, streamLocalBytes = 0; // what layers hand on: whole, and what one rank holds of it
  /// Where the step is cut at ops: what each part of the pipeline gets from parts before it, on one rank.
  std::vector<double> receivedBytes = {};
  int64_t layers() const {
    int64_t count = 0;
    for (const ChainLink &link : chain)
      count += link.layers;
    return count;
  }
  /// Of the model's layers, all runs counted together.
  std::string nameOfLayer(int64_t number) const {
    for (const ChainLink &link : chain) {
      if (number < link.layers)
        return link.names.empty() ? "" : link.names[number];
      number -= link.layers;
    }
    return "";
  }
};

} // namespace kerf
