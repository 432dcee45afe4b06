// SPDX-License-Identifier: Apache-2.0
// The mesh of the device program. Its axes are the microbatches, the pipeline stages, and the common sub-axes of which
// the meshes of all stages are composed. Two examples:
//
//   data 4 x model 2 and data 2 x model 4, in two stages, four microbatches:
//     microbatch 4 x stage 2 x data 2 x data|model 2 x model 2
//   data 4, optimizer sharding on 2 ranks:   data 2 x data/2 2
#pragma once

#include "kerf/PlanSearch/CompletePlan.h"

namespace kerf {

/// The correspondence between the axes of one layout and the axes of the program's mesh.
struct AxisRoles {
  /// The axes of the program, outermost first, for each axis of the layout: "context", "expert", "model" and its
  /// sub-axes, and "data" (without microbatches).
  std::map<std::string, std::vector<std::string>> axes;
  std::vector<std::string> sharded; // axes of the program over which optimizer states are sharded
};

/// The mesh of the device program.
struct ProgramMesh {
  std::map<std::string, int64_t> sizes; // size of each axis by name
  std::vector<std::string> order;       // names of the axes, outermost first
  std::vector<AxisRoles> roles;         // one for each layout
};

/// The plan as it applies to the stages of one layout, and the mesh on which the layout was found (StepLayout.h).
struct LayoutMesh {
  Plan plan;
  Mesh mesh;
};

/// Builds the mesh of the device program from the meshes of all layouts.
ProgramMesh programMesh(const CompletedPlan &completed, std::span<const LayoutMesh> layouts);

/// Returns whether the batch is split into microbatches before it is split over ranks, so that each rank needs all
/// samples of the batch. This is necessary where ranks share microbatches in changing ways: with expert parallelism
/// (all-to-all), and with stages that have meshes of their own.
bool microbatchesCutBatchFirst(const CompletedPlan &completed);

} // namespace kerf
