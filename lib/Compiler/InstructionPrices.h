// SPDX-License-Identifier: Apache-2.0
// Prices of the instructions of a package's program. Each is asked of the operator that the instruction was made from.
#pragma once

#include "kerf/CostModel/Collectives.h"
#include "kerf/Package/FlatProgram.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include <unordered_map>

namespace kerf {

/// `Forward` and what the optimizer does once: which part of a step's breakdown a kernel's seconds are.
enum class StepPart { Forward, Backward, Optimizer };

struct InstructionPrice {
  double kernelSeconds = 0; // of an instruction that computes
  bool isBackward = false, isUpdate = false;
  /// Set for collectives and for messages to another stage.
  std::optional<Collective> collective = {};
  std::vector<AxisRef> axes = {};
  double bytes = 0;
};

/// Seconds of collectives that are one: those that move cores' time, and those of the links' latency.
struct CollectiveSeconds {
  double moving = 0, latency = 0;
  double all() const { return moving + latency; }
};

class InstructionPrices {
public:
  /// `device` is the program as IR, `program` the same as the package has it.
  InstructionPrices(mlir::ModuleOp device, const package::Program &program, const CollectiveModel &collectives);

  const InstructionPrice &of(const package::Instruction &instruction);
  /// The part of the step that an instruction of the expanded program belongs to.
  StepPart partOf(const package::Expansion &expansion, int op);
  /// Collectives of one kind along the same axes move their bytes one after the other; all share one latency.
  CollectiveSeconds together(const package::FlatInstruction &instruction);
  /// "data, model": of the first collective.
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
