// SPDX-License-Identifier: Apache-2.0
// Predicts the cost of each instruction of a package's program from the IR operator from which the instruction was
// made.
#pragma once

#include "kerf/CostModel/Collectives.h"
#include "kerf/Package/FlatProgram.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include <unordered_map>

namespace kerf {

/// The part of a step to whose time a kernel counts. `Backward` includes recomputation; `Optimizer` is everything after
/// the last microbatch.
enum class StepPart { Forward, Backward, Optimizer };

/// The predicted cost of one instruction.
struct InstructionPrice {
  double kernelSeconds = 0; // seconds of a kernel; 0 for collectives and messages
  double addingSeconds = 0; // seconds where an accumulate, or a product, adds to a sum; 0 for other ops
  bool isBackward = false;  // whether the operator belongs to the backward pass
  bool isUpdate = false;    // whether the operator belongs to the optimizer's update
  /// The kind of communication, for collectives and for messages to another stage; absent for kernels.
  std::optional<Collective> collective = {};
  std::vector<AxisRef> axes = {}; // mesh axes over which the communication runs
  double bytes = 0;               // bytes per rank of the communicated tensor
};

/// The predicted time of a merged collective. On CPUs, cores do the transfer and cannot run kernels meanwhile.
struct CollectiveSeconds {
  double transfer = 0; // seconds in which cores move bytes
  double latency = 0;  // seconds of link latency, during which kernels can run
  /// Returns the whole time in seconds.
  double all() const { return transfer + latency; }
};

/// Predicts the instructions of one program; results are cached.
class InstructionPrices {
public:
  /// Prepares predictions for `program`. `device` is the IR module from which the program was emitted; both must
  /// outlive this object.
  InstructionPrices(mlir::ModuleOp device, const package::Program &program, const CollectiveModel &collectives);

  /// Returns the predicted cost of an instruction of the program.
  const InstructionPrice &of(const package::Instruction &instruction);
  /// Returns the seconds of a product that a device computes together with other instructions, which read and write
  /// `moreBytes` bytes besides the product's operands and result.
  double joinedSeconds(const package::Instruction &product, double moreBytes) const;
  /// Returns the part of the step to which instruction `op` of the expanded program belongs.
  StepPart partOf(const package::Expansion &expansion, int op);
  /// Returns the predicted time of an instruction that merges several collectives (a bucket). Their transfers add up;
  /// they share one latency.
  CollectiveSeconds mergedSeconds(const package::FlatInstruction &instruction);
  /// Returns the names of the mesh axes of a collective: "data, model".
  std::string axisNames(const package::Instruction &collective);

private:
  double kernelSeconds(mlir::Operation *kernel) const;
  InstructionPrice priceOf(mlir::Operation *op) const;

  const CollectiveModel &collectives;
  mlir::SymbolTable symbols;
  std::unordered_map<const package::Instruction *, mlir::Operation *> ops;
  std::unordered_map<const package::Instruction *, InstructionPrice> prices;
};

} // namespace kerf
