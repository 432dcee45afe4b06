// SPDX-License-Identifier: Apache-2.0
// Composites: ops that simpler ops could express but that have a kernel of their own, and the backward op of each. Each
// can be decomposed into simpler ops. Their kernels compute in f32 or wider. Statistics, log-sum-exp, scale and bias
// may be f32 beside 16-bit operands (kerf-mixed-precision).
#ifndef KERF_COMPOSITE_TD
#define KERF_COMPOSITE_TD
include "kerf/Dialect/Kerf/KerfBase.td"

class Kerf_Composite<string opMnemonic, list<Trait> traits = []> : Kerf_GlobalOp<opMnemonic, !listconcat([
    DeclareOpInterfaceMethods<DecomposableOpInterface>,
    DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass"]>], traits)> { let hasVerifier = 1; }

defvar Diff = DeclareOpInterfaceMethods<GradientOpInterface>;

def Kerf_SoftmaxOp : Kerf_Composite<"softmax", [Kerf_In16Bits<"Widest">, SameOperandsAndResultType, Diff]> {
  let summary = "Softmax over one dimension";
  let description = [{
    y = exp(x - max(x)) / sum(exp(x - max(x))), where max and sum run over `dimension`. Rule: every other dimension
    may be sharded as it is. Where `dimension` itself is sharded, the op is first decomposed into reductions and
    elementwise ops (kerf-decompose-composites).
    * `dimension` lies within the operand's rank.

    Example:
    ```mlir
    %y = kerf.softmax %x {dimension = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, I64Attr:$dimension);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_SoftmaxBackwardOp : Kerf_Composite<"softmax_backward", [SameOperandsAndResultType]> {
  let summary = "Gradient of softmax, computed from the result of softmax";
  let description = [{
    dx = y * (dy - sum(y * dy)), where the sum runs over `dimension`; y is the result of softmax and dy the result's
    gradient.
    * `dimension` lies within the operands' rank.

    Example:
    ```mlir
    %dx = kerf.softmax_backward %y, %dy {dimension = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$output, Kerf_FloatTensor:$gradient, I64Attr:$dimension);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_GeluOp : Kerf_Composite<"gelu", [Elementwise, Kerf_ManyInstructions, Kerf_In16Bits<"Widest">, SameOperandsAndResultType, Diff]> {
  let summary = "Gaussian error linear unit";
  let description = [{
    y = x * Phi(x), where Phi is the normal distribution function. Phi is computed by erf or, where `approximate` is
    set, as 0.5 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))).

    Example:
    ```mlir
    %y = kerf.gelu %x {approximate} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, UnitAttr:$approximate);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_GeluBackwardOp : Kerf_Composite<"gelu_backward", [Elementwise, Kerf_ManyInstructions, SameOperandsAndResultType]> {
  let summary = "Gradient of gelu, computed from the operand of gelu";
  let description = [{
    The gradient is dx = dy * (d gelu / dx)(x), for the formula of gelu that `approximate` selects.

    Example:
    ```mlir
    %dx = kerf.gelu_backward %x, %dy : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, Kerf_FloatTensor:$gradient, UnitAttr:$approximate);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_LayerNormOp : Kerf_Composite<"layer_norm", [Kerf_NormalizesRows, Kerf_In16Bits<"TypeOfFirst">, Diff]> {
  let summary = "Layer normalization over the last dimension";
  let description = [{
    y = (x - mean) * rstd * scale + bias, with rstd = 1 / sqrt(variance + epsilon). The variance is the mean of the
    squared deviations. `mean` and `rstd` are results because the backward op reads them; they have the operand's
    shape without its last dimension. Rule: every dimension but the last may be sharded as it is; sharding the last
    one requires a decomposition first.
    * `scale` and `bias` are vectors of the size of the last dimension. `mean` and `rstd` have the operand's shape
      without the last dimension.

    Example:
    ```mlir
    %y, %mean, %rstd = kerf.layer_norm %x, %scale, %bias {epsilon = 1.0e-5 : f64}
        : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, Kerf_FloatTensor:$scale, Kerf_FloatTensor:$bias, F64Attr:$epsilon);
  let results = (outs Kerf_FloatTensor:$result, Kerf_FloatTensor:$mean, Kerf_FloatTensor:$rstd);
}

def Kerf_LayerNormBackwardOp : Kerf_Composite<"layer_norm_backward", [Kerf_ComputesWeightGradients]> {
  let summary = "Gradients of layer_norm, computed from the saved mean and rstd";
  let description = [{
    The results are the gradients of operand, scale and bias. The gradients of scale and bias are sums over all
    dimensions but the last.
    * Every operand and result has the shape of its counterpart in `layer_norm`.

    Example:
    ```mlir
    %dx, %dscale, %dbias = kerf.layer_norm_backward %x, %scale, %mean, %rstd, %dy
        : (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, Kerf_FloatTensor:$scale, Kerf_FloatTensor:$mean, Kerf_FloatTensor:$rstd,
                       Kerf_FloatTensor:$gradient);
  let results = (outs Kerf_FloatTensor:$operand_gradient, Kerf_FloatTensor:$scale_gradient, Kerf_FloatTensor:$bias_gradient);
}

def Kerf_RmsNormOp : Kerf_Composite<"rms_norm", [Kerf_NormalizesRows, Kerf_In16Bits<"TypeOfFirst">, Diff]> {
  let summary = "Root-mean-square normalization over the last dimension";
  let description = [{
    y = x * rstd * scale, with rstd = 1 / sqrt(mean(x^2) + epsilon). `rstd` is a result because the backward op reads
    it; it has the operand's shape without its last dimension.
    * `scale` is a vector of the size of the last dimension.

    Example:
    ```mlir
    %y, %rstd = kerf.rms_norm %x, %scale {epsilon = 1.0e-6 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, Kerf_FloatTensor:$scale, F64Attr:$epsilon);
  let results = (outs Kerf_FloatTensor:$result, Kerf_FloatTensor:$rstd);
}

def Kerf_RmsNormBackwardOp : Kerf_Composite<"rms_norm_backward", [Kerf_ComputesWeightGradients]> {
  let summary = "Gradients of rms_norm, computed from the saved rstd";
  let description = [{
    The results are the gradients of operand and scale. The gradient of scale is a sum over all dimensions but the
    last.
    * Every operand and result has the shape of its counterpart in `rms_norm`.

    Example:
    ```mlir
    %dx, %dscale = kerf.rms_norm_backward %x, %scale, %rstd, %dy
        : (tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, Kerf_FloatTensor:$scale, Kerf_FloatTensor:$rstd, Kerf_FloatTensor:$gradient);
  let results = (outs Kerf_FloatTensor:$operand_gradient, Kerf_FloatTensor:$scale_gradient);
}

def Kerf_AttentionOp : Kerf_Composite<"attention", [Kerf_In16Bits<"Half">, DeclareOpInterfaceMethods<WorkOpInterface, ["describe"]>,
    Diff, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "Scaled dot-product attention with grouped queries";
  let description = [{
    For query head h, which shares the key/value head h / (H / G) with the other heads of its group: out =
    softmax(scale * q k^T + mask) v, where the softmax runs over the T keys. `lse` is the natural logarithm of the sum
    of exponentials; the backward op reads `lse` and computes the S x T matrix of probabilities anew. With `causal`,
    query i attends to keys j <= i only. A floating-point mask is added to the scores; an i1 mask excludes keys where
    it is false. A query that attends to no key gives zeros.

    Rule: batch, heads and queries may be sharded. Query heads of one group are either on the rank of their key/value
    head, or sharded within the group, in which case each rank has a copy of that key/value head. Where the queries of
    `causal` attention are sharded, `query_axes` names the mesh axes at the device level: the number of the rank's
    first query is position(query_axes) * S.

    * query is [B, S, H, D], key [B, T, G, D] and value [B, T, G, E], where G divides H; out is [B, S, H, E] and lse
      [B, H, S].
    * mask, if present, is [1 or B, 1 or H, S, T]. `causal` without `query_axes` requires S = T.

    Example:
    ```mlir
    %out, %lse = kerf.attention %q, %k, %v {scale = 0.25 : f64, causal}
        : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$query, Kerf_FloatTensor:$key, Kerf_FloatTensor:$value, Optional<Kerf_Tensor>:$mask,
                       F64Attr:$scale, UnitAttr:$causal, OptionalAttr<DenseI64ArrayAttr>:$query_axes);
  let results = (outs Kerf_FloatTensor:$result, Kerf_FloatTensor:$lse);
}

def Kerf_AttentionBackwardOp : Kerf_Composite<"attention_backward",
    [DeclareOpInterfaceMethods<WorkOpInterface, ["describe"]>, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "Gradients of attention, computed from the saved log-sum-exp";
  let description = [{
    The probabilities P = exp(scale * q k^T + mask - lse) are recomputed. With D = sum(dout * out) over the last
    dimension, the gradient of the scores is dS = P * (dP - D). The gradients of key and value are sums over the query
    heads of a group. Rule: the same as that of `attention`; where queries are sharded, the gradients of key and value
    are partial sums.
    * Every operand and result has the shape of its counterpart in `attention`.

    Example:
    ```mlir
    %dq, %dk, %dv = kerf.attention_backward %q, %k, %v, %out, %lse, %dout {scale = 0.25 : f64, causal}
        : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>)
        -> (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$query, Kerf_FloatTensor:$key, Kerf_FloatTensor:$value, Optional<Kerf_Tensor>:$mask,
                       Kerf_FloatTensor:$output, Kerf_FloatTensor:$lse, Kerf_FloatTensor:$gradient, F64Attr:$scale, UnitAttr:$causal,
                       OptionalAttr<DenseI64ArrayAttr>:$query_axes);
  let results = (outs Kerf_FloatTensor:$query_gradient, Kerf_FloatTensor:$key_gradient, Kerf_FloatTensor:$value_gradient);
}

def Kerf_CrossEntropyOp : Kerf_Composite<"cross_entropy", [Kerf_In16Bits<"OperandsAsIs">, Kerf_TakesIndices, Kerf_ReadsScores, Diff,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "Cross entropy of each row of logits with its label";
  let description = [{
    nll = lse - logits[label], with lse = log(sum(exp(logits))) over the last dimension (the classes). nll is 0 where
    the label is `ignore_index`. A mean over the labels that count is built from nll by further ops, because the
    number of such labels is a sum over all ranks. A label outside of [0, V) that is not `ignore_index` ends the run
    with a message. Rule: every dimension but the classes may be sharded as it is; sharding the classes requires a
    decomposition first.
    * labels, nll and lse have the logits' shape without the last dimension.
    * `classes`, which is only set at the device level, is the number V of classes, where the last dimension of the
      logits is longer. The columns after the first V belong to no class, and their values are not read.

    Example:
    ```mlir
    %nll, %lse = kerf.cross_entropy %logits, %labels {ignore_index = -100 : i64}
        : (tensor<4x8x97xf32>, tensor<4x8xi64>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$logits, Kerf_IndexTensor:$labels, I64Attr:$ignore_index, OptionalAttr<I64Attr>:$classes);
  let results = (outs Kerf_FloatTensor:$result, Kerf_FloatTensor:$lse);
}

def Kerf_CrossEntropyBackwardOp : Kerf_Composite<"cross_entropy_backward",
    [Kerf_TakesIndices, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "Gradient of cross_entropy, computed from the saved log-sum-exp";
  let description = [{
    dlogits = (exp(logits - lse) - onehot(label)) * gradient, and 0 in rows whose label is `ignore_index`.
    * Every operand and the result has the shape of its counterpart in `cross_entropy`, and `classes` is the same. The
      result is 0 in the columns that belong to no class.

    Example:
    ```mlir
    %dl = kerf.cross_entropy_backward %logits, %labels, %lse, %dnll {ignore_index = -100 : i64}
        : (tensor<4x8x97xf32>, tensor<4x8xi64>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8x97xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$logits, Kerf_IndexTensor:$labels, Kerf_FloatTensor:$lse, Kerf_FloatTensor:$gradient,
                       I64Attr:$ignore_index, OptionalAttr<I64Attr>:$classes);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_EmbeddingOp : Kerf_Composite<"embedding", [Kerf_PicksElements, Kerf_UsesTable, Kerf_In16Bits<"Rows">,
    DeclareOpInterfaceMethods<WorkOpInterface, ["describe"]>, Diff, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "Looks up rows of a table by index";
  let description = [{
    y[t.., :] = table[indices[t..] - offset, :]. Rule: `([v, d], [t..]) -> ([t.., d])  v: reduction(sum)`: where the
    rows v are sharded, each rank looks up its own rows, gives zeros for all others, and the partial results are
    summed. In this case `offset`, the global number of the rank's first row, is set at the device level, and an index
    outside of the rank's shard gives zeros. An index outside of [0, rows), where `rows` is the global number of rows,
    ends the run with a message.
    * The table has two dimensions. The result has the shape that the formula gives. `offset` is a scalar i64. Without
      `offset` the table has `rows` rows.

    Example:
    ```mlir
    %y = kerf.embedding %table, %ids {rows = 97 : i64} : (tensor<97x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$table, Kerf_IndexTensor:$indices, Optional<Kerf_IndexTensor>:$offset, I64Attr:$rows);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_EmbeddingBackwardOp : Kerf_Composite<"embedding_backward", [Kerf_UsesTable, Diff,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "Gradient of embedding with respect to its table";
  let description = [{
    dtable = 0; dtable[indices[t..] - offset, :] += gradient[t.., :]. An index outside of the rank's shard adds
    nothing. Rule: `([t..], [t.., d]) -> ([v, d])  t: reduction(sum)`; v, the rows of the table, may be sharded too.
    * Every operand and the result has the shape of its counterpart in `embedding`.

    Example:
    ```mlir
    %dt = kerf.embedding_backward %ids, %dy {rows = 97 : i64} : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<97x8xf32>
    ```
  }];
  let arguments = (ins Kerf_IndexTensor:$indices, Kerf_FloatTensor:$gradient, Optional<Kerf_IndexTensor>:$offset, I64Attr:$rows);
  let results = (outs Kerf_FloatTensor:$result);
}

#endif
