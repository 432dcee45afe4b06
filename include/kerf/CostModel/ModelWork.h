// SPDX-License-Identifier: Apache-2.0
// The work of a model's training step on one rank, for one microbatch, before the model is cut into pipeline stages: a
// chain of segments in forward order. The compiler writes this plain data (kerf/Transforms/ModelWork.h); cutting it
// into stages gives a StepWork (kerf/PlanSearch/StepOfPlan.h).
//
//   "embedding"  -  "layer" x 96  -  "head"
//
// An AxisRef in this data names a mesh axis by its index in kPlanAxes, whatever the mesh of a plan; a reference of size
// 0 stands for the complete axis.
#pragma once

#include "kerf/CostModel/StepWork.h"

namespace kerf {

/// One entry of the chain: a run of identical layers, or the work before, between or after the runs.
struct ChainSegment {
  Segment segment;                     // work of one layer, or of everything before, between or after; its repeat is 1
  int64_t layers = 0;                  // number of identical layers in the entry; 0: the entry is not a run of layers
  std::vector<std::string> names = {}; // names of the run's layers ("transformer.h.7"); empty: not known
};

/// The work of a complete model on one rank.
struct ModelWork {
  std::vector<ChainSegment> chain; // segments in forward order
  /// Parameters of an earlier segment that the chain entry with the given index uses too (tied embeddings). A stage
  /// that holds only that entry has a copy of the parameters.
  std::vector<std::pair<size_t, ParameterGroup>> tied;
  int64_t samples = 1;              // number of samples that `tokens` and `modelFlops` count
  double tokens = 0;                // tokens of these samples, over all ranks
  double modelFlops = 0;            // floating-point operations that the model needs for these samples, all ranks
  double layerOutputBytes = 0;      // bytes of the activations that a layer passes to the next one, before sharding
  double layerOutputLocalBytes = 0; // bytes of these activations that one rank holds
  /// Bytes, on one rank, that each part of the pipeline receives from earlier parts. Set only if the model is cut at
  /// individual ops instead of between layers.
  std::vector<double> receivedBytes = {};
  /// Returns the number of layers of the model, over all runs.
  int64_t layers() const {
    int64_t count = 0;
    for (const ChainSegment &entry : chain)
      count += entry.layers;
    return count;
  }
  /// Returns the name of a layer, for example "transformer.h.7", or "" if it is not known. `number` counts the layers
  /// of all runs from 0.
  std::string nameOfLayer(int64_t number) const {
    for (const ChainSegment &entry : chain) {
      if (number < entry.layers)
        return entry.names.empty() ? "" : entry.names[number];
      number -= entry.layers;
    }
    return "";
  }
};

} // namespace kerf
