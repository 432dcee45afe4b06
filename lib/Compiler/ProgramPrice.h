// SPDX-License-Identifier: Apache-2.0
// The seconds of one step of a lowered program: the lists of steps that its ranks run, walked by a clock for each
// stage. CPU programs are priced so, whatever command asks (docs/cost-model.md, "One price").
#pragma once

#include "kerf/CostModel/Simulator.h"
#include "kerf/Package/Package.h"
#include "mlir/IR/BuiltinOps.h"

namespace kerf {

struct ProgramPrice {
  double stepSeconds = 0;
  /// Of the busiest stage, all microbatches: kernels, and collectives with messages.
  double computeSeconds = 0, collectiveSeconds = 0;
  /// The parts of that stage's step. Recomputation counts as backward.
  Breakdown breakdown;
  std::vector<TraceEvent> trace; // the tasks of all stages
};

/// `device` is the program as IR, `program` the same as the package has it, with its lists of steps; `collectives`
/// prices its ranks.
Result<ProgramPrice> priceProgram(mlir::ModuleOp device, const package::Program &program,
                                  const CollectiveModel &collectives);

} // namespace kerf
