// SPDX-License-Identifier: Apache-2.0
// The mesh of the device program: the ranks of a stage in axes that the meshes of all stages are made of, the stages,
// and the microbatches.
//
//   data 4 x model 2 and data 2 x model 4, in two stages, four microbatches:
//     microbatch 4 x stage 2 x data 2 x data|model 2 x model 2
//   data 4, optimizer sharding on 2 ranks:   data 2 x data/2 2
#pragma once

#include "kerf/PlanSearch/CompletePlan.h"

namespace kerf {

/// What one layout calls the axes of the program.
struct Roles {
  /// "context", "expert", "model" and its parts, and "data" (of data groups alone): axes of the program, major first.
  std::map<std::string, std::vector<std::string>> axes;
  std::vector<std::string> sharded; // over which `optimizer_sharding` cuts
};

struct ProgramMesh {
  std::map<std::string, int64_t> sizes;
  std::vector<std::string> order;
  std::vector<Roles> roles; // of each layout
};

/// A layout of the plan: the plan as its stages have it, and the mesh on which it was found (Compiler/LayOut.h).
struct LayoutMesh {
  Plan plan;
  Mesh mesh;
};

ProgramMesh programMesh(const CompletedPlan &completed, std::span<const LayoutMesh> layouts);

/// The batch is cut by microbatches first, then by ranks, and each rank holds all samples. So it is where ranks change
/// how they share a microbatch: experts take the samples of all ranks of their axis by an all-to-all, and stages may
/// have meshes of their own.
bool timeComesFirst(const CompletedPlan &completed);

} // namespace kerf
