// SPDX-License-Identifier: Apache-2.0
#ifndef KERF_BASE_TD
#define KERF_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "kerf/Dialect/Kerf/KerfInterfaces.td"

def Kerf_Dialect : Dialect {
  let name = "kerf";
  let cppNamespace = "::kerf::ir";
  let summary = "Training steps on a mesh of ranks, from whole tensors down to local ones with collectives.";
  let description = [{
    Three levels of one dialect. *Global*: whole tensors, StableHLO's semantics and names where it has them. *Planned*: the same
    ops with a `kerf.strategy` (mesh axis -> factor of the op's sharding rule), then with explicit `kerf.reshard`s. *Device*: local
    shapes and explicit collectives, one program for all ranks.

    Attributes that functions carry (`func.func` arguments of the entry):
    `kerf.kind` ("parameter", "buffer", "constant", "state", "input", "learning_rate", "step", "seed"), `kerf.name` (as exported),
    `kerf.exported_shape` (array<i64>, where the program sees another shape of the same elements), `kerf.trainable` (unit),
    `kerf.sharding` (#kerf.sharding, planned and device levels), `kerf.updated_by` (result index that replaces it after the step),
    `kerf.global_type` (device level: the type before partitioning). Results of the entry: `kerf.name`, `kerf.sharding`.
    An op's location is the user's node: NameLoc "module.scope/node"; `kerf.backward` (unit) marks ops that differentiation made.
    An argument named "grad_scaler/scale" is what the loss is multiplied by for its gradients: a "state" that the step adapts, or a "constant".
    Only in models that are imported for predictions: `kerf.repeat` (i64) on a `kerf.call` that stands for so many layers in a row;
    `kerf.dropout` (unit) on an op one of whose operands (attention: whose probabilities) training drops elements of.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    void registerKerfAttributes();
    static constexpr ::llvm::StringLiteral kStrategyAttr = "kerf.strategy";
    static constexpr ::llvm::StringLiteral kShardingAttr = "kerf.sharding";
    static constexpr ::llvm::StringLiteral kNameAttr = "kerf.name";
    static constexpr ::llvm::StringLiteral kKindAttr = "kerf.kind";
    static constexpr ::llvm::StringLiteral kExportedShapeAttr = "kerf.exported_shape";
    static constexpr ::llvm::StringLiteral kTrainableAttr = "kerf.trainable";
    static constexpr ::llvm::StringLiteral kUpdatedByAttr = "kerf.updated_by";
    static constexpr ::llvm::StringLiteral kGlobalTypeAttr = "kerf.global_type";
    static constexpr ::llvm::StringLiteral kBackwardAttr = "kerf.backward";
    static constexpr ::llvm::StringLiteral kRepeatAttr = "kerf.repeat";
    static constexpr ::llvm::StringLiteral kDropoutAttr = "kerf.dropout";
    /// Of an op of the step: the part of the pipeline that it belongs to (chunk c of stage s is part c * stages + s).
    static constexpr ::llvm::StringLiteral kPartAttr = "kerf.part";
    /// Of an op of the step, {phase, stage, chunk}: when and where it runs. Of an argument or result: its stage.
    static constexpr ::llvm::StringLiteral kTaskAttr = "kerf.task";
    static constexpr ::llvm::StringLiteral kStageAttr = "kerf.stage";
    /// Of a sync_gradient: the gradient of every microbatch is reduced, not their sum.
    static constexpr ::llvm::StringLiteral kEachMicrobatchAttr = "kerf.each_microbatch";
    /// Of a call of a layer's backward function: which values are made again in it ("none", "selective" or "full"). Of
    /// an op of the layer, what a plan says of its results alone (true or false).
    static constexpr ::llvm::StringLiteral kRecomputeAttr = "kerf.recompute";
    /// Of a call of a layer's backward function: what it keeps of the forward pass is in the host's memory meanwhile.
    static constexpr ::llvm::StringLiteral kOffloadAttr = "kerf.offload";
    /// Of attention whose sequence ranks share: keys and values are cut as queries are and pass round these ranks.
    static constexpr ::llvm::StringLiteral kRingAttr = "kerf.ring";
    /// An operator of the optimizer has this attribute: the name of the parameter that it updates.
    static constexpr ::llvm::StringLiteral kUpdateAttr = "kerf.update";
    /// The argument of the entry that the loss's gradient begins with, instead of 1.
    static constexpr ::llvm::StringLiteral kLossScaleName = "grad_scaler/scale";
    /// The function that is the model (before differentiation) or one training step (after).
    static constexpr ::llvm::StringLiteral kEntryName = "main";
    static constexpr ::llvm::StringLiteral kMeshName = "mesh";
    /// Axes of the mesh with a meaning to passes: an axis in time, the mesh's last, and the stages of a pipeline, which
    /// cut no tensor.
    static constexpr ::llvm::StringLiteral kMicrobatchAxis = "microbatch";
    static constexpr ::llvm::StringLiteral kStageAxis = "stage";
  }];
}

//===-- enums ---------------------------------------------------------------------------------------------------------===//

def Kerf_ReduceKind : I32EnumAttr<"ReduceKindIR", "how values are combined", [
    I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>, I32EnumAttrCase<"min", 2>]> {
  let cppNamespace = "::kerf::ir";
  let genSpecializedAttr = 0;
}
def Kerf_ReduceKindAttr : EnumAttr<Kerf_Dialect, Kerf_ReduceKind, "reduce_kind">;

def Kerf_Comparison : I32EnumAttr<"Comparison", "a comparison's direction", [
    I32EnumAttrCase<"EQ", 0>, I32EnumAttrCase<"NE", 1>, I32EnumAttrCase<"LT", 2>,
    I32EnumAttrCase<"LE", 3>, I32EnumAttrCase<"GT", 4>, I32EnumAttrCase<"GE", 5>]> {
  let cppNamespace = "::kerf::ir";
  let genSpecializedAttr = 0;
}
def Kerf_ComparisonAttr : EnumAttr<Kerf_Dialect, Kerf_Comparison, "comparison">;

//===-- attributes ----------------------------------------------------------------------------------------------------===//

class Kerf_Attr<string name, string attrMnemonic> : AttrDef<Kerf_Dialect, name> { let mnemonic = attrMnemonic; }

def Kerf_MeshAttr : Kerf_Attr<"Mesh", "mesh"> {
  let summary = "A named grid of ranks: `#kerf.mesh<\"data\"=2, \"model\"=4>`, outermost axis first.";
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names, ArrayRefParameter<"int64_t">:$sizes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::kerf::Mesh toMesh() const;
    static MeshAttr fromMesh(::mlir::MLIRContext *context, const ::kerf::Mesh &mesh);
  }];
}

def Kerf_AxisAttr : Kerf_Attr<"Axis", "axis"> {
  let summary = "A mesh axis, `\"model\"`, or a part of one, `\"model\":(2)3` (size 0 stands for the whole axis).";
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$before, "int64_t":$size);
  let hasCustomAssemblyFormat = 1;
}

def Kerf_DimAttr : Kerf_Attr<"Dim", "dim"> {
  let summary = "The axes that cut one dimension, major first; chunk 0 stands for ceil(size / ways).";
  let parameters = (ins ArrayRefParameter<"::kerf::ir::AxisAttr">:$axes, "int64_t":$chunk);
  let hasCustomAssemblyFormat = 1;
}

def Kerf_ShardingAttr : Kerf_Attr<"Sharding", "sharding"> {
  let summary = "How a tensor lies on the mesh: axes per dimension and partial axes.";
  let description = [{
    `#kerf.sharding<[{"data"}, {}, {"model":(1)2, "x"}/32], partial = ["y"]>`: for each dimension an ordered list of axes or
    sub-axes (`"model":(1)2`: the major half of the coordinate), `/32` the elements that one position holds where that isn't
    ceil(size / ways); then the axes over which the value is still to be summed (`partial max = [...]` for another kind).
    Axis names are those of the module's `kerf.mesh`.
  }];
  let parameters = (ins ArrayRefParameter<"::kerf::ir::DimAttr">:$dims, ArrayRefParameter<"::kerf::ir::AxisAttr">:$partial,
                        "::kerf::ReduceKind":$partialKind);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// As plain data over `mesh`; reports through `emitError` an axis that the mesh lacks, a rank or a size that does not fit.
    ::mlir::FailureOr<::kerf::Sharding> toSharding(const ::kerf::Mesh &mesh, const ::kerf::Shape &shape,
        ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError) const;
    static ShardingAttr fromSharding(::mlir::MLIRContext *context, const ::kerf::Mesh &mesh, const ::kerf::Shape &shape,
        const ::kerf::Sharding &sharding);
  }];
}

//===-- types ---------------------------------------------------------------------------------------------------------===//

def Kerf_Pending : TypeDef<Kerf_Dialect, "Pending"> {
  let mnemonic = "pending";
  let summary = "A tensor that a started collective will have delivered when `kerf.wait` returns.";
  let parameters = (ins "::mlir::RankedTensorType":$tensor);
  let assemblyFormat = "`<` $tensor `>`";
}

def Kerf_Float : AnyTypeOf<[F64, F32, F16, BF16], "floating-point number">;
def Kerf_Int : AnyTypeOf<[I64, I32, I16, I8, UI64, UI32, UI16, UI8, I1], "integer or boolean">;
def Kerf_FloatTensor : StaticShapeTensorOf<[Kerf_Float]>;
def Kerf_IntTensor : StaticShapeTensorOf<[Kerf_Int]>;
def Kerf_IndexTensor : StaticShapeTensorOf<[I64, I32]>;
def Kerf_BoolTensor : StaticShapeTensorOf<[I1]>;
def Kerf_Tensor : StaticShapeTensorOf<[Kerf_Float, Kerf_Int]>;

//===-- op classes ----------------------------------------------------------------------------------------------------===//

class Kerf_Op<string opMnemonic, list<Trait> traits = []> : Op<Kerf_Dialect, opMnemonic, traits> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

/// An op of the global level: it has a sharding rule and a work.
class Kerf_GlobalOp<string opMnemonic, list<Trait> traits = []> : Kerf_Op<opMnemonic,
    !listconcat([Pure, DeclareOpInterfaceMethods<ShardingRuleOpInterface>, DeclareOpInterfaceMethods<WorkOpInterface>], traits)>;

/// An op of the global level that computes nothing: it moves elements, by kernels of class `kernelClass`.
class Kerf_MovingOp<string opMnemonic, string kernelClass, list<Trait> traits = []> : Kerf_GlobalOp<opMnemonic, traits> {
  let extraClassDeclaration = "double getFlops() { return 0; }\n::kerf::KernelClass getKernelClass() { return ::kerf::KernelClass::" #
      kernelClass # "; }";
}

#endif
