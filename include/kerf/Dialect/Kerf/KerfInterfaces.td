// SPDX-License-Identifier: Apache-2.0
// Interfaces and traits by which ops describe themselves to passes, so that passes need not name single ops.
#ifndef KERF_INTERFACES_TD
#define KERF_INTERFACES_TD

include "mlir/IR/OpBase.td"

// Traits without methods. kerf/Dialect/Kerf/OpFacts.h documents each.
class Kerf_Fact<string name> : NativeOpTrait<name> { let cppNamespace = "::kerf::ir"; }
class Kerf_In16Bits<string rule> : ParamNativeOpTrait<"In16Bits", "::kerf::ir::HalfRule::" # rule> {
  let cppNamespace = "::kerf::ir";
}
def Kerf_SameValue : Kerf_Fact<"SameValue">;
def Kerf_PicksElements : Kerf_Fact<"PicksElements">;
def Kerf_FusesIntoUsers : Kerf_Fact<"FusesIntoUsers">;
def Kerf_NormalizesRows : Kerf_Fact<"NormalizesRows">;
def Kerf_ComputesWeightGradients : Kerf_Fact<"ComputesWeightGradients">;
def Kerf_UsesTable : Kerf_Fact<"UsesTable">;
def Kerf_TakesIndices : Kerf_Fact<"TakesIndices">;
def Kerf_ManyInstructions : Kerf_Fact<"ManyInstructions">;
def Kerf_KeepsType : Kerf_Fact<"KeepsType">;
def Kerf_ReadsScores : Kerf_Fact<"ReadsScores">;
def Kerf_TransfersHostMemory : Kerf_Fact<"TransfersHostMemory">;

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::kerf::ir";
  let description = [{Ops that have a sharding rule (kerf/Sharding/Rule.h) and can be lowered to an op on one rank's shards.}];
  let methods = [
    InterfaceMethod<"Returns the sharding rule for the op's global shapes.", "::kerf::Rule", "getShardingRule">,
    InterfaceMethod<[{
      Emits the op on `operands`, which are one rank's shards, with the local types `resultTypes`, and returns its results. The shardings of
      the op are in `context.sharding`. The padding of operands holds unspecified elements, with one exception: where a sharded factor is
      reduced (an operand has it, a result lacks it), the padding along the factor holds the reduction's neutral element. The default
      implementation clones the op with the new types. Fails after reporting an error.
      }], "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "localize",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands, "::mlir::TypeRange":$resultTypes,
           "const ::kerf::ir::LocalizeContext &":$context),
      [{}], [{ return ::kerf::ir::cloneWithTypes(builder, $_op.getOperation(), operands, resultTypes); }]>,
  ];
}

def GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::kerf::ir";
  let description = [{Ops that can emit their vector-Jacobian product as other ops.}];
  let methods = [
    InterfaceMethod<[{
      Emits the gradient of each operand i for which `wanted[i]` is true. `resultGradients` has the gradient of each result, null where no gradient
      flows into the result; at least one is not null. `operandGradients` gets an entry for each operand, null where the operand has
      no gradient (indices) or a zero one. The emitted ops may read the op's operands and results. Fails after reporting an error.
      }], "::mlir::LogicalResult", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "::llvm::ArrayRef<::mlir::Value>":$resultGradients,
           "::llvm::ArrayRef<bool>":$wanted, "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGradients)>,
  ];
}

def WorkOpInterface : OpInterface<"WorkOpInterface"> {
  let cppNamespace = "::kerf::ir";
  let description = [{Ops that state, for their global or local types, how much they compute and by which class of kernel.}];
  let methods = [
    InterfaceMethod<"Returns the number of floating-point operations (FLOP); a multiply-add counts as two.", "double", "getFlops", (ins), [{}],
      [{ return ::kerf::ir::resultElements($_op.getOperation()); }]>,
    InterfaceMethod<"Returns the class of the kernel that runs the op.", "::kerf::KernelClass", "getKernelClass", (ins), [{}],
      [{ return ::kerf::KernelClass::Pointwise; }]>,
    InterfaceMethod<[{
      Sets the further fields of `work` that the kernel's measured curves depend on, from the local shapes of operands and results: the sizes
      m, n, k and batch of products and attention, and the bytes read and written where these are fewer than the bytes of all operands and results.
      }], "void", "describe",
      (ins "::llvm::ArrayRef<::kerf::Shape>":$operands, "::llvm::ArrayRef<::kerf::Shape>":$results, "::kerf::Work &":$work), [{}],
      [{ return; }]>,
  ];
}

def DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::kerf::ir";
  let description = [{Composites: ops that can be replaced by simpler ops with the same results.}];
  let methods = [
    InterfaceMethod<"Emits the simpler ops and returns one value for each result of the op.", "::llvm::SmallVector<::mlir::Value>", "decompose",
      (ins "::mlir::OpBuilder &":$builder)>,
  ];
}

def RoutingOpInterface : OpInterface<"RoutingOpInterface"> {
  let cppNamespace = "::kerf::ir";
  let description = [{Ops of mixtures of experts that move tokens into the slots of experts, or back.}];
  let methods = [
    InterfaceMethod<"Returns the operand or result that holds the experts' slots, of shape [experts, samples, slots, width].", "::mlir::Value", "getSlots">,
    InterfaceMethod<"Returns the operand or result that holds the tokens, of shape [samples, length, width].", "::mlir::Value", "getTokenStream">,
  ];
}

#endif
