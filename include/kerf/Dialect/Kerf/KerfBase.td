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
  let summary = "Training steps on a mesh of ranks, from whole tensors down to local shards and collectives.";
  let description = [{
    The dialect has three levels. At the *global* level, ops work on whole tensors, with StableHLO's names and semantics
    where StableHLO has the op. At the
    *planned* level, the same ops carry a `kerf.strategy` (which mesh axis shards which factor of the op's sharding
    rule), and `kerf.reshard` ops
    mark where a value changes its sharding. At the *device* level, tensors have the shape of one rank's shard and
    collectives are explicit; all ranks run this one program.

    Arguments of the entry function @main carry these attributes:
    * `kerf.kind`: "parameter", "buffer", "constant", "state", "input", "learning_rate", "step" or "seed".
    * `kerf.name`: the name in the exported model.
    * `kerf.exported_shape` (array<i64>): the shape in the exported model, where the program sees the same elements
      under another shape.
    * `kerf.trainable` (unit): the optimizer updates the argument.
    * `kerf.sharding` (#kerf.sharding; planned and device levels): how the argument is distributed over the mesh.
    * `kerf.updated_by`: the index of the result that replaces the argument after a step.
    * `kerf.global_type` (device level): the type before partitioning.

    Results of the entry function carry `kerf.name` and `kerf.sharding`. An argument with the name "grad_scaler/scale"
    is the loss scale, by which the gradient of the loss is
    multiplied: its kind is "state" where each step adapts the scale, or "constant".

    The location of an op is the node of the user's model from which the op comes: NameLoc "module.scope/node".
    `kerf.backward` (unit) marks the ops that differentiation
    created. Two attributes occur only in models that are imported for predictions: `kerf.repeat` (i64) on a `kerf.call`
    that stands for this number of consecutive
    layers, and `kerf.dropout` (unit) on an op to one of whose operands (for attention: to whose probabilities) training
    applies dropout.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    /// Registers the dialect's attributes (KerfAttrs.cpp.inc). Called once, by `initialize`.
    void registerKerfAttributes();

    // Attribute names. An attribute's comment says what it is attached to and what its value means.

    /// On an op: the factor of the op's sharding rule that each mesh axis shards, such as {"model" = "n"}.
    static constexpr ::llvm::StringLiteral kStrategyAttr = "kerf.strategy";
    /// On an argument or result of a function: the #kerf.sharding of the tensor.
    static constexpr ::llvm::StringLiteral kShardingAttr = "kerf.sharding";
    /// On an argument or result of @main: the tensor's name in the exported model.
    static constexpr ::llvm::StringLiteral kNameAttr = "kerf.name";
    /// On an argument of @main: "parameter", "buffer", "constant", "state", "input", "learning_rate", "step" or "seed".
    static constexpr ::llvm::StringLiteral kKindAttr = "kerf.kind";
    /// On an argument of @main: the shape in the exported model, where the program sees the same elements
    /// under another shape.
    static constexpr ::llvm::StringLiteral kExportedShapeAttr = "kerf.exported_shape";
    /// On an argument of @main (unit): the optimizer updates the argument.
    static constexpr ::llvm::StringLiteral kTrainableAttr = "kerf.trainable";
    /// On an argument of @main: the index of the result that replaces the argument after a step.
    static constexpr ::llvm::StringLiteral kUpdatedByAttr = "kerf.updated_by";
    /// On an argument of a device-level function: the argument's type before partitioning.
    static constexpr ::llvm::StringLiteral kGlobalTypeAttr = "kerf.global_type";
    /// On an op (unit): differentiation created the op.
    static constexpr ::llvm::StringLiteral kBackwardAttr = "kerf.backward";
    /// On a call of a layer: the number of consecutive layers that the call stands for.
    static constexpr ::llvm::StringLiteral kRepeatAttr = "kerf.repeat";
    /// On an op of a model imported for predictions (unit): training applies dropout to an operand (attention:
    /// to the probabilities).
    static constexpr ::llvm::StringLiteral kDropoutAttr = "kerf.dropout";
    /// On the last op of a normalization that is written as elementary ops (unit): under mixed precision, its result is
    /// rounded to 16 bits.
    static constexpr ::llvm::StringLiteral kNormalizedAttr = "kerf.normalized";
    /// On an op of @main: the number of the op's pipeline part. Chunk c of pipeline stage s is part c * stages + s.
    static constexpr ::llvm::StringLiteral kPartAttr = "kerf.part";
    /// On an op of @main: {phase, stage, chunk}, the schedule's task in which the op runs.
    static constexpr ::llvm::StringLiteral kTaskAttr = "kerf.task";
    /// On an argument or result of @main: the pipeline stage on which the value resides.
    static constexpr ::llvm::StringLiteral kStageAttr = "kerf.stage";
    /// On a sync_gradient (unit): the gradient of each microbatch is summed over ranks, instead of only the sum
    /// of all microbatches.
    static constexpr ::llvm::StringLiteral kEachMicrobatchAttr = "kerf.each_microbatch";
    /// On a call of a layer's backward function: the activation checkpointing mode ("none", "selective", "pointwise",
    /// "except-attention" or "full"). On an op of the layer: true or false where a plan decides for this op alone
    /// whether the backward pass recomputes its results.
    static constexpr ::llvm::StringLiteral kRecomputeAttr = "kerf.recompute";
    /// On a call of a layer's backward function (unit): the activations saved for this call are kept in host memory in
    /// the meantime.
    static constexpr ::llvm::StringLiteral kOffloadAttr = "kerf.offload";
    /// On attention whose sequence is sharded (unit): use ring attention, in which keys and values are sharded like
    /// queries and are sent around the ring of ranks.
    static constexpr ::llvm::StringLiteral kRingAttr = "kerf.ring";
    /// On a maximum (unit): each microbatch has a maximum of its own, which the ops of the microbatch use.
    static constexpr ::llvm::StringLiteral kPerMicrobatchAttr = "kerf.per_microbatch";
    /// On an op of the optimizer: the name of the parameter that the op updates.
    static constexpr ::llvm::StringLiteral kUpdateAttr = "kerf.update";

    // Names with a fixed meaning.

    /// The name (`kerf.name`) of the argument of @main from which differentiation starts instead of from 1:
    /// the loss scale.
    static constexpr ::llvm::StringLiteral kLossScaleName = "grad_scaler/scale";
    /// The name of the entry function: the forward pass before differentiation, one training step after it.
    static constexpr ::llvm::StringLiteral kEntryName = "main";
    /// The symbol name of the module's kerf.mesh.
    static constexpr ::llvm::StringLiteral kMeshName = "mesh";
    /// The name of the mesh axis that counts microbatches. It is an axis in time, the last one of the mesh.
    static constexpr ::llvm::StringLiteral kMicrobatchAxis = "microbatch";
    /// The name of the mesh axis that counts pipeline stages. It shards no tensor.
    static constexpr ::llvm::StringLiteral kStageAxis = "stage";
  }];
}

//===-- enums ---------------------------------------------------------------------------------------------------------===//

def Kerf_ReduceKind : I32EnumAttr<"ReduceKindIR", "the operation by which a reduction combines values", [
    I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>, I32EnumAttrCase<"min", 2>]> {
  let cppNamespace = "::kerf::ir";
  let genSpecializedAttr = 0;
}
def Kerf_ReduceKindAttr : EnumAttr<Kerf_Dialect, Kerf_ReduceKind, "reduce_kind">;

def Kerf_Comparison : I32EnumAttr<"Comparison", "the relation that a comparison tests", [
    I32EnumAttrCase<"EQ", 0>, I32EnumAttrCase<"NE", 1>, I32EnumAttrCase<"LT", 2>,
    I32EnumAttrCase<"LE", 3>, I32EnumAttrCase<"GT", 4>, I32EnumAttrCase<"GE", 5>]> {
  let cppNamespace = "::kerf::ir";
  let genSpecializedAttr = 0;
}
def Kerf_ComparisonAttr : EnumAttr<Kerf_Dialect, Kerf_Comparison, "comparison">;

//===-- attributes ----------------------------------------------------------------------------------------------------===//

class Kerf_Attr<string name, string attrMnemonic> : AttrDef<Kerf_Dialect, name> { let mnemonic = attrMnemonic; }

def Kerf_MeshAttr : Kerf_Attr<"Mesh", "mesh"> {
  let summary = "The ranks as a grid with named axes: `#kerf.mesh<\"data\"=2, \"model\"=4>`, outermost axis first.";
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names, ArrayRefParameter<"int64_t">:$sizes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the mesh as plain data.
    ::kerf::Mesh toMesh() const;
    /// Returns the attribute for `mesh`.
    static MeshAttr fromMesh(::mlir::MLIRContext *context, const ::kerf::Mesh &mesh);
  }];
}

def Kerf_AxisAttr : Kerf_Attr<"Axis", "axis"> {
  let summary = "A mesh axis, `\"model\"`, or a sub-axis, `\"model\":(before)size` as in Shardy (size 0: the whole axis).";
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$before, "int64_t":$size);
  let hasCustomAssemblyFormat = 1;
}

def Kerf_DimAttr : Kerf_Attr<"Dim", "dim"> {
  let summary = "The mesh axes that shard one dimension, major first, and the shard's size (chunk 0: ceil(size / shard count)).";
  let parameters = (ins ArrayRefParameter<"::kerf::ir::AxisAttr">:$axes, "int64_t":$chunk);
  let hasCustomAssemblyFormat = 1;
}

def Kerf_ShardingAttr : Kerf_Attr<"Sharding", "sharding"> {
  let summary = "How a tensor is distributed over the mesh: the axes that shard each dimension, and the axes of partial sums.";
  let description = [{
    Example: `#kerf.sharding<[{"data"}, {}, {"model":(1)2, "x"}/32], partial = ["y"]>`. For each dimension there is an ordered list of mesh axes or sub-axes;
    `"model":(1)2` is the major sub-axis of size 2 of "model". `/32` is the number of elements in each shard, given where it is not ceil(size / shard count). `partial` lists the axes
    over which the value is still to be summed: each rank along them holds one summand. `partial max = [...]` stands for
    another reduction kind. The module's `kerf.mesh` declares the axis names.
  }];
  let parameters = (ins ArrayRefParameter<"::kerf::ir::DimAttr">:$dims, ArrayRefParameter<"::kerf::ir::AxisAttr">:$partial,
                        "::kerf::ReduceKind":$partialKind);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// Returns the sharding of a tensor of `shape` as plain data over `mesh`. Fails, and reports through `emitError`,
    /// where the mesh lacks an axis, or where the number of dimensions or a shard's size contradicts `shape`.
    ::mlir::FailureOr<::kerf::Sharding> toSharding(const ::kerf::Mesh &mesh, const ::kerf::Shape &shape,
        ::llvm::function_ref<::mlir::InFlightDiagnostic()> emitError) const;
    /// Returns the attribute for a sharding of a tensor of `shape` over `mesh`.
    static ShardingAttr fromSharding(::mlir::MLIRContext *context, const ::kerf::Mesh &mesh, const ::kerf::Shape &shape,
        const ::kerf::Sharding &sharding);
  }];
}

//===-- types ---------------------------------------------------------------------------------------------------------===//

def Kerf_Pending : TypeDef<Kerf_Dialect, "Pending"> {
  let mnemonic = "pending";
  let summary = "A tensor that a started collective or host copy will have delivered when `kerf.wait` returns.";
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
def Kerf_Float8 : AnyTypeOf<[F8E4M3FN, F8E5M2], "8-bit floating-point number">;
def Kerf_Float8Tensor : StaticShapeTensorOf<[Kerf_Float8]>;
/// A tensor of an op that moves elements without arithmetic, or a factor of a product.
def Kerf_MovedTensor : StaticShapeTensorOf<[Kerf_Float, Kerf_Int, Kerf_Float8]>;
def Kerf_FactorTensor : StaticShapeTensorOf<[Kerf_Float, Kerf_Float8]>;

//===-- op classes ----------------------------------------------------------------------------------------------------===//

class Kerf_Op<string opMnemonic, list<Trait> traits = []> : Op<Kerf_Dialect, opMnemonic, traits> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

/// The work of an op of a codec, which has no sharding rule: one operation for each element of the result.
def Kerf_CodecWork : DeclareOpInterfaceMethods<WorkOpInterface>;

/// An op of the global level. It has a sharding rule, and it states its work (FLOPs and kernel class) for
/// the cost model.
class Kerf_GlobalOp<string opMnemonic, list<Trait> traits = []> : Kerf_Op<opMnemonic,
    !listconcat([Pure, DeclareOpInterfaceMethods<ShardingRuleOpInterface>, DeclareOpInterfaceMethods<WorkOpInterface>], traits)>;

/// An op of the global level that moves elements without arithmetic. Its kernels are of the class `kernelClass`.
class Kerf_MovingOp<string opMnemonic, string kernelClass, list<Trait> traits = []> : Kerf_GlobalOp<opMnemonic, traits> {
  let extraClassDeclaration = "double getFlops() { return 0; }\n::kerf::KernelClass getKernelClass() { return ::kerf::KernelClass::" #
      kernelClass # "; }";
}

#endif
