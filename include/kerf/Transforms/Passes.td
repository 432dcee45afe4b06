// SPDX-License-Identifier: Apache-2.0
// All passes of Kerf, in the order in which a model goes through them. The descriptions are the source of docs/passes.md.
#ifndef KERF_TRANSFORMS_PASSES_TD
#define KERF_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def RecognizeComposites : Pass<"kerf-recognize-composites", "::mlir::ModuleOp"> {
  let summary = "Recognizes softmax, gelu, norms, cross_entropy and attention in the ops that exporters write for them";
  let description = [{
    Before the pass, a normalization or an attention is implicit in about a dozen ops, which include the S x T scores
    of attention. After the pass it is one composite op, which has a kernel, a backward op and a sharding rule. The
    values are the same up to rounding: a model that is trained without this pass has the same losses.

    A pattern is matched by what the ops compute, not by their names or order:
    * GELU is matched as a polynomial in x and its tanh, or with erf.
    * The norms are matched with x * x or a power, with a mean by multiplication or by division, and with rsqrt or 1 /
      sqrt.
    * Attention is matched with the scale on the scores or on query and key, with keys that are transposed in any way,
      with masks that are added or selected, with the NaN guard of `scaled_dot_product_attention`, and with the
      repeated keys and values of grouped queries. A mask that is built in the IR (iota, compare) and hides exactly
      the later keys becomes the attribute `causal`; any other mask stays an operand. Since the operands of the
      composite are [B, S, H, D], the pass adds transposes, which cancel with those of the exporter.
    * Cross entropy written by hand is matched in three forms. With z = log_softmax(x), written in any way and moved
      by reshapes, transposes and slices, these are: `take_along` of z at the labels, the sum of z over a one-hot
      mask, and logsumexp(x) minus `take_along` of x. The composite saves one number for each row for the backward
      pass, instead of z and its mask. Masks and means applied to the loss remain ops on rows.

    ```mlir
    %s = kerf.dot_general %q, %kt ...                        // [B, H, S, T]
    %scaled = kerf.multiply %s, %quarter ...
    %masked = kerf.add %scaled, %mask ...
    %p = kerf.softmax %masked {dimension = 3 : i64} ...
    %out = kerf.dot_general %p, %v ...
    ```
    becomes
    ```mlir
    %q1 = kerf.transpose %q {permutation = array<i64: 0, 2, 1, 3>} ...
    ...
    %out1, %lse = kerf.attention %q1, %k1, %v1 {scale = 0.25 : f64, causal} ...
    %out = kerf.transpose %out1 {permutation = array<i64: 0, 2, 1, 3>} ...
    ```
    The pass is separate from `kerf-fold-reshapes` because it recognizes what ops compute, whereas the other pass only
    rearranges shapes.
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def FoldReshapes : Pass<"kerf-fold-reshapes", "::mlir::ModuleOp"> {
  let summary = "Keeps batch, sequence and head dimensions separate at every op, and gives parameters matching shapes";
  let description = [{
    Before the pass, a dimension that should be sharded may exist only as a part of a merged dimension: 8 x 32 samples
    as 256 rows, or 4 heads of 16 as 64 columns. A sharding of the merged dimension whose shard borders differ from
    the borders of the parts cannot be carried through the reshape. After the pass, each such dimension is a dimension
    of its own wherever possible. A reshape remains only where an op needs another shape.

    * Reshapes that merge dimensions move down below elementwise ops, products, reductions, cross_entropy and
      embedding. Reshapes that split dimensions move up above these ops. The two kinds cancel where they meet.
    * A split that reaches a parameter changes the type of the argument: the parameter becomes a *view* of the
      exported one, and `kerf.exported_shape` keeps the exporter's shape.
    * A product that contracts a merged dimension contracts the parts instead; its parameter becomes a view in the
      same way.
    * Equal slices of a fused projection (3 x 64 columns) become slices of a dimension of size 3.
    * Transposes are folded into the dimension numbers of products and cancel with each other; they move up through
      elementwise ops where they cancel above.

    ```mlir
    func.func @main(%x: tensor<8x32x64xf32>, %w: tensor<64x64xf32> {kerf.kind = "parameter", kerf.name = "w"}) -> ... {
      %0 = kerf.reshape %x : (tensor<8x32x64xf32>) -> tensor<256x64xf32>
      %1 = kerf.dot_general %0, %w ... -> tensor<256x64xf32>
      %2 = kerf.reshape %1 : (tensor<256x64xf32>) -> tensor<8x32x4x16xf32>
    ```
    becomes
    ```mlir
    func.func @main(%x: tensor<8x32x64xf32>, %w: tensor<64x4x16xf32> {kerf.exported_shape = array<i64: 64, 64>, ...}) -> ... {
      %2 = kerf.dot_general %x, %w ... -> tensor<8x32x4x16xf32>
    ```
    The pass runs before `kerf-outline-layers`, while the parameters of a layer are still arguments of @main.
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def OutlineLayers : Pass<"kerf-outline-layers", "::mlir::ModuleOp"> {
  let summary = "Makes one function of each kind of repeated layer, which is called once for each layer";
  let description = [{
    Before the pass, the fact that a model consists of N equal layers is implicit in its sequence of ops. After the
    pass, each distinct kind of layer is one private function and every layer is a `kerf.call` of it, located at the
    layer's module scope. The cost of later passes therefore depends on the number of distinct layers, not on N.

    Layers are found by structure, not by names: ops, attributes and types repeat with a period, and in every segment
    of the repeat an operand comes either from the same position of this segment or from outside of it. Values from
    outside become arguments of the call: the residual stream, the layer's parameters, and values that all layers
    share. Constants and their broadcasts are cloned into the function. So is an op that depends on no parameter if each
    layer has a copy of it with operands of its own (a mask, for example); the operands that differ become arguments. A
    repeat can be divided into segments at different ops; the pass takes the division with the fewest values that cross
    from segment to segment, and of equal ones the division that module scopes agree with. Where divisions are
    still equal, the pass takes one whose segments do not begin with an elementwise op, because such an op can become
    one kernel with the ops before it (the activation after a residual sum, for example).

    The pass runs before differentiation, so that each kind of layer gets one backward function.

    ```mlir
    func.func @main(%x: tensor<4x8xf32>, %w0: tensor<8x8xf32>, %w1: tensor<8x8xf32>) -> tensor<4x8xf32> {
      %0 = kerf.dot_general %x, %w0 ...
      %1 = kerf.tanh %0 ...
      ...
      %8 = kerf.dot_general %7, %w1 ...
      %9 = kerf.tanh %8 ...
      ...
    ```
    becomes
    ```mlir
    func.func private @layer(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> { ... }
    func.func @main(%x: tensor<4x8xf32>, %w0: tensor<8x8xf32>, %w1: tensor<8x8xf32>) -> tensor<4x8xf32> {
      %0 = kerf.call @layer(%x, %w0) : ... loc("model.layers.0")
      %1 = kerf.call @layer(%0, %w1) : ... loc("model.layers.1")
      ...
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def CutStages : Pass<"kerf-cut-stages", "::mlir::ModuleOp"> {
  let summary = "Divides the forward pass into pipeline parts at named ops";
  let description = [{
    Before the pass, @main is the forward pass: calls of layers, and ops around the calls. After the pass, each part
    of the pipeline is a sequence of calls (and the first and last part also have the ops before the first call and
    after the last one), and each call carries the number of its part (`kerf.part`).

    For each part but the last, the option `until` has a pattern that names the ops at which the part ends. Op names
    are those of plans and reports, with the number of the layer. A part holds these ops and all ops that they depend
    on and that no earlier part holds. The last part holds the remaining ops. A value may therefore skip parts, and a
    branch that the named ops do not depend on is in a later part, wherever the branch stands in the file. Ops that
    depend on inputs alone are computed in each part that needs them.

    A layer that is divided between parts is replaced by one function for each of these parts, located at the layer's
    module scope. Ops outside of layers become functions too where their position does not determine their part. The
    pass runs before differentiation, so that each function has a backward function and is recomputed, planned and
    priced like a layer.

    ```mlir
    // until = "h.1.up/dot_general"
    %1 = kerf.call @layer(%0, %w0, %u0) : ... loc("h.0")
    %2 = kerf.call @layer(%1, %w1, %u1) : ... loc("h.1")
    ```
    becomes
    ```mlir
    %1 = kerf.call @layer(%0, %w0, %u0) {kerf.part = 0 : i64} : ... loc("h.0")
    %a = kerf.call @layer_piece(%1, %w1) {kerf.part = 0 : i64} : ... loc("h.1")
    %2 = kerf.call @layer_piece_0(%a, %u1, %1) {kerf.part = 1 : i64} : ... loc("h.1")
    ```
  }];
  let options = [ListOption<"until", "until", "std::string", "for each pipeline part but the last, in order: a pattern of the names of the ops at which the part ends">];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def SeparateLayers : Pass<"kerf-separate-layers", "::mlir::ModuleOp"> {
  let summary = "Gives a layer a function of its own where a plan treats this layer differently";
  let description = [{
    Before the pass, all layers of a kind share one function, and therefore one strategy. After the pass, a layer for
    which the op patterns of a plan select other ops than for most layers of its kind has its own copy of the
    function, in which ops have the layer's own names. A call that stands for several layers (`kerf.repeat`) becomes a
    call for each layer where these layers are treated differently. Where no pattern distinguishes layers of a kind,
    the pass changes nothing. The pass runs before differentiation, so that the copy gets a backward function of its
    own.

    ```mlir
    // patterns = "h.0.up/dot_general"
    %1 = kerf.call @layer(%0, %w0) : ... loc("h.0")
    %2 = kerf.call @layer(%1, %w1) : ... loc("h.1")
    %3 = kerf.call @layer(%2, %w2) : ... loc("h.2")
    ```
    becomes
    ```mlir
    %1 = kerf.call @layer_0(%0, %w0) : ... loc("h.0")
    %2 = kerf.call @layer(%1, %w1) : ... loc("h.1")
    %3 = kerf.call @layer(%2, %w2) : ... loc("h.2")
    ```
  }];
  let options = [
    ListOption<"patterns", "patterns", "std::string", "globs of the op names for which a plan has an entry">,
    Option<"ofAllOps", "of-all-ops", "bool", "false", "the patterns are the complete names of all ops, as in a plan that the search wrote">];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def MixedPrecision : Pass<"kerf-mixed-precision", "::mlir::ModuleOp"> {
  let summary = "Computes in 16 bits while parameters stay in f32";
  let description = [{
    Before the pass, every floating-point value is f32. After the pass, the loss is computed in bf16 or f16 where this
    is numerically safe:

    * Parameters stay f32 arguments. A parameter that 16-bit ops use is converted once in each function. Rows of a
      table are converted after they have been looked up.
    * Products, convolutions, attention, dispatch of tokens and elementwise ops compute in 16 bits, and so do maxima and
      minima over windows (max pooling).
    * Kernels of attention, softmax, norms and cross_entropy compute in f32 internally. Their statistics and
      log-sum-exp are f32 results. Norms read scale and bias in f32, and attention reads its mask in the mask's type.
      Batch normalization, which has no composite, computes in f32 and rounds its result (`kerf.normalized`).
    * These stay f32: sums (`reduce`) and sums over windows; buffers to which a step gives new values, such as running
      statistics; exponential, log, square roots and powers that are not part of a recognized
      composite; the results of cross_entropy; values that come from integers or from a floating-point input; and
      elementwise ops on any of these, so that the computation from the logits to the loss is f32. A product converts
      its f32 operands to 16 bits again. All other ops stay f32.

    Gradients need no rule of their own: the gradient of a parameter is converted to f32 at the parameter, and
    canonicalization lets the products and sums that compute the gradient write f32 directly, so that gradients are
    summed over ranks and microbatches in f32.

    With `loss-scale`, @main has an additional argument "grad_scaler/scale" (kind "state" or, for `static`,
    "constant"). `kerf-differentiate` starts from this argument instead of from 1, and `kerf-add-optimizer` divides
    the gradients by it. The pass is separate from import, which reads a model in one type. It runs before
    differentiation, so that gradients get their types from the forward ops.

    ```mlir
    func.func @main(%x: tensor<4x8xf32> {kerf.kind = "input", kerf.name = "x"},
                    %w: tensor<8x8xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> tensor<f32> {
      %y = kerf.dot_general %x, %w ... -> tensor<4x8xf32>
      %loss = kerf.reduce %y ... -> tensor<f32>
    ```
    becomes
    ```mlir
      %x16 = kerf.convert %x : (tensor<4x8xf32>) -> tensor<4x8xbf16>
      %w16 = kerf.convert %w : (tensor<8x8xf32>) -> tensor<8x8xbf16>
      %y = kerf.dot_general %x16, %w16 ... -> tensor<4x8xbf16>
      %loss = kerf.reduce %y ... : (tensor<4x8xbf16>) -> tensor<f32>
    ```
  }];
  let options = [
    Option<"dtype", "dtype", "std::string", "\"bf16\"", "the 16-bit type to compute in: bf16 or f16">,
    Option<"lossScale", "loss-scale", "std::string", "\"none\"", "how the loss is scaled for its gradients: none, dynamic or static">,
  ];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def QuantizeProducts : Pass<"kerf-quantize-products", "::mlir::ModuleOp"> {
  let summary = "Computes the products of linear layers with 8-bit factors";
  let description = [{
    The pass runs after `kerf-mixed-precision`. Before the pass, all products have 16-bit factors. After the pass, a
    product of a linear layer has factors in f8E4M3FN: each is divided by a scale, so that its largest number becomes
    the largest number of the format, and rounded (`kerf.quantize`). Products that read the same value share its 8-bit
    copy. The result stays in 16 bits.

    A product of a linear layer has one factor that is a parameter, perhaps in another shape or type, and one that is
    not. It has no batching dimensions, the product of the sizes of its contracted dimensions is a multiple of 16, and
    so are those of the remaining dimensions of both factors. These are sizes of whole tensors, so that the choice does not depend on the plan. A product that gives the
    scores of the loss is left as it is, and so are all other products, such as those of attention and experts.

    Gradients follow from the gradient of `kerf.dot_general`: the gradient of the result is quantized to f8E5M2, and is
    multiplied by the 8-bit factors of the forward product. The forward pass therefore keeps these factors instead of
    16-bit activations.

    ```mlir
    %y = kerf.dot_general %x, %w ... : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
    ```
    becomes
    ```mlir
    %a = kerf.abs %x : (tensor<16x32xbf16>) -> tensor<16x32xbf16>
    %m = kerf.reduce %a {kerf.per_microbatch, kind = #kerf<reduce_kind max>, ...} : (tensor<16x32xbf16>) -> tensor<bf16>
    %x8 = kerf.quantize %x, %m : (tensor<16x32xbf16>, tensor<bf16>) -> tensor<16x32xf8E4M3FN>
    ...
    %y = kerf.dot_general %x8, %w8, %m, %n ... : (tensor<16x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>, tensor<bf16>, tensor<bf16>) -> tensor<16x64xbf16>
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def Differentiate : Pass<"kerf-differentiate", "::mlir::ModuleOp"> {
  let summary = "Adds the gradient of the loss for every trainable parameter (reverse mode)";
  let description = [{
    Before the pass, @main returns the loss as its first result; further results are dropped. After the pass, it
    returns the loss and, in the order of the arguments, the gradient of each argument that is marked
    `kerf.trainable`, with the name "gradient/NAME". Only ops between trainable parameters and the loss get backward
    ops (activity analysis). Each op defines its own gradient (GradientOpInterface). A backward op has the location of
    its forward op and the attribute `kerf.backward`. Where a value has several users, their gradients are added,
    starting with the last user.

    The gradient of a broadcast is a sum of the result's gradient. Where this gradient is a sum of tensors, each
    multiplied by factors that are constant along the summed dimensions, and the sums of these tensors are known, the sum
    is computed from them. The sum of the difference of a tensor and its mean is known to be zero. So the gradient of the
    mean in a batch normalization needs no sum over the activations of its own, and no all-reduce of its own.

    A called function is differentiated once, for the union of what its calls need. @layer returns the values that its
    backward function reads, in addition to its own results; values that can be had again from an argument, a constant
    or a broadcast are not returned. @layer_backward takes these values, the arguments and the gradients of the
    results, and returns the gradients of the arguments.

    The gradient of the loss itself is 1, or the argument "grad_scaler/scale" where @main has one
    (`kerf-mixed-precision`).

    A trainable parameter that the loss does not depend on loses its mark, with a warning. An op without a gradient
    between a parameter and the loss is an error. The pass is separate from `kerf-add-optimizer` because gradients are
    the same for all optimizers.

    ```mlir
    func.func @main(%w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable}) -> tensor<f32> {
      %loss = kerf.reduce %w {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<f32>
      return %loss : tensor<f32>
    ```
    becomes
    ```mlir
    func.func @main(%w: ...) -> (tensor<f32>, tensor<4xf32> {kerf.name = "gradient/w"}) {
      %loss = kerf.reduce %w ...
      %seed = kerf.constant {kerf.backward} dense<1.0> : tensor<f32>
      %g = kerf.broadcast_in_dim %seed {broadcast_dimensions = array<i64>, kerf.backward} : (tensor<f32>) -> tensor<4xf32>
      return %loss, %g : tensor<f32>, tensor<4xf32>
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def AddOptimizer : Pass<"kerf-add-optimizer", "::mlir::ModuleOp"> {
  let summary = "Turns the loss and its gradients into one training step";
  let description = [{
    Before the pass, @main returns the loss and gradients. After the pass, it is a training step. Its arguments are
    the former ones, the optimizer's states (kind "state", with the name STATE/NAME, such as "exp_avg/w"; states start
    as zeros), the learning rate and the number of the step (from 0). Its results are the loss, the new parameters,
    the new states and the new buffers. The attribute `kerf.updated_by` of a parameter, state or buffer is the index
    of the result that replaces it.

    The optimizer's rule (kerf/Optimizer/Record.h) defines the update of a parameter as `kerf.map`s with
    reductions and products between them. Each of these ops has the attribute `kerf.update`, whose value is the name
    of the parameter that the op updates. Values that all parameters share, such as bias corrections by the number of
    the step, are scalars that are computed once, in f64. 16-bit parameters are updated in f32.

    Each gradient passes through one `kerf.sync_gradient` as soon as it is complete; later passes decide how the
    gradient is summed over ranks. Clipping multiplies all gradients by min(1, clip-norm / (norm + 1e-6)), where norm
    is their global norm (as torch.nn.utils.clip_grad_norm_ does). The squares of 16-bit gradients are summed in f32.
    `gradient-norms` adds the results "gradient_norm_squared/NAME", computed before clipping. With `reduce-type`, a
    gradient is converted to this type before its `kerf.sync_gradient` and back after it.

    Where @main has the argument "grad_scaler/scale" (`kerf-mixed-precision`), gradients are divided by this loss
    scale as soon as they are complete. A step in which a gradient has an infinite or NaN element is skipped: every
    update selects the old values. All ranks skip the same steps, because the numbers of such elements are summed over
    ranks. A loss scale of kind "state" is halved after a skipped step, and doubled after `loss-scale-window` steps in
    a row that were not skipped (the state "grad_scaler/growth_tracker" counts them), as torch.amp.GradScaler does.
    The number of the update is then the state "grad_scaler/updates", which counts the steps that were not skipped.

    With gradient accumulation over N batches (OptimizerOptions::accumulate), each batch's gradient is added to a
    state "accumulated_gradient/NAME", and the Nth batch updates the parameter with 1/N of this sum. The module's
    attribute `kerf.accumulate` is N, and the argument "step" counts batches. The learning rate of a parameter group
    with its own learning rate is this rate multiplied by "learning_rate_factor", a second argument of kind
    "learning_rate", which holds the schedule's current factor.

    ```mlir
    func.func @main(%w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable})
        -> (tensor<f32>, tensor<4xf32> {kerf.name = "gradient/w"})
    ```
    becomes
    ```mlir
    func.func @main(%w: tensor<4xf32> {kerf.kind = "parameter", kerf.name = "w", kerf.trainable, kerf.updated_by = 1 : i64},
                    %v: tensor<4xf32> {kerf.kind = "state", kerf.name = "momentum/w", kerf.updated_by = 2 : i64},
                    %lr: tensor<f32> {kerf.kind = "learning_rate", kerf.name = "learning_rate"},
                    %step: tensor<i64> {kerf.kind = "step", kerf.name = "step"})
        -> (tensor<f32>, tensor<4xf32> {kerf.name = "w"}, tensor<4xf32> {kerf.name = "momentum/w"}) {
      ...
      %s = kerf.sync_gradient %g {parameter = "w"} : (tensor<4xf32>) -> tensor<4xf32>
      %w1, %v1 = kerf.map(%w, %v, %s, %lr) {kerf.update = "w"} : ... {
        ...
    ```
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"sgd\"", "name of the optimizer (kerf train --help lists the names)">,
    ListOption<"settings", "settings", "std::string", "settings of the optimizer as NAME=VALUE, such as momentum=0.9">,
    ListOption<"noDecay", "no-decay", "std::string", "globs of the names of parameters that get no weight decay">,
    Option<"clipNorm", "clip-norm", "double", "0.0", "largest allowed global norm of the gradients; 0: no clipping">,
    Option<"gradientNorms", "gradient-norms", "bool", "false", "also return the squared norm of each gradient, before clipping">,
    Option<"reduceType", "reduce-type", "std::string", "\"\"", "the type in which gradients are summed over ranks: bf16 or f16; empty: each gradient's own type">,
    Option<"lossScaleWindow", "loss-scale-window", "int64_t", "2000", "number of steps in a row without overflow after which the loss scale doubles">,
  ];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def DecomposeComposites : Pass<"kerf-decompose-composites", "::mlir::ModuleOp"> {
  let summary = "Replaces composites whose reduced dimension is sharded by simpler ops";
  let description = [{
    Before the pass, the fact that a softmax over a sharded dimension needs two small all-reduces is implicit in its
    sharding rule (a *Decomposed* factor). After the pass, the reductions are ops of their own, whose partial results
    are resharded like those of any other reduction. The new ops have the composite's location and its
    `kerf.backward`, but no strategy: they follow the shardings of the values around them.

    ```mlir
    %y = kerf.softmax %x {dimension = 1 : i64, kerf.strategy = {model = "v"}} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    becomes
    ```mlir
    %m = kerf.reduce %x {kind = #kerf<reduce_kind max>, dimensions = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
    %0 = kerf.broadcast_in_dim %m {broadcast_dimensions = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
    %1 = kerf.subtract %x, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = kerf.exponential %1 : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %s = kerf.reduce %2 {kind = #kerf<reduce_kind sum>, dimensions = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
    ...
    ```
    The pass undoes `kerf-recognize-composites` for some ops only. It is a pass of its own because the search decides,
    for each composite, whether to shard the reduced dimension.
  }];
  let options = [Option<"all", "all", "bool", "false", "decompose every composite, whatever its strategy">];
  let dependentDialects = ["::kerf::ir::KerfDialect"];
}

def InsertReshards : Pass<"kerf-insert-reshards", "::mlir::ModuleOp"> {
  let summary = "Makes every change of sharding an explicit kerf.reshard op";
  let description = [{
    Before the pass, a plan states how each op distributes its work (`kerf.strategy`) and how arguments are sharded
    (`kerf.sharding`). It is implicit that the sharding in which a producer leaves a value may differ from the one
    that a user needs. After the pass, each operand has the sharding that its op's strategy requires: `kerf.reshard`
    ops convert between the two. There is one reshard for each value and required sharding, and it starts from the
    closest sharding in which the value already exists. Partial sums stay partial until a user cannot take them.
    Composites whose reduced dimension is sharded (cross_entropy over sharded classes) are decomposed first.
    `sync_gradient` gets attributes with the sharding of its operand and result, and is expanded only by
    `kerf-partition`.

    An op without a strategy follows its operands: it takes the strategy that moves the fewest bytes, and of equal
    ones the strategy that shards the most. An op that depends on nothing sharded (iota, a broadcast) is computed in
    the sharding that its users need. IR that is annotated by hand therefore needs strategies only for the ops that
    matter.

    The pass is separate from `kerf-partition` so that data movement can be read, counted and changed before it
    becomes collectives.

    ```mlir
    %y = kerf.dot_general %x, %w {kerf.strategy = {model = "k"}, ...}
    %z = kerf.tanh %y : ...
    ```
    becomes
    ```mlir
    %y = kerf.dot_general %x, %w {kerf.strategy = {model = "k"}, ...}
    %r = kerf.reshard %y {from = #kerf.sharding<[{}, {} ], partial = ["model"]>, to = #kerf.sharding<[{"model"}, {} ]>} : ...
    %z = kerf.tanh %r {kerf.strategy = {model = "i0"}} : ...
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def Partition : Pass<"kerf-partition", "::mlir::ModuleOp"> {
  let summary = "Lowers the step to the program of one rank, with local shapes and collectives";
  let description = [{
    Before the pass, tensors are whole and shardings are attributes. After the pass, every tensor has the shape of one
    rank's shard, and each reshard is the cheapest sequence of collectives that are started and awaited (cheapest by
    seconds on the `kerf` tool's cluster, or by bytes received where no cluster is given). The number of the rank is a
    value in the program, so that one program serves all ranks and its size does not depend on their number. A
    dimension that is not divisible by its number of shards is padded; `kerf.mask_padding` writes a neutral element
    into the padding before an op that reduces over the dimension.

    ```mlir
    %r = kerf.reshard %y {from = #kerf.sharding<[{}, {} ], partial = ["model"]>, to = #kerf.sharding<[{}, {} ]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    becomes
    ```mlir
    %p = kerf.all_reduce %y {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "collectives", cause = ""} : ...
    %r = kerf.wait %p : (!kerf.pending<tensor<4x8xf32>>) -> tensor<4x8xf32>
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def ChunkProducts : Pass<"kerf-chunk-products", "::mlir::ModuleOp"> {
  let summary = "Splits products and adjacent collectives into chunks so that both overlap";
  let description = [{
    Before the pass, a matrix product waits for the all-gather of its operand, and the all-reduce of its result waits
    for the complete product. After the pass, product and collective are each split into up to 4 chunks along a
    dimension of the result that the collective does not shard, so that the communication of one chunk overlaps with
    the product of another. The results are bitwise the same, because neither the rows of a product nor the elements
    of a sum depend on how many others are computed with them.

    ```mlir
    %y = kerf.dot_general %x, %w {...} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
    %p = kerf.all_reduce %y {...} : (tensor<4x16xf32>) -> !kerf.pending<tensor<4x16xf32>>
    %z = kerf.wait %p : ...
    ```
    becomes, for each row,
    ```mlir
    %x0 = kerf.slice %x {start = array<i64: 0, 0>, limit = array<i64: 1, 8>, strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<1x8xf32>
    %y0 = kerf.dot_general %x0, %w {...} : (tensor<1x8xf32>, tensor<8x16xf32>) -> tensor<1x16xf32>
    %p0 = kerf.all_reduce %y0 {...} : (tensor<1x16xf32>) -> !kerf.pending<tensor<1x16xf32>>
    ```
    and then
    ```mlir
    %z0 = kerf.wait %p0 : ...
    %z = kerf.concatenate %z0, %z1, %z2, %z3 {dimension = 0 : i64} : ...
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect"];
}

def CompressGradients : Pass<"kerf-compress-gradients", "::mlir::ModuleOp"> {
  let summary = "Encodes gradients before they are sent, and decodes them where they are added";
  let description = [{
    Before the pass, a collective that sums a gradient and has the attribute `kerf.compression` sends all elements.
    After the pass, payloads of the attribute's codec are sent (docs/compression.md): the functions of the codec stand
    in the program as ops, which `kerf-fuse-pointwise` fuses like others.

    * *two-stage*: each rank encodes its gradient and sends each other rank that one's part (all-to-all). Each rank
      decodes what arrives, adds it in the order of the ranks, and encodes the sum, which all ranks gather and decode.
    * *all-gather*: each rank gathers the payloads of all others and adds them up itself. This is the form for two
      ranks, and for codecs with the word `gathers`.
    * A reduce-scatter becomes the first half of the two-stage form.

    Gradients of 1 MiB together are a group. The pass encodes a group before it waits for any payload of the group, and
    encodes the next group before it waits for this one. Each payload has the bytes of its gradient as
    `kerf.gradient_bytes`, by which buckets fill.

    With `pieces`, the gradient is cut, and each piece is a gradient of its own: the pass encodes piece 2 before it waits
    for piece 1. With `first_batch` N, a plain collective runs in the batches before N, and those of payloads run from
    batch N on (`kerf.batches`); the sum is selected by the number of the batch. With `optimizer`, a mean of gradients
    that this optimizer keeps is summed in place of the gradient, in batches that its record tells. Where some batches
    sum nothing, each rank takes a step of its own in these: the pass adds the states "compression_mean/NAME" and
    "compression_moves/NAME", and the model reads the parameter less the rank's moves.

    With `hierarchy`, an all-reduce first sums plainly among the ranks of a node (reduce-scatter), sends payloads between
    nodes, and gathers in the node.

    Where the attribute asks for error feedback, the pass adds states to @main: "compression_error/NAME", what the
    rank's last encodings left out, and "compression_owner_error/NAME" for the owner's encoding of the sum. With
    `momentum`, "compression_momentum/NAME" is added to the gradient before it is encoded. Each rank has its own row of
    such a state. With `momentum_state` too, an all-reduce has no such state: it sums the gradient plus momentum times
    the rank's share of that state of the optimizer. Random numbers depend on seed, step, tensor and element, and differ
    between ranks with different parts of the sum.

    ```mlir
    %p = kerf.all_reduce %g {axes = array<i64: 0, 1, 2>, kind = #kerf<reduce_kind sum>, stream = "gradients", cause = "gradient of w",
      kerf.compression = {codec = "bf16", parameter = "w"}} : (tensor<8x4xf32>) -> !kerf.pending<tensor<8x4xf32>>
    %s = kerf.wait %p : ...
    ```
    becomes
    ```mlir
    %x = kerf.reshape %g : (tensor<8x4xf32>) -> tensor<2x16xf32>
    %y = kerf.convert %x : (tensor<2x16xf32>) -> tensor<2x16xbf16>
    %r = kerf.reshape %y : (tensor<2x16xbf16>) -> tensor<32xbf16>
    %p = kerf.all_gather %r {axes = array<i64: 0, 1, 2>, dim = 0 : i64, ...} : (tensor<32xbf16>) -> !kerf.pending<tensor<64xbf16>>
    ...
    ```
  }];
  let options = [Option<"ranksOfNode", "ranks-of-node", "int64_t", "1", "number of neighbouring ranks that share fast links">];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def ScheduleCollectives : Pass<"kerf-schedule-collectives", "::mlir::ModuleOp"> {
  let summary = "Starts gradient collectives as early, and waits for them as late, as data dependences allow";
  let description = [{
    Before the pass, every collective is awaited immediately after its start. After the pass, the collective of a
    gradient starts as soon as the gradient is computed and is awaited where the optimizer reads the result, so that
    it overlaps with the rest of the backward pass on a stream of its own.

    With `tensor`, the sum of an input's gradient starts before the products that it does not need, so that it overlaps
    with the products that compute the gradients of weights. The gather of a saved activation for such a product starts
    one product before the sum. Both get streams of their own, `sums` and `gathers`. With `all`, every collective starts
    as early as it can.
  }];
  let options = [
    Option<"tensor", "tensor", "bool", "false", "start the sums of the gradients of inputs before products of the gradients of weights">,
    Option<"all", "all", "bool", "false", "start all collectives as early as possible">
  ];
}

def ConvertOnce : Pass<"kerf-convert-once", "::mlir::ModuleOp"> {
  let summary = "Converts parameters to 16 bits once a step, and not in every call of a layer";
  let description = [{
    The function of a layer converts its parameters to 16 bits. In a step with microbatches it is called for each of
    them, and every microbatch in flight would keep a converted copy for its backward pass. Where a function uses a
    parameter only to convert it, the pass moves the conversion to the callers, where it runs once and has one result
    for all microbatches. A gather between the parameter's shards and the conversion then moves 16-bit numbers.

    ```mlir
    func.func private @layer(%x: tensor<4x8xbf16>, %w: tensor<8x8xf32>) -> (tensor<4x8xbf16>, tensor<8x8xbf16>) {
      %0 = kerf.convert %w : (tensor<8x8xf32>) -> tensor<8x8xbf16>
      %1 = kerf.dot_general %x, %0 {...} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
      return %1, %0 : tensor<4x8xbf16>, tensor<8x8xbf16>
    }
    %y:2 = kerf.call @layer(%x, %w) : (tensor<4x8xbf16>, tensor<8x8xf32>) -> (tensor<4x8xbf16>, tensor<8x8xbf16>)
    %dx = kerf.call @layer_backward(%y#1, %dy) {kerf.backward} : ...
    ```
    becomes
    ```mlir
    func.func private @layer(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<4x8xbf16> {
      %1 = kerf.dot_general %x, %w {...} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
      return %1 : tensor<4x8xbf16>
    }
    %0 = kerf.convert %w : (tensor<8x8xf32>) -> tensor<8x8xbf16>
    %y = kerf.call @layer(%x, %0) : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
    %dx = kerf.call @layer_backward(%0, %dy) {kerf.backward} : ...
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def QuantizeOnce : Pass<"kerf-quantize-once", "::mlir::ModuleOp"> {
  let summary = "Quantizes parameters to 8 bits once a step, and not in every call of a layer";
  let description = [{
    The pass runs after `kerf-convert-once`. Before the pass, the function of a layer and its backward function quantize
    the parameters that are factors of 8-bit products, for each microbatch anew. A parameter does not change within a
    step, so after the pass @main quantizes it once, and both functions have the 8-bit copy and its magnitude as
    arguments. The 16-bit copy is not needed any more once the 8-bit copy exists.

    Where a parameter is gathered from shards, each rank quantizes its shard, and 8-bit shards are gathered: in @main, or
    in the layer where the layer gathers. The magnitude is then combined among the ranks of the gather. A parameter whose
    shards have different sizes, or that is reshaped or transposed after a gather in a layer, stays as it is.

    ```mlir
    func.func private @layer(%x: tensor<4x8xf8E4M3FN>, %a: tensor<bf16>, %w: tensor<8x8xbf16>) -> tensor<4x8xbf16> {
      %0 = kerf.abs %w : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
      %m = kerf.reduce %0 {kind = #kerf<reduce_kind max>, ...} : (tensor<8x8xbf16>) -> tensor<bf16>
      %w8 = kerf.quantize %w, %m : (tensor<8x8xbf16>, tensor<bf16>) -> tensor<8x8xf8E4M3FN>
      %y = kerf.dot_general %x, %w8, %a, %m {...} : ...
      return %y : tensor<4x8xbf16>
    }
    %y = kerf.call @layer(%x, %a, %w) : ...
    ```
    becomes
    ```mlir
    func.func private @layer(%x: tensor<4x8xf8E4M3FN>, %a: tensor<bf16>, %w8: tensor<8x8xf8E4M3FN>, %m: tensor<bf16>) -> tensor<4x8xbf16> {
      %y = kerf.dot_general %x, %w8, %a, %m {...} : ...
      return %y : tensor<4x8xbf16>
    }
    %0 = kerf.abs %w : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
    %m = kerf.reduce %0 {kind = #kerf<reduce_kind max>, ...} : (tensor<8x8xbf16>) -> tensor<bf16>
    %w8 = kerf.quantize %w, %m : (tensor<8x8xbf16>, tensor<bf16>) -> tensor<8x8xf8E4M3FN>
    %y = kerf.call @layer(%x, %a, %w8, %m) : ...
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def PadClasses : Pass<"kerf-pad-classes", "::mlir::ModuleOp"> {
  let summary = "Gives the products of a classifier a number of columns that tensor cores can read";
  let description = [{
    A GPU multiplies 16-bit numbers several times more slowly where the rows of a factor or of the result are not whole
    multiples of 8 numbers: on an H200, the three products of GPT-2's 50,257 classes took 118 ms for 65,536 tokens, and
    those of 50,264 columns 22 ms. Where the scores of the classes are such a product, the pass pads its right factor
    with zeros, once for the forward and the backward pass, so that scores and their gradient have more columns.
    `cross_entropy` gets the number of classes as an attribute and does not read the new columns; its gradient is 0
    there. The weight's gradient has the classes only; where it is summed over microbatches, a kernel of its own adds it
    to the sum.

    The pass runs on one rank's program. It changes nothing where an op that it does not know reads the scores, as in a
    cross entropy whose classes are sharded. Programs for CPUs are made without it, because such rows are not slower
    there.

    ```mlir
    %logits = kerf.dot_general %x, %w {...} : (tensor<4x8xbf16>, tensor<8x97xbf16>) -> tensor<4x97xbf16>
    %nll, %lse = kerf.cross_entropy %logits, %labels {ignore_index = -100 : i64} : (tensor<4x97xbf16>, ...) -> ...
    ```
    becomes
    ```mlir
    %w1 = kerf.pad %w, %zero {high = array<i64: 0, 7>, ...} : (tensor<8x97xbf16>, tensor<bf16>) -> tensor<8x104xbf16>
    %logits = kerf.dot_general %x, %w1 {...} : (tensor<4x8xbf16>, tensor<8x104xbf16>) -> tensor<4x104xbf16>
    %nll, %lse = kerf.cross_entropy %logits, %labels {classes = 97 : i64, ignore_index = -100 : i64} : (tensor<4x104xbf16>, ...) -> ...
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def Recompute : Pass<"kerf-recompute", "::mlir::ModuleOp"> {
  let summary = "Recomputes activations of a layer in its backward pass instead of saving them (activation checkpointing)";
  let description = [{
    Before the pass, a layer's forward function returns every value that its backward function reads. After the pass, a
    call of a backward function with the attribute `kerf.recompute` gets the layer's arguments instead, and recomputes
    what it needs: everything ("full"), everything but the results of attention in one kernel ("except-attention"), only
    the results of the core of attention ("selective": attention, softmax), or only results of norms, of elementwise ops
    and of ops that move elements, where they follow from values that are saved ("pointwise"). The same ops, collectives
    included, run on the same values, so that results are bitwise the same. The results of an op with `kerf.recompute =
    true` are recomputed in every layer of this kind. The results of an op with `kerf.recompute = false` are saved in
    every layer, even where the backward function itself does not read them.

    The pass is separate from differentiation because layers of one kind may differ in recomputation; layers with
    equal settings share a backward function.

    ```mlir
    %y, %h = kerf.call @layer(%x, %w) : ...
    %dx = kerf.call @layer_backward(%h, %w, %dy) {kerf.backward, kerf.recompute = "full"} : ...
    ```
    becomes
    ```mlir
    %y = kerf.call @layer(%x, %w) : ...
    %dx = kerf.call @layer_backward_full(%w, %dy, %x) {kerf.backward} : ...
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def OffloadActivations : Pass<"kerf-offload-activations", "::mlir::ModuleOp"> {
  let summary = "Keeps saved activations in host memory until the backward pass needs them";
  let description = [{
    Before the pass, the activations that the forward pass saves for a layer's backward pass stay in device memory.
    After the pass, they are copied to host memory as soon as they are computed, and a backward call with the
    attribute `kerf.offload` gets copies that are fetched back immediately before the call. The runtime starts the
    copies early enough that they overlap with the computation of other layers. A value that is also read by a
    backward op without `kerf.offload` stays in device memory.

    ```mlir
    %y, %h = kerf.call @layer(%x, %w) : ...
    %dx = kerf.call @layer_backward(%h, %w, %dy) {kerf.backward, kerf.offload} : ...
    ```
    becomes
    ```mlir
    %y, %h = kerf.call @layer(%x, %w) : ...
    %p = kerf.offload %h {stream = "offload"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
    %copy = kerf.wait %p : ...
    %f = kerf.prefetch %copy {kerf.backward, stream = "prefetch"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
    %back = kerf.wait %f {kerf.backward} : ...
    %dx = kerf.call @layer_backward(%back, %w, %dy) {kerf.backward} : ...
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect"];
}

def SplitBackward : Pass<"kerf-split-backward", "::mlir::ModuleOp"> {
  let summary = "Splits a layer's backward function into one for the gradients of inputs and one for those of parameters";
  let description = [{
    Before the pass, one call computes all gradients of a layer. After the pass, @layer_backward_input computes the
    gradients that other ops wait for. @layer_backward_weights computes, from values that the first function returns,
    the gradients that are only summed over microbatches (`kerf.accumulate`). Zero-bubble pipeline schedules run the
    second function when a stage would otherwise be idle.

    ```mlir
    %dx, %dw = kerf.call @layer_backward(%h, %w, %dy) {kerf.backward} : ...
    ```
    becomes
    ```mlir
    %dx, %c = kerf.call @layer_backward_input(%w, %dy) {kerf.backward} : ...
    %dw = kerf.call @layer_backward_weights(%h, %c) {kerf.backward} : ...
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def AssignTasks : Pass<"kerf-assign-tasks", "::mlir::ModuleOp"> {
  let summary = "Assigns each op of the step to a phase, pipeline stage and chunk";
  let description = [{
    The pass runs where the mesh has an axis "microbatch" or "stage" (docs/pipelines.md). Before the pass, @main is
    one step in program order, written for one microbatch; calls of layers may carry their pipeline part (`kerf.part`:
    chunk c of stage s is part c * stages + s). After the pass, every op of @main has `kerf.task`: its phase, stage
    and chunk.

    * Ops that depend on the microbatch have the phase *forward* or *backward*. Ops before all layers belong to the
      first part, ops after all layers to the last one, and ops between layers to the part that their operands come
      from. The op of a gradient belongs to the part of the forward op that it differentiates.
    * Ops that depend on sums over microbatches (`kerf.accumulate`) have the phase *update*, on the stage of their
      largest operand.
    * Ops that depend on neither have the phase *prepare*: they run once for each step, on each stage that needs them.
      Ops that depend on inputs alone run in each part that needs them.
    * A parameter resides on the first stage that uses it, together with its optimizer states (`kerf.stage` on
      arguments and results). A value that one stage needs from another one becomes a `kerf.transfer`: activations and
      their gradients, values that skip stages, and parameters that two stages share.

    A gradient to which two stages contribute is summed over microbatches on each stage before the two sums are added.
    An op that needs a sum over the batch before the last microbatch is done (statistics of a batch) is an error. With
    `split-backward`, the phases *input_gradient* and *weight_gradient* (ops that lead to sums over microbatches only)
    replace *backward*.

    ```mlir
    kerf.mesh @mesh #kerf.mesh<"stage"=2, "microbatch"=4>
    %1 = kerf.call @layer(%0, %w0) {kerf.part = 0 : i64} : ...
    %2 = kerf.call @layer(%1, %w1) {kerf.part = 1 : i64} : ...
    ```
    becomes
    ```mlir
    %1 = kerf.call @layer(%0, %w0) {kerf.task = {chunk = 0 : i64, phase = "forward", stage = 0 : i64}} : ...
    %t = kerf.transfer %1 {from = 0 : i64, to = 1 : i64, kerf.task = {chunk = 0 : i64, phase = "forward", stage = 0 : i64}} : ...
    %2 = kerf.call @layer(%t, %w1) {kerf.task = {chunk = 0 : i64, phase = "forward", stage = 1 : i64}} : ...
    ```
  }];
  let options = [Option<"chunks", "chunks", "int64_t", "1", "number of chunks of layers on each pipeline stage (interleaved schedules have more than 1)">,
                 Option<"splitBackward", "split-backward", "bool", "false", "assign gradients of inputs and gradients of weights to different phases">];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def ExpandMaps : Pass<"kerf-expand-maps", "::mlir::ModuleOp"> {
  let summary = "Replaces each kerf.map by the ops of its body";
  let description = [{
    Before the pass, one `kerf.map` stands for a formula on elements. After the pass, the ops of its body stand in its
    place, applied to the map's operands (tensors instead of scalars) and with the map's attributes. A scalar operand
    is broadcast where an op combines it with a tensor. The pass is separate from `kerf-fuse-pointwise`, which fuses
    these ops with their neighbours.
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect"];
}

def PutChannelsLast : Pass<"kerf-put-channels-last", "::mlir::ModuleOp"> {
  let summary = "Puts the channels of 16-bit convolutions last in memory, as the tensor cores of GPUs want them";
  let description = [{
    Before the pass, the channels of images are dimension 1, and cuDNN transposes the operand and the result of each
    16-bit convolution on its own. After the pass, they are the last dimension wherever this moves fewer bytes:

    * Convolutions get the attribute `channels_last`, and kernels are transposed before they are read. Gradients of
      kernels are transposed back.
    * Pointwise ops, broadcasts, reductions, pooling, slices, pads, concatenations and calls of layers compute on what
      they get, so that transposes stand only where tensors enter or leave such ops. A transpose that meets another
      one becomes one with it, or vanishes.
    * Connected ops decide together. They save the bytes of operands and results of 16-bit convolutions, except of
      those with one channel in each group, and pay the bytes of the transposes at their borders.

    The pass runs for GPUs only. It stands apart from `kerf-fuse-pointwise`, which fuses the ops in their new layout.

    ```mlir
    %y = kerf.convolution %x, %k ... : (tensor<8x16x32x32xbf16>, tensor<24x16x3x3xbf16>) -> tensor<8x24x32x32xbf16>
    ```
    becomes
    ```mlir
    %k1 = kerf.transpose %k {permutation = array<i64: 0, 2, 3, 1>} : (tensor<24x16x3x3xbf16>) -> tensor<24x3x3x16xbf16>
    %y = kerf.convolution %x, %k1 {channels_last, ...} : (tensor<8x32x32x16xbf16>, tensor<24x3x3x16xbf16>) -> tensor<8x32x32x24xbf16>
    ```
  }];
  let options = [Option<"anyType", "any-type", "bool", "false", "count convolutions of all types, not only 16-bit ones">];
  let dependentDialects = ["::kerf::ir::KerfDialect"];
}

def RecomputeWidened : Pass<"kerf-recompute-widened", "::mlir::ModuleOp"> {
  let summary = "Computes large tensors again where they are read, from narrower ones";
  let description = [{
    Before the pass, each op computes its result once, and the result is stored for all ops that read it. After the
    pass, a large tensor that up to 8 pointwise ops compute from narrower tensors is computed again by each op that can
    become one kernel with them, so that it need not be stored. An example is the difference between 16-bit
    activations and their mean in batch normalization, which is in f32.

    * The tensors of its shape that the ops read have at most as many bytes as the tensor, and fewer where it is stored
      all the same. Other operands are broadcast from at most an eighth of the elements. No op calls a math routine.
    * A layer's function returns the narrower tensors instead of the wide one, and a function that all calls give such a
      tensor takes them instead of it. So activations that are saved for the backward pass need less memory.
    * A sum of two tensors that one function returns and one kernel of another function reads is computed by this kernel,
      so that it is not stored. An example is the gradient that a residual block passes to the block before it.
    * A tensor that one op reads is computed right before this op if it can become one kernel with it, so that the
      narrower tensors are kept until then.
    * Tensors that are widened to f32 and then sliced, negated and concatenated, as in rotary embeddings, are widened
      after the concatenation.

    Results have the same bits, because the same ops run on the same values. The pass runs for GPUs, before
    `kerf-fuse-pointwise`.

    ```mlir
    %wide = kerf.convert %x : (tensor<256x64xbf16>) -> tensor<256x64xf32>
    %sum = kerf.reduce %wide ...
    %y = kerf.multiply %wide, %wide ...
    ```
    becomes
    ```mlir
    %wide = kerf.convert %x : (tensor<256x64xbf16>) -> tensor<256x64xf32>
    %sum = kerf.reduce %wide ...
    %again = kerf.convert %x : (tensor<256x64xbf16>) -> tensor<256x64xf32>
    %y = kerf.multiply %again, %again ...
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def FuseRows : Pass<"kerf-fuse-rows", "::mlir::ModuleOp"> {
  let summary = "Fuses the ops of codecs over the rows of a matrix into kernels";
  let description = [{
    A codec reads a block of a gradient several times: for its largest element, for the codes, for the error that the
    codes leave. Before the pass, each of these is an op or a kernel that reads the whole gradient from memory. After
    the pass, the ops over the blocks of one gradient are a function with the attribute `kerf.kernel`, in which an op
    may read a reduction of the same row and elements are packed into bytes. Each row then passes through the
    first-level cache once (docs/native.md). The kernel includes additions to the gradient before it is encoded, and the
    sum of the payloads of several ranks.

    * The ops work on a matrix of R x C elements, where C is a multiple of 16 and at most 4,096: pointwise ops without
      math routines on R x C, on R x W (W below C) or on R elements, reductions of f32 rows, broadcasts of R elements, of
      one, or of one row, pack and unpack, and what sparse codecs need: slice, top_k, take_along, take_along_backward and
      conversions of places to 16 bits and back. They have the same `kerf.task`.
    * A kernel is made in three cases: elements are packed or unpacked; an op makes codes of one byte and another one reads
      a reduction of the kernel or looks up elements of rows; or elements are looked up at places that are sent in 16 bits
      or that are the same for all rows. All other ops are left to `kerf-fuse-pointwise`.
    * As in `kerf-fuse-pointwise`, no op outside of the kernel reads a value of the kernel before the kernel's end, and
      moving ops to the kernel's end keeps no more memory alive than fusion saves.

    ```mlir
    %1 = kerf.reduce %0 {kind = #kerf<reduce_kind max>, dimensions = array<i64: 1>} : (tensor<8x64xf32>) -> tensor<8xf32>
    %2 = kerf.broadcast_in_dim %1 {broadcast_dimensions = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x64xf32>
    %3 = kerf.divide %0, %2 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    %4 = kerf.convert %3 : (tensor<8x64xf32>) -> tensor<8x64xi8>
    ```
    becomes
    ```mlir
    %4 = kerf.call @fused_reduce_broadcast_in_dim_divide_and_1_more(%0) : (tensor<8x64xf32>) -> tensor<8x64xi8>
    ```
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def FusePointwise : Pass<"kerf-fuse-pointwise", "::mlir::ModuleOp"> {
  let summary = "Fuses chains of pointwise ops into kernels";
  let description = [{
    Before the pass, every op reads its operands from memory and writes its result to memory. After the pass,
    pointwise ops that feed each other form a function with the attribute `kerf.kernel`, which is called where the
    last of these ops stood and makes one pass over the memory that it reads and writes (docs/native.md). Broadcasts
    of operands become part of the kernel where the rows of the broadcast are long enough. A reduction at the end of a
    chain becomes part of the kernel, so that a value that is only reduced is never stored. Equal chains are calls of
    one function. A single op on 16-bit floats becomes a kernel too.

    * The ops of a kernel have one shape, floating-point types or i1, and the same `kerf.task` (phase, pipeline stage
      and chunk). All its reductions are over the same dimensions and leave rows that are long enough.
    * A kernel with a reduction that calls math routines (exp, tanh, GELU and others) stores nothing but the results of
      its reductions. A kernel that reduces to less than 64 numbers neither calls math routines nor stores other
      results. The reasons are in docs/native.md.
    * No op outside of the chain reads a value of the chain before the chain's end. Where other ops stand between the
      ops of the chain, moving the chain to its end does not keep more memory alive than fusion saves.
    * A chain that reads no result of the ops before it, such as a product, moves up to the chain that it reads from, if
      the values that then need not be stored have at least as many bytes as its results, and no reduction reads these.
      So the gradients of both factors of SwiGLU are one kernel, although a product reads the first one at once.
    * With `leave-biases`, as for GPUs, the bias of a product is a kernel of its own, except where another tensor is
      added or GELU (its form with tanh) is applied to the sum: the GPU's library adds such a bias while it stores the
      product, and the kernel that reads the sum has one tensor less to store.

    ```mlir
    %1 = kerf.broadcast_in_dim %bias {broadcast_dimensions = array<i64: 1>} : (tensor<64xf32>) -> tensor<8x64xf32>
    %2 = kerf.add %0, %1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    %3 = kerf.gelu %2 : (tensor<8x64xf32>) -> tensor<8x64xf32>
    ```
    becomes
    ```mlir
    %3 = kerf.call @fused_add_gelu(%0, %bias) : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
    ```
  }];
  let options = [
    Option<"leaveBiases", "leave-biases", "bool", "false", "biases of products are kernels of their own">,
  ];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

#endif
