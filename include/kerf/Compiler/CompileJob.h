// SPDX-License-Identifier: Apache-2.0
// Compiles a training job to a package, under a given plan or under the one that a search finds.
#pragma once

#include "kerf/Compiler/PlanUse.h"

namespace kerf {

/// Builds the request for a plan of the job. The plan of the use is not part of it.
Result<PlanRequest> requestOf(const ResolvedUse &use);

/// A job that was compiled to a package.
struct CompiledJob {
  Plan plan;
  Report report;
  std::vector<std::string> notes, warnings;
};

/// Compiles the job and writes the package into `folder`, with machine code for all instruction sets if `native`. A
/// complete plan is compiled as it is; a plan with gaps constrains the search. Fails with ExitStatus::Infeasible when
/// no plan fits.
Result<CompiledJob> compileJob(const PlanUse &use, const std::string &folder, bool native);

/// The layout of one parameter or buffer under a plan. The program may split dimensions of the tensor ("fused" heads),
/// so that the mesh cuts parts of a dimension: a tensor of shape [768, 2304] may have the sizes [768, 3, 12, 64].
struct ParameterLayout {
  std::string name;
  Shape shape; // global shape in the model
  Shape sizes; // global shape in the program: the same elements in the same row-major order
  /// For each dimension of `shape`: the indices of the sizes that it consists of. A size that covers several dimensions
  /// of `shape` is in the list of each.
  std::vector<std::vector<int64_t>> folds;
  /// A part of an axis is written with its place: "model:(1)2".
  std::vector<std::vector<std::string>> axes; // for each of `sizes`: the mesh axes that cut it
  bool trainable = false;
  int64_t stage = -1; // pipeline stage that holds the tensor; -1: every stage that uses it
};

/// Returns how the sizes of a tensor make up the dimensions of `shape`, which has the same number of elements
/// (ParameterLayout::folds).
std::vector<std::vector<int64_t>> foldsOf(const Shape &shape, const Shape &sizes);

/// Compiles the job under its plan and returns the layouts of its parameters and buffers, in the order of the model.
Result<std::vector<ParameterLayout>> parameterLayouts(const PlanUse &use);

} // namespace kerf
