// SPDX-License-Identifier: Apache-2.0
// Calls of repeated layers, dropout, gradient synchronization and checks, optimizer updates.
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

def Kerf_DropoutOp : Kerf_GlobalOp<"dropout", [AllTypesMatch<["operand", "result"]>, DeclareOpInterfaceMethods<GradientOpInterface>,
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

def Kerf_SgdOp : Kerf_GlobalOp<"sgd", [AllTypesMatch<["parameter", "velocity", "gradient", "new_parameter", "new_velocity"]>]> {
  let summary = "Stochastic gradient descent with momentum";
  let description = [{
    g' = g + weight_decay * p; v' = momentum * v + g'; p' = p - lr * v' (PyTorch's SGD; v starts as 0, so that the first v' is g').
    Where `skip` is there and true, the new values are the old ones, whatever the gradient holds (an overflow of f16; kerf-add-optimizer).
    May work in place. Rule: every dimension passes through.
    * `lr` and `skip` are scalars.

    Example:
    ```mlir
    %p1, %v1 = kerf.sgd %p, %v, %g, %lr {momentum = 0.9 : f64, weight_decay = 0.0 : f64}
        : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$parameter, Kerf_FloatTensor:$velocity, Kerf_FloatTensor:$gradient, Kerf_FloatTensor:$lr,
                       Optional<Kerf_BoolTensor>:$skip, F64Attr:$momentum, F64Attr:$weight_decay);
  let results = (outs Kerf_FloatTensor:$new_parameter, Kerf_FloatTensor:$new_velocity);
  let hasVerifier = 1;
}

def Kerf_AdamwOp : Kerf_GlobalOp<"adamw", [AllTypesMatch<["parameter", "exp_avg", "exp_avg_sq", "gradient", "new_parameter",
                                                           "new_exp_avg", "new_exp_avg_sq"]>]> {
  let summary = "AdamW update of one parameter";
  let description = [{
    t = step + 1; p = p * (1 - lr * weight_decay); m' = beta1 * m + (1 - beta1) * g; v' = beta2 * v + (1 - beta2) * g^2;
    p' = p - lr * (m' / (1 - beta1^t)) / (sqrt(v' / (1 - beta2^t)) + epsilon). `step` counts from 0. `skip` as in `sgd`. May work in place.
    (Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, with the learning rate multiplied into the decay as PyTorch does.)
    Rule: every dimension passes through.
    * `lr`, `step` and `skip` are scalars.

    Example:
    ```mlir
    %p1, %m1, %v1 = kerf.adamw %p, %m, %v, %g, %lr, %step {beta1 = 0.9 : f64, beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.01 : f64}
        : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<i64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$parameter, Kerf_FloatTensor:$exp_avg, Kerf_FloatTensor:$exp_avg_sq, Kerf_FloatTensor:$gradient,
                       Kerf_FloatTensor:$lr, Kerf_IndexTensor:$step, Optional<Kerf_BoolTensor>:$skip, F64Attr:$beta1, F64Attr:$beta2,
                       F64Attr:$epsilon, F64Attr:$weight_decay);
  let results = (outs Kerf_FloatTensor:$new_parameter, Kerf_FloatTensor:$new_exp_avg, Kerf_FloatTensor:$new_exp_avg_sq);
  let hasVerifier = 1;
}

#endif
