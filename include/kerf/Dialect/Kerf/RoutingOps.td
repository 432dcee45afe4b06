// SPDX-License-Identifier: Apache-2.0
// Ops of mixtures of experts: they send tokens to experts and bring the experts' outputs back, with static shapes.
#ifndef KERF_ROUTING_TD
#define KERF_ROUTING_TD
include "kerf/Dialect/Kerf/KerfBase.td"

class Kerf_RoutingOp<string opMnemonic, list<Trait> traits = []> : Kerf_GlobalOp<opMnemonic, !listconcat([
    DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass"]>], traits)> { let hasVerifier = 1; }

/// A routing op whose experts may be sharded. At the device level the op then has an operand `offset`, the number of
/// the rank's first expert.
class Kerf_ExpertsOp<string opMnemonic, list<Trait> traits = []> : Kerf_RoutingOp<opMnemonic, !listconcat([
    DeclareOpInterfaceMethods<RoutingOpInterface>, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>], traits)>;

def Kerf_TopKOp : Kerf_RoutingOp<"top_k", [Kerf_In16Bits<"Widest">, DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "The k largest elements along the last dimension, and their indices";
  let description = [{
    values[i.., j] is the j-th largest element of scores[i.., :], and indices[i.., j] is its index; of equal elements
    the one with the lower index comes first. The number k is the size of the last dimension of the results.
    Rule: `([i.., v]) -> ([i.., k], [i.., k])`; v and k may not be sharded.
    * `scores` has at least one dimension. Both results have the shape of `scores` except for the last dimension k,
      which is between 1 and v.
    * The element types of `scores` and `values` agree.

    Example:
    ```mlir
    %values, %indices = kerf.top_k %scores : (tensor<3x4x8xf32>) -> (tensor<3x4x2xf32>, tensor<3x4x2xi64>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$scores);
  let results = (outs Kerf_FloatTensor:$values, Kerf_IndexTensor:$indices);
}

def Kerf_TopKBackwardOp : Kerf_RoutingOp<"top_k_backward"> {
  let summary = "Gradient of top_k with respect to its scores";
  let description = [{
    y = 0; y[i.., indices[i.., j]] += gradient[i.., j]. Rule: `([i.., k], [i.., k]) -> ([i.., v])`; v and k may not be
    sharded. An index outside of [0, v) ends the run with a message.
    * `indices` and `gradient` have one shape. The result has that shape except for the last dimension.
    * The element types of `gradient` and result agree.

    Example:
    ```mlir
    %y = kerf.top_k_backward %indices, %gradient : (tensor<3x4x2xi64>, tensor<3x4x2xf32>) -> tensor<3x4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_IndexTensor:$indices, Kerf_FloatTensor:$gradient);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_DispatchOp : Kerf_ExpertsOp<"dispatch", [Kerf_In16Bits<"Half">, DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Copies tokens into the slots of the experts that they are routed to";
  let description = [{
    Token x[b, s, :] is routed to the experts indices[b, s, :]. Each expert has c slots (its capacity) for each row b
    of the batch (GShard calls such a row a group). The slots are filled with the row's tokens in the order of token,
    then of choice: y[indices[b, s, j], b, slot, :] = weights[b, s, j] * x[b, s, :]. Unused slots hold zeros. Tokens
    routed beyond an expert's capacity are dropped; with c = s none are, provided that the experts of each token
    differ.

    Rule: `([b, s, d], [b, s, k], [b, s, k]) -> ([e, b, c, d])`; s, k and c may not be sharded. Moving the sharding of
    the result from b to e is an all-to-all. `experts` is the global number of experts. `offset` is set at the device
    level where e is sharded: the number of the rank's first expert. An index outside of [0, experts) ends the run
    with a message.
    * The shapes are those of the rule. Without `offset`, e equals `experts`. Floating element types agree. `offset`
      is a scalar i64.

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
  let summary = "Weighted sum of the experts' outputs for each token (transpose of dispatch)";
  let description = [{
    y[b, s, :] = sum of weights[b, s, j] * slots[indices[b, s, j], b, slot, :] over the choices j for which `dispatch`
    with the same indices assigned a slot to the token.
    Rule: `([e, b, c, d], [b, s, k], [b, s, k]) -> ([b, s, d])  e: reduction(sum)`: where experts are sharded, each rank
    sums the outputs of its own experts. s, k and c may not be sharded. `offset` and `experts` mean what they mean in
    `dispatch`.
    * The shapes are those of the rule. Without `offset`, e equals `experts`. Floating element types agree. `offset`
      is a scalar i64.

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
  let summary = "Gradient of combine and of dispatch with respect to their weights";
  let description = [{
    y[b, s, j] is the dot product of slots[indices[b, s, j], b, slot, :] and tokens[b, s, :], or 0 for a choice that
    was dropped. Rule: `([e, b, c, d], [b, s, k], [b, s, d]) -> ([b, s, k])  e, d: reduction(sum)`; s, k and c may not
    be sharded. `offset` and `experts` mean what they mean in `dispatch`.
    * The shapes are those of the rule. Without `offset`, e equals `experts`. Floating element types agree. `offset`
      is a scalar i64.

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
