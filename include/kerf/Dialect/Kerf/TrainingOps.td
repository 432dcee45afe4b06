// SPDX-License-Identifier: Apache-2.0
// Ops of training: calls of repeated layers, dropout, synchronization and checks of gradients, and maps (formulas
// applied to each element).
#ifndef KERF_TRAINING_TD
#define KERF_TRAINING_TD
include "kerf/Dialect/Kerf/KerfBase.td"

def Kerf_CallOp : Kerf_Op<"call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Calls the function of one of several equal layers";
  let description = [{
    All calls of a function share the shardings and strategies inside the function.
    * The callee is a `func.func` of this module whose type is that of the operands and results.

    Example:
    ```mlir
    %y = kerf.call @layer(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyType>:$inputs);
  let results = (outs Variadic<AnyType>:$outputs);
  let assemblyFormat = "$callee `(` $inputs `)` attr-dict `:` functional-type(operands, results)";
}

def Kerf_DropoutOp : Kerf_GlobalOp<"dropout", [Kerf_In16Bits<"Widest">, AllTypesMatch<["operand", "result"]>,
    DeclareOpInterfaceMethods<GradientOpInterface>,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>, DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops"]>]> {
  let summary = "Sets random elements to zero, the same elements for every sharding";
  let description = [{
    y[i] = 0 with probability `rate`, otherwise x[i] / (1 - rate). The element at row-major index e of the whole
    tensor is dropped where word e mod 4 of Philox4x32-10(counter: e / 4 (64 bits), step mod 2^32, stream mod 2^32;
    key: not seed) is less than rate * 2^32 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011). Only
    seed, step, stream and e decide whether an element is dropped, so neither the number of ranks, nor microbatches,
    nor recomputation changes a result.

    `stream` distinguishes the dropouts of a step; a repeated layer receives its streams as arguments. The gradient of
    the operand is the same op on the result's gradient. On a rank's shard, `offset` is the row-major index of the
    shard's first element in the whole tensor, and `sizes` is the shape of the whole tensor.
    Rule: `([i, j], [], [], []) -> ([i, j])`; a partial sum may pass through the op.
    * `seed`, `step`, `stream` and `offset` are scalars. `rate` is in [0, 1).
    * With `offset`, `sizes` has an entry for each dimension. Without `offset`, `sizes` is absent.

    Example:
    ```mlir
    %y = kerf.dropout %x, %seed, %step, %stream {rate = 0.1 : f64} : (tensor<4x8xf32>, tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, StaticShapeTensorOf<[I64]>:$seed, StaticShapeTensorOf<[I64]>:$step,
                       StaticShapeTensorOf<[I64]>:$stream, Optional<StaticShapeTensorOf<[I64]>>:$offset, F64Attr:$rate,
                       OptionalAttr<DenseI64ArrayAttr>:$sizes);
  let results = (outs Kerf_FloatTensor:$result);
  let hasVerifier = 1;
}

def Kerf_SyncGradientOp : Kerf_GlobalOp<"sync_gradient", [SameOperandsAndResultType]> {
  let summary = "Marks where the gradient of one parameter is summed over ranks";
  let description = [{
    The operand may be a partial sum, the result is not: each rank that holds a shard of the parameter gets the same
    shard of the summed gradient. `kerf-partition` expands the op into collectives (all-reduce or reduce-scatter). On
    whole tensors it is the identity.

    Example:
    ```mlir
    %g = kerf.sync_gradient %dw {parameter = "w"} : (tensor<8x8xf32>) -> tensor<8x8xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, StrAttr:$parameter);
  let results = (outs Kerf_FloatTensor:$result);
  let extraClassDefinition = "::kerf::Rule $cppClass::getShardingRule() { return ::kerf::ir::elementwise(getOperation(), {}); }";
}

def Kerf_CountNonfiniteOp : Kerf_GlobalOp<"count_nonfinite", [DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass"]>]> {
  let summary = "Counts the elements that are infinite or NaN";
  let description = [{
    The result is 0 where all elements are finite. Rule: `([r]) -> ([])  r: reduction(sum)`: each rank counts the
    elements of its own shard, and the counts are summed.
    * The result is a scalar.

    Example:
    ```mlir
    %n = kerf.count_nonfinite %g : (tensor<8x8xf32>) -> tensor<i64>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand);
  let results = (outs StaticShapeTensorOf<[I64]>:$result);
  let hasVerifier = 1;
}

def Kerf_YieldOp : Kerf_Op<"yield", [Pure, Terminator, HasParent<"MapOp">]> {
  let summary = "Ends the body of a map with the scalars that the body computes";
  let description = [{
    Operand i of the op becomes the element of result i of the enclosing `kerf.map`.

    Example: see `kerf.map`.
  }];
  let arguments = (ins Variadic<Kerf_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Kerf_MapOp : Kerf_GlobalOp<"map", [IsolatedFromAbove, SingleBlock]> {
  let summary = "Applies a formula on scalars to each element of its operands";
  let description = [{
    The body is a program on scalars (tensors of rank 0) that runs once for each element index. Its arguments are the
    operands' elements at this index, and its `kerf.yield` gives the results' elements at this index. An operand of
    rank 0 has the same value for every index. The optimizer's update of a parameter is such a formula
    (kerf-add-optimizer). One op stands for the formula until packaging, where kerf-expand-maps replaces the map by
    the ops of its body and kerf-fuse-pointwise makes one kernel of these ops. Rule: every dimension may be sharded;
    operands of rank 0 are replicated.
    * Operands have the results' shape or rank 0. There is at least one result.
    * The body's arguments and results are scalars of the operands' and results' element types. The ops of the body
      are elementwise.

    Example:
    ```mlir
    %p1 = kerf.map(%p, %g, %lr) : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32> {
    ^bb0(%one: tensor<f32>, %slope: tensor<f32>, %rate: tensor<f32>):
      %change = kerf.multiply %rate, %slope : (tensor<f32>, tensor<f32>) -> tensor<f32>
      %new = kerf.subtract %one, %change : (tensor<f32>, tensor<f32>) -> tensor<f32>
      kerf.yield %new : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Variadic<Kerf_Tensor>:$inputs);
  let results = (outs Variadic<Kerf_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs) $body";
  let hasVerifier = 1;
}

#endif
