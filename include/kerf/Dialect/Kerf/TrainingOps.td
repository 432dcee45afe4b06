// SPDX-License-Identifier: Apache-2.0
// Calls of repeated layers, dropout, gradient synchronization and checks, formulas on elements.
#ifndef KERF_TRAINING_TD
#define KERF_TRAINING_TD
include "kerf/Dialect/Kerf/KerfBase.td"

def Kerf_CallOp : Kerf_Op<"call", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Call of a function that stands for one of several equal layers";
  let description = [{
    The callee's shardings hold for every call.
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
  let summary = "Zeros in place of random elements, the same ones however the tensor is cut";
  let description = [{
    y[i] = 0 with probability `rate`, else x[i] / (1 - rate). The element at row-major place e of the whole tensor is dropped where word e mod 4 of
    Philox4x32-10(counter: e / 4 (64 bits), step mod 2^32, stream mod 2^32; key: not seed) is less than rate * 2^32 (Salmon et al., Parallel Random
    Numbers: As Easy as 1, 2, 3, 2011). So nothing but these three numbers and the place decides: not ranks, microbatches or recomputation. `stream` tells
    the dropouts of a step apart; repeated layers take theirs as arguments. The gradient is the same op on the result's. On a rank's
    piece, `offset` is the place of the piece's first element in the whole tensor, whose shape is `sizes`.
    Rule: `([i, j], [], [], []) -> ([i, j])`; a partial sum passes.
    * `seed`, `step`, `stream` and `offset` are scalars; `rate` is in [0, 1).
    * With `offset`, `sizes` has one entry a dimension; without, there is none.

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
  let summary = "The gradient of one parameter, whole";
  let description = [{
    What is partial in the operand is not in the result: every rank that holds a piece of the parameter holds that piece of the gradient's
    sum. One abstract op until partitioning expands it into collectives; the identity on whole tensors.

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
  let summary = "How many elements are infinite or not a number";
  let description = [{
    A sum, 0 where all are finite. Rule: `([r]) -> ([])  r: reduction(sum)`: each rank counts its own.
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
  let summary = "The numbers that a map's body computes";
  let description = [{
    Ends the body of `kerf.map`: operand i becomes the element of the map's result i.

    Example: at `kerf.map`.
  }];
  let arguments = (ins Variadic<Kerf_Tensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Kerf_MapOp : Kerf_GlobalOp<"map", [IsolatedFromAbove, SingleBlock]> {
  let summary = "A formula on scalars, applied to each element of its operands";
  let description = [{
    The body is a program on scalars (tensors of rank 0). It runs once for each element place: its arguments are the operands' elements there, and its
    `kerf.yield` gives the results' elements there. An operand of rank 0 is the same number for every element. An optimizer's update of one parameter is
    such a formula (kerf-add-optimizer). One op stands for the whole formula until packaging, where kerf-expand-maps puts the body's ops in its place and
    kerf-fuse-pointwise makes one kernel of them. Rule: every dimension passes through; operands of rank 0 are whole.
    * Operands are of the results' shape, or of rank 0; there is at least one result.
    * The body's arguments and results are the scalars of the operands' and results' element types; its ops work on each element apart.

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
