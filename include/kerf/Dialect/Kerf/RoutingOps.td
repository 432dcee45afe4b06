// SPDX-License-Identifier: Apache-2.0
// Ops that send tokens to experts and bring their results back (mixtures of experts), with static shapes.
#ifndef KERF_ROUTING_TD
#define KERF_ROUTING_TD
include "kerf/Dialect/Kerf/KerfBase.td"

class Kerf_RoutingOp<string opMnemonic, list<Trait> traits = []> : Kerf_GlobalOp<opMnemonic, !listconcat([
    DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass"]>], traits)> { let hasVerifier = 1; }

/// A routing op whose experts may be cut: each rank then knows its first expert.
class Kerf_ExpertsOp<string opMnemonic, list<Trait> traits = []> : Kerf_RoutingOp<opMnemonic, !listconcat([
    DeclareOpInterfaceMethods<RoutingOpInterface>, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>], traits)>;

def Kerf_TopKOp : Kerf_RoutingOp<"top_k", [Kerf_In16Bits<"Widest">, DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "The largest elements along the last dimension";
  let description = [{
    values[i.., j] is the j-th largest of scores[i.., :], indices[i.., j] its place; of equal ones the first comes first. How many: the last
    dimension of the results. Rule: `([i.., v]) -> ([i.., k], [i.., k])`; v and k may not be cut.
    * The scores have a dimension; both results have its shape but for the last dimension, which is from 1 to that of the scores.
    * Element types of scores and values agree.

    Example:
    ```mlir
    %values, %indices = kerf.top_k %scores : (tensor<3x4x8xf32>) -> (tensor<3x4x2xf32>, tensor<3x4x2xi64>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$scores);
  let results = (outs Kerf_FloatTensor:$values, Kerf_IndexTensor:$indices);
}

def Kerf_TopKBackwardOp : Kerf_RoutingOp<"top_k_backward"> {
  let summary = "Gradient of top_k for its scores";
  let description = [{
    y = 0; y[i.., indices[i.., j]] += gradient[i.., j]. Rule: `([i.., k], [i.., k]) -> ([i.., v])`; v and k may not be cut. An index outside of
    the size of v ends the run with a message.
    * Indices and gradient have one shape; the result has it but for the last dimension.
    * Element types of gradient and result agree.

    Example:
    ```mlir
    %y = kerf.top_k_backward %indices, %gradient : (tensor<3x4x2xi64>, tensor<3x4x2xf32>) -> tensor<3x4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_IndexTensor:$indices, Kerf_FloatTensor:$gradient);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_DispatchOp : Kerf_ExpertsOp<"dispatch", [Kerf_In16Bits<"Half">, DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Tokens to the slots of their experts";
  let description = [{
    Of every token x[b, s, :] there is a copy for each of its choices, indices[b, s, :], times weights[b, s, :]. Each expert has c slots for each batch
    row b (GShard's groups); they are filled with the row's copies in the order of token, then choice: y[indices[b, s, j], b, slot, :] = weights[b, s, j] * x[b, s, :]. Slots
    that are left hold zeros; copies that find no slot are dropped. With c = s none is, where a token's choices differ.
    Rule: `([b, s, d], [b, s, k], [b, s, k]) -> ([e, b, c, d])`; s, k and c may not be cut. Moving the result's cut from b to e is an all-to-all.
    `offset`, the first of the rank's experts, is set at the device level where e is cut; `experts` is their global number. An index outside of [0, experts) ends the run
    with a message.
    * The shapes are as above; without `offset` e is `experts`. Floating element types agree; `offset` is a scalar i64.

    Example:
    ```mlir
    %y = kerf.dispatch %x, %indices, %weights {experts = 8 : i64} : (tensor<3x4x16xf32>, tensor<3x4x2xi64>, tensor<3x4x2xf32>) -> tensor<8x3x4x16xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, Kerf_IndexTensor:$indices, Kerf_FloatTensor:$weights, Optional<Kerf_IndexTensor>:$offset,
                       I64Attr:$experts);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_CombineOp : Kerf_ExpertsOp<"combine", [Kerf_In16Bits<"Half">, DeclareOpInterfaceMethods<WorkOpInterface, ["describe"]>,
    DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Weighted sums of what the experts made of each token: the transpose of dispatch";
  let description = [{
    y[b, s, :] = sum of weights[b, s, j] * slots[indices[b, s, j], b, slot, :] over the token's copies j that `dispatch` with the same indices put into a slot.
    Rule: `([e, b, c, d], [b, s, k], [b, s, k]) -> ([b, s, d])  e: reduction(sum)`: each rank adds what its experts made. s, k and c may not be cut. `offset` and `experts` as in
    `dispatch`.
    * The shapes are as above; without `offset` e is `experts`. Floating element types agree; `offset` is a scalar i64.

    Example:
    ```mlir
    %y = kerf.combine %slots, %indices, %weights {experts = 8 : i64} : (tensor<8x3x4x16xf32>, tensor<3x4x2xi64>, tensor<3x4x2xf32>) -> tensor<3x4x16xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, Kerf_IndexTensor:$indices, Kerf_FloatTensor:$weights, Optional<Kerf_IndexTensor>:$offset,
                       I64Attr:$experts);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_CombineBackwardOp : Kerf_ExpertsOp<"combine_backward", [DeclareOpInterfaceMethods<WorkOpInterface, ["describe"]>]> {
  let summary = "Gradient of combine and of dispatch for their weights";
  let description = [{
    y[b, s, j] = sum of slots[indices[b, s, j], b, slot, :] * tokens[b, s, :], 0 for a copy that was dropped. Rule:
    `([e, b, c, d], [b, s, k], [b, s, d]) -> ([b, s, k])  e, d: reduction(sum)`; s, k and c may not be cut. `offset` and `experts` as in `dispatch`.
    * The shapes are as above; without `offset` e is `experts`. Floating element types agree; `offset` is a scalar i64.

    Example:
    ```mlir
    %y = kerf.combine_backward %slots, %indices, %tokens {experts = 8 : i64} : (tensor<8x3x4x16xf32>, tensor<3x4x2xi64>, tensor<3x4x16xf32>) -> tensor<3x4x2xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, Kerf_IndexTensor:$indices, Kerf_FloatTensor:$tokens, Optional<Kerf_IndexTensor>:$offset,
                       I64Attr:$experts);
  let results = (outs Kerf_FloatTensor:$result);
}

#endif
