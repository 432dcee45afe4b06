// SPDX-License-Identifier: Apache-2.0
// Predicts the seconds of one step of a compiled program by simulating the instruction lists of its pipeline stages,
// with one clock for each stage. All commands predict CPU programs in this way (docs/cost-model.md, "One price").
#pragma once

#include "kerf/CostModel/Simulator.h"
#include "kerf/Package/Package.h"
#include "mlir/IR/BuiltinOps.h"

namespace kerf {

/// The predicted time of one step. The busiest stage is the stage with the most seconds of work.
struct ProgramPrice {
  double stepSeconds = 0;
  double computeSeconds = 0;     // seconds of kernels on the busiest stage, over all microbatches
  double collectiveSeconds = 0;  // seconds of collectives and messages on the busiest stage
  Breakdown breakdown;           // parts of the busiest stage's step; recomputation counts as backward
  std::vector<TraceEvent> trace; // the timeline of all stages, one event for each task of the schedule
};

/// Predicts the time of one step of `program`, which was emitted from the IR module `device`. `collectives` gives the
/// costs of communication between the program's ranks. `joinsProducts` says whether the device runs the instructions
/// that a list joins with a product as one (runtime::Device::joinsProducts). Fails when the instruction lists are
/// malformed.
Result<ProgramPrice> priceProgram(mlir::ModuleOp device, const package::Program &program,
                                  const CollectiveModel &collectives, bool joinsProducts);

} // namespace kerf
