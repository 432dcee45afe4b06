// SPDX-License-Identifier: Apache-2.0
// What an op tells about itself. A pass asks these and knows no op by name.
#ifndef KERF_INTERFACES_TD
#define KERF_INTERFACES_TD

include "mlir/IR/OpBase.td"

// Facts without a method: kerf/Dialect/Kerf/OpFacts.h says what each means.
class Kerf_Fact<string name> : NativeOpTrait<name> { let cppNamespace = "::kerf::ir"; }
class Kerf_In16Bits<string rule> : ParamNativeOpTrait<"In16Bits", "::kerf::ir::HalfRule::" # rule> {
  let cppNamespace = "::kerf::ir";
}
def Kerf_SameValue : Kerf_Fact<"SameValue">;
def Kerf_PicksElements : Kerf_Fact<"PicksElements">;
def Kerf_MadeWhereRead : Kerf_Fact<"MadeWhereRead">;
def Kerf_NormalizesRows : Kerf_Fact<"NormalizesRows">;
def Kerf_MakesWeightGradients : Kerf_Fact<"MakesWeightGradients">;
def Kerf_UsesTable : Kerf_Fact<"UsesTable">;
def Kerf_TakesIndices : Kerf_Fact<"TakesIndices">;
def Kerf_ManyInstructions : Kerf_Fact<"ManyInstructions">;
def Kerf_KeepsType : Kerf_Fact<"KeepsType">;
def Kerf_CopiesByHost : Kerf_Fact<"CopiesByHost">;

def ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::kerf::ir";
  let description = [{The op tells its sharding rule (kerf/Sharding/Rule.h) and how to become a local op.}];
  let methods = [
    InterfaceMethod<"The rule, for the op's global shapes.", "::kerf::Rule", "getShardingRule">,
    InterfaceMethod<[{
      Emits the op on local operands, with local result types, for `sharding` (what `project` gave for the op's strategy).
      Padding of operands is unspecified on entry, except that operands with a cut factor that a result lacks (a reduction) have
      been masked with the reduction's neutral element where they are padded. Default: the same op with other types.
      }], "::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>>", "localize",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands, "::mlir::TypeRange":$resultTypes,
           "const ::kerf::ir::LocalizeContext &":$context),
      [{}], [{ return ::kerf::ir::cloneWithTypes(builder, $_op.getOperation(), operands, resultTypes); }]>,
  ];
}

def GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::kerf::ir";
  let description = [{The op tells its vector-Jacobian product, in terms of other ops.}];
  let methods = [
    InterfaceMethod<[{
      Given the gradient of each result (null where none flows; at least one is not null), builds the gradient of each operand
      for which `wanted[i]` holds (null for an operand that has none: indices, or where it is zero). The forward operands and
      results may be used.
      }], "::mlir::LogicalResult", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "::llvm::ArrayRef<::mlir::Value>":$resultGradients,
           "::llvm::ArrayRef<bool>":$wanted, "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGradients)>,
  ];
}

def WorkOpInterface : OpInterface<"WorkOpInterface"> {
  let cppNamespace = "::kerf::ir";
  let description = [{The op tells its work from its (global or local) types: floating point operations and kernel class.}];
  let methods = [
    InterfaceMethod<"Floating point operations; a multiply-add counts two.", "double", "getFlops", (ins), [{}],
      [{ return ::kerf::ir::resultElements($_op.getOperation()); }]>,
    InterfaceMethod<"The class of kernel that runs it.", "::kerf::KernelClass", "getKernelClass", (ins), [{}],
      [{ return ::kerf::KernelClass::Pointwise; }]>,
    InterfaceMethod<[{
      Fills in what a kernel's curves ask beyond that, from the local shapes of operands and results: the sizes m, n, k and batch of
      products and attention, and the bytes that are really touched, where these are fewer than all of operands and results.
      }], "void", "describe",
      (ins "::llvm::ArrayRef<::kerf::Shape>":$operands, "::llvm::ArrayRef<::kerf::Shape>":$results, "::kerf::Work &":$work), [{}],
      [{ return; }]>,
  ];
}

def DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::kerf::ir";
  let description = [{A composite tells how to become simpler ops with the same results.}];
  let methods = [
    InterfaceMethod<"One value a result, built from simpler ops.", "::llvm::SmallVector<::mlir::Value>", "decompose",
      (ins "::mlir::OpBuilder &":$builder)>,
  ];
}

def RoutingOpInterface : OpInterface<"RoutingOpInterface"> {
  let cppNamespace = "::kerf::ir";
  let description = [{The op moves tokens into experts' slots or back.}];
  let methods = [
    InterfaceMethod<"The operand or result [experts, samples, slots, width] that holds the slots.", "::mlir::Value", "getSlots">,
    InterfaceMethod<"The operand or result [samples, length, width] that holds the tokens.", "::mlir::Value", "getTokenStream">,
  ];
}

#endif
