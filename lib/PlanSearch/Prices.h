// SPDX-License-Identifier: Apache-2.0
// Seconds that the simulator charges at least, whatever else of a plan is chosen: what the bounds are made of.
#pragma once

#include "kerf/CostModel/ModelWork.h"
#include "kerf/CostModel/Simulator.h"

namespace kerf::plansearch {

/// Of one microbatch through the whole chain on one rank's share: kernels, and the collectives that nothing hides.
struct PassSeconds {
  struct Link {
    double forward = 0, inputGradient = 0, weightGradient = 0;
    double backward() const { return inputGradient + weightGradient; }
  };
  std::vector<Link> links;          // of the chain: one layer of each run
  double forward = 0, backward = 0; // of all layers; no recomputation
  double layer = 0;                 // of the cheapest layer, both passes
  double whole() const { return forward + backward; }
};
/// `collectives` null: kernels alone.
PassSeconds passSeconds(const ModelWork &model, const Device &device, const CollectiveModel *collectives,
                        bool tensorOverlap);

/// FLOPs over the best rate that the device reaches with any shape.
double bestSeconds(const ModelWork &model, const Device &device);

/// A bound of the pipeline's seconds (no optimizer), parts with so many layers each.
double cutSeconds(const ModelWork &model, const PassSeconds &pass, const std::vector<int64_t> &layersOfParts,
                  const ScheduleOptions &schedule);

/// Of all parameters of the chain, one after the other.
struct ParameterSeconds {
  double everyMicrobatch = 0; // gathers and reductions of shards
  double reduction = 0;       // once a step, of whole gradients
};
ParameterSeconds parameterSeconds(const ModelWork &model, const CollectiveModel &collectives, const StateBytes &bytes,
                                  int optimizerSharding);

/// Bytes of parameters, gradients and states of the whole chain on one rank's share.
double stateBytesOf(const ModelWork &model, const Mesh &mesh, const StateBytes &bytes, int optimizerSharding);

} // namespace kerf::plansearch
