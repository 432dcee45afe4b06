// SPDX-License-Identifier: Apache-2.0
// Composites worth a kernel of their own, and their backward forms. Each can decompose into simpler ops. Their kernels compute in f32 at
// least: statistics, log-sum-exp, scale and bias beside 16-bit operands may be f32 (kerf-mixed-precision).
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
    y = exp(x - max) / sum(exp(x - max)) over `dimension`. Rule: the dimension may be cut after decomposition.
    * `dimension` is inside the operand's rank.

    Example:
    ```mlir
    %y = kerf.softmax %x {dimension = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, I64Attr:$dimension);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_SoftmaxBackwardOp : Kerf_Composite<"softmax_backward", [SameOperandsAndResultType]> {
  let summary = "Gradient of softmax from its result";
  let description = [{
    dx = y * (dy - sum(y * dy)) over `dimension`.
    * `dimension` is inside the operands' rank.

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
    x * Phi(x), Phi by erf, or by 0.5 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) where `approximate` is set.

    Example:
    ```mlir
    %y = kerf.gelu %x {approximate} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, UnitAttr:$approximate);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_GeluBackwardOp : Kerf_Composite<"gelu_backward", [Elementwise, Kerf_ManyInstructions, SameOperandsAndResultType]> {
  let summary = "Gradient of gelu from its operand";
  let description = [{
    Example:
    ```mlir
    %dx = kerf.gelu_backward %x, %dy : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, Kerf_FloatTensor:$gradient, UnitAttr:$approximate);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_LayerNormOp : Kerf_Composite<"layer_norm", [Kerf_NormalizesRows, Kerf_In16Bits<"LikeFirst">, Diff]> {
  let summary = "Layer normalization over the last dimension";
  let description = [{
    y = (x - mean) * rstd * scale + bias; rstd = 1 / sqrt(var + epsilon), var the mean of squared deviations. `mean` and `rstd` have the
    operand's shape without its last dimension. Rule: the last dimension may be cut after decomposition.
    * Scale and bias have the size of the last dimension; mean and rstd the shape said above.

    Example:
    ```mlir
    %y, %mean, %rstd = kerf.layer_norm %x, %scale, %bias {epsilon = 1.0e-5 : f64}
        : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, Kerf_FloatTensor:$scale, Kerf_FloatTensor:$bias, F64Attr:$epsilon);
  let results = (outs Kerf_FloatTensor:$result, Kerf_FloatTensor:$mean, Kerf_FloatTensor:$rstd);
}

def Kerf_LayerNormBackwardOp : Kerf_Composite<"layer_norm_backward", [Kerf_MakesWeightGradients]> {
  let summary = "Gradients of layer_norm from the saved mean and rstd";
  let description = [{
    dx, dscale, dbias; the sums of dscale and dbias run over all dimensions but the last.
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

def Kerf_RmsNormOp : Kerf_Composite<"rms_norm", [Kerf_NormalizesRows, Kerf_In16Bits<"LikeFirst">, Diff]> {
  let summary = "Root-mean-square normalization over the last dimension";
  let description = [{
    y = x * rstd * scale; rstd = 1 / sqrt(mean(x^2) + epsilon), of the operand's shape without its last dimension.
    * Scale has the size of the last dimension.

    Example:
    ```mlir
    %y, %rstd = kerf.rms_norm %x, %scale {epsilon = 1.0e-6 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, Kerf_FloatTensor:$scale, F64Attr:$epsilon);
  let results = (outs Kerf_FloatTensor:$result, Kerf_FloatTensor:$rstd);
}

def Kerf_RmsNormBackwardOp : Kerf_Composite<"rms_norm_backward", [Kerf_MakesWeightGradients]> {
  let summary = "Gradients of rms_norm from the saved rstd";
  let description = [{
    dx, dscale; the sum of dscale runs over all dimensions but the last.
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
    For query head h and key/value head h / (H / G): out = softmax(scale * q k^T + mask) v over the T keys; `lse` is the log of the sum
    of exponentials (natural), what the backward form needs instead of the S x T matrix. `causal`: query i sees keys j <= i.
    The mask is added (float) or excludes where false (i1). A query that sees nothing gives zeros.
    Rule: batch, heads and queries pass through; a group of query heads stays with its key/value head or is cut within it. Where `causal` queries are
    cut, the device level says by which axes (`query_axes`): the first query's number is position(query_axes) * S.
    * query [B, S, H, D], key [B, T, G, D], value [B, T, G, E], G divides H; out [B, S, H, E], lse [B, H, S].
    * mask, if any, [1 or B, 1 or H, S, T]; `causal` without `query_axes` asks S = T.

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
  let summary = "Gradients of attention from the saved log-sum-exp";
  let description = [{
    P = exp(scale * q k^T + mask - lse) is computed again; with D = sum(dout * out): dS = P * (dP - D). The gradients of key and value
    are sums over the query heads of a group. Rule: as `attention`; where queries are cut the gradients of key and value are partial sums.
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

def Kerf_CrossEntropyOp : Kerf_Composite<"cross_entropy", [Kerf_In16Bits<"AsItIs">, Kerf_TakesIndices, Diff,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "Cross entropy of each row of logits with its label";
  let description = [{
    nll = lse - logits[label], lse = log(sum(exp(logits))) over the last dimension; nll is 0 where the label is `ignore_index`.
    The mean over labels that count is built from it: its denominator is global. A label outside of [0, V) that isn't `ignore_index`
    ends the run with a message. Rule: the class dimension may be cut after decomposition.
    * Labels, nll and lse have the logits' shape without the last dimension.

    Example:
    ```mlir
    %nll, %lse = kerf.cross_entropy %logits, %labels {ignore_index = -100 : i64}
        : (tensor<4x8x97xf32>, tensor<4x8xi64>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$logits, Kerf_IndexTensor:$labels, I64Attr:$ignore_index);
  let results = (outs Kerf_FloatTensor:$result, Kerf_FloatTensor:$lse);
}

def Kerf_CrossEntropyBackwardOp : Kerf_Composite<"cross_entropy_backward",
    [Kerf_TakesIndices, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "Gradient of cross_entropy from the saved log-sum-exp";
  let description = [{
    dlogits = (exp(logits - lse) - onehot(label)) * gradient, 0 where the label is `ignore_index`.
    * Every operand and the result has the shape of its counterpart in `cross_entropy`.

    Example:
    ```mlir
    %dl = kerf.cross_entropy_backward %logits, %labels, %lse, %dnll {ignore_index = -100 : i64}
        : (tensor<4x8x97xf32>, tensor<4x8xi64>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8x97xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$logits, Kerf_IndexTensor:$labels, Kerf_FloatTensor:$lse, Kerf_FloatTensor:$gradient,
                       I64Attr:$ignore_index);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_EmbeddingOp : Kerf_Composite<"embedding", [Kerf_PicksElements, Kerf_UsesTable, Kerf_In16Bits<"Rows">,
    DeclareOpInterfaceMethods<WorkOpInterface, ["describe"]>, Diff, DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["localize"]>]> {
  let summary = "Rows of a table by index";
  let description = [{
    y[t.., :] = table[indices[t..] - offset, :]. Rule: `([v, d], [t..]) -> ([t.., d])  v: reduction(sum)`: each rank gives its own rows and
    zeros elsewhere. `offset` and `rows` (the global number of rows) are set at the device level where v is cut; then indices outside of the
    rank's piece give zeros. An index outside of [0, rows) ends the run with a message.
    * The table has two dimensions; the result's shape follows; `offset` is a scalar i64. Without offset the table has `rows` rows.

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
  let summary = "Gradient of embedding for its table";
  let description = [{
    dtable = 0; dtable[indices[t..] - offset, :] += gradient[t.., :]; indices outside of the rank's piece add nothing.
    Rule: `([t..], [t.., d]) -> ([v, d])  t: reduction(sum)`; v passes through.
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
