// SPDX-License-Identifier: Apache-2.0
// The passes, in the order in which a model flows through them.
#ifndef KERF_TRANSFORMS_PASSES_TD
#define KERF_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def RecognizeComposites : Pass<"kerf-recognize-composites", "::mlir::ModuleOp"> {
  let summary = "Finds gelu, layer_norm, rms_norm and attention in the ops that exporters write for them";
  let description = [{
    Before, a normalization or an attention is implicit in a dozen ops, S x T scores among them. After, it is one composite, with a
    kernel, a backward form and a sharding rule of its own. The same values, up to rounding: a model trained without this pass has the
    same losses.

    Matched by what is computed, not by names or op order: GELU as a polynomial in x and its tanh (or erf); the norms with x * x or
    power, mean by multiply or divide, rsqrt or 1 / sqrt; attention with the scale on the scores or on query and key, the keys
    transposed in any way, additive or selecting masks, the NaN guard of `scaled_dot_product_attention`, and the repeated keys and values
    of grouped queries. A mask that the IR shows to hide exactly the later keys (iota, compare) becomes `causal`; another one stays an
    operand. Attention is [B, S, H, D]: transposes are put around it, and cancel with the exporter's.

    So are softmax and the losses that are written by hand: with z = log_softmax(x), written in any way and moved by reshapes, transposes and
    slices, `take_along` of z at the labels, the sum of z over a one-hot mask, and logsumexp(x) less `take_along` of x are the
    `cross_entropy` of x, which keeps one number for each row instead of z and its mask. Masks and means around it are ops on rows.

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
    Apart from `kerf-fold-reshapes`: this one finds meaning, that one moves shapes.
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def FoldReshapes : Pass<"kerf-fold-reshapes", "::mlir::ModuleOp"> {
  let summary = "Keeps batch, sequence and head dimensions apart at every op, with parameters viewed to match";
  let description = [{
    Before, a dimension that should be cut is implicit: part of a merged one (8 x 32 samples as 256 rows, 4 heads of 16 as 64 columns).
    A cut of the merged dimension that does not fall on a border of the parts can't be carried through the reshape. After, each is a
    dimension of its own wherever possible; a reshape remains where ops really need another shape.

    * Merging reshapes sink below elementwise ops, products, reductions, cross_entropy and embedding; splitting ones rise above them;
      they cancel where they meet.
    * A split that rises to a parameter makes it a *view*: the argument's type changes, `kerf.exported_shape` keeps the exporter's.
    * A product that contracts a merged dimension contracts its parts; its parameter is viewed the same way.
    * Equal slices of a fused projection (3 x 64 columns) become slices of a dimension of size 3.
    * Transposes fold into a product's dimension numbers, cancel with each other, and rise through elementwise ops where they cancel above.

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
    Runs before outlining: a layer's parameters are still arguments of @main.
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def OutlineLayers : Pass<"kerf-outline-layers", "::mlir::ModuleOp"> {
  let summary = "Makes one function of each repeated layer, called once per layer";
  let description = [{
    Before, that a model is N equal layers is implicit in its op sequence. After, each distinct layer is one private function and
    every instance a `kerf.call` at the layer's module scope: what comes later costs what the distinct layers cost.

    Found by structure, not by names: ops, attributes and types repeat with a period, and an operand comes from the same place of
    its own segment or from outside in every segment. What comes from outside becomes an argument of the call: the residual stream,
    the layer's parameters, what all layers share. Constants, and ops that depend on no parameter but differ between layers, are
    cloned into the function. Of the rotations of a repeat, the one with the fewest values crossing from segment to segment is
    taken; ties go to the one that module scopes agree with. Runs before differentiation: one layer has one gradient.

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
  let summary = "Cuts the forward pass into parts of a pipeline at ops that are named";
  let description = [{
    Before, @main is the forward pass: calls of layers, and ops around them. After, each part of the pipeline is a run of calls (and
    what stands before the first call and behind the last one), and each call says its part (`kerf.part`).

    The pattern `until` of a part (the name of an op, as plans and reports have it, with a layer's own number) names the ops that the
    part ends with. It holds them, and of what they need all that no part before it holds; the last part holds the rest. So a value may
    skip parts, and a branch that the cut ops do not need is in a later part whatever its place in the file. What depends on inputs alone
    is made by each part that needs it.

    A layer that a cut goes through is replaced by a function for each part that has some of it, at the layer's module scope; what
    stands outside of layers, where its place does not tell its part, by functions too. Runs before differentiation, so that each piece
    has a backward function of its own, and is recomputed, planned and priced as a layer.

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
  let options = [ListOption<"until", "until", "std::string", "what each part but the last ends with, in order">];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def SeparateLayers : Pass<"kerf-separate-layers", "::mlir::ModuleOp"> {
  let summary = "Gives layers that a plan treats otherwise functions of their own";
  let description = [{
    Before, all layers of a kind share one function, so that they share one strategy. After, each layer for which the patterns of a
    plan's ops mean other ops than for most layers of its kind has a copy of the function, whose ops have the layer's own names. A call
    that stands for several layers (`kerf.repeat`), which are not treated alike, becomes a call for each. Where no pattern tells
    layers of a kind apart, nothing changes. Runs before differentiation, so that the copy has a backward function of its own.

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
    ListOption<"patterns", "patterns", "std::string", "the names of ops that a plan decides, as globs">,
    Option<"ofAllOps", "of-all-ops", "bool", "false", "the patterns are the whole names of all ops, as a plan that was found has them">];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def MixedPrecision : Pass<"kerf-mixed-precision", "::mlir::ModuleOp"> {
  let summary = "Computes in 16 bits on f32 parameters";
  let description = [{
    Before, every floating value is f32. After, the loss is computed in bf16 or f16 where that is safe:

    * Parameters stay f32 arguments. Where 16-bit ops use one it is converted, once a function.
    * Products, attention, token dispatch and what is elementwise compute in 16 bits. Looked-up rows are converted when they have been picked.
    * Kernels of attention, softmax, norms and cross_entropy compute in f32 inside. Their statistics and log-sum-exp are f32 results; norms read scale
      and bias, attention its mask as they are.
    * f32 are: sums (`reduce`), exponential, log, square roots and powers that were not recognized as part of a composite, what cross_entropy gives, what
      comes from integers or from a floating input, and what is elementwise on one of these; so the way from the logits to the loss. A product makes 16
      bits of it again. Other ops are f32.

    Gradients follow by themselves: that of a parameter is converted to f32 at the parameter, and canonicalization lets the products and sums before that
    give f32 at once, so that ranks and microbatches are added up in f32.

    With `loss-scale` @main has one argument more, "grad_scaler/scale" (kind "state" or, for `static`, "constant"): kerf-differentiate begins with it
    instead of 1, kerf-add-optimizer divides the gradients by it. Apart from import, which reads a model in one type; before differentiation, so that no
    gradient has to be told.

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
    Option<"dtype", "dtype", "std::string", "\"bf16\"", "bf16 or f16">,
    Option<"lossScale", "loss-scale", "std::string", "\"none\"", "none, dynamic or static">,
  ];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def Differentiate : Pass<"kerf-differentiate", "::mlir::ModuleOp"> {
  let summary = "Reverse-mode gradients of the loss for every trainable parameter";
  let description = [{
    Before, @main returns the loss (its first result; others are dropped). After, it returns the loss and, in argument order, the
    gradient of each argument marked `kerf.trainable`, named "gradient/NAME". Only ops between trainable parameters and the loss
    get a backward form (activity analysis); each op tells its own (GradientOpInterface). New ops have the location of their forward
    op and `kerf.backward`. Where a value has several users, its gradients are added, last user first.

    A called function is differentiated once, for the union of what its calls need: @layer returns in addition what the backward
    form uses (but what an argument, a constant or a broadcast gives again is not kept), @layer_backward takes these, the
    arguments and the results' gradients, and gives the arguments' gradients.

    The loss's own gradient is 1, or the argument "grad_scaler/scale" where @main has one (`kerf-mixed-precision`).

    A trainable parameter that the loss does not depend on loses the mark, with a warning. An op without a gradient in the way is an
    error. Apart from the optimizer: gradients are the same for all of them.

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
  let summary = "Makes one training step of the loss and its gradients";
  let description = [{
    Before, @main gives gradients. After, it is the step: arguments as before, then the optimizer's states (kind "state", named STATE/NAME, as
    "exp_avg/w"; they start as zeros), the learning rate and the number of the step (from 0); results are the loss, the new parameters, the new states
    and new buffers. `kerf.updated_by` on a parameter, state or buffer is the index of the result that replaces it.

    The update of a parameter is what the optimizer's rule says (kerf/Transforms/OptimizerRecord.h): `kerf.map`s, and reductions and products between
    them, all with `kerf.update = NAME`. What all parameters share, such as corrections by the number of the step, are scalars computed once, in f64.
    16-bit parameters are updated in f32.

    Each gradient passes one `kerf.sync_gradient`, as soon as it is complete: how it is summed over ranks is decided later. Clipping scales all
    gradients by min(1, clip-norm / (norm + 1e-6)) of their global norm (torch.nn.utils.clip_grad_norm_); squares of 16-bit
    gradients are summed in f32. `gradient-norms` adds results "gradient_norm_squared/NAME", of gradients before clipping. With `reduce-type` a gradient
    is converted to that type before its `kerf.sync_gradient` and back behind it.

    Where @main has the argument "grad_scaler/scale" (`kerf-mixed-precision`), gradients are divided by it as soon as they are whole, and a step in which
    one of them has an element that is not finite changes nothing: every update selects the old values, on every rank alike, since the counts of such elements
    are summed like any other sum. A scale of kind "state" is then halved, and doubled after `loss-scale-window` steps in a row without such an element
    ("grad_scaler/growth_tracker" counts them): torch.amp.GradScaler. The number of the update is then "grad_scaler/updates", the steps that were not
    skipped.

    A step of N batches (OptimizerOptions::accumulate) adds each batch's gradient to a state "accumulated_gradient/NAME", and updates from its Nth part;
    the module's attribute `kerf.accumulate` is N, and "step" counts batches. A parameter of a group with a learning rate of its own has that times
    "learning_rate_factor", a second argument of kind "learning_rate", which is what the schedule multiplies learning rates by.

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
    Option<"optimizer", "optimizer", "std::string", "\"sgd\"", "an optimizer's name (kerf train --help lists them)">,
    ListOption<"settings", "settings", "std::string", "NAME=VALUE: settings of the optimizer, such as momentum=0.9">,
    ListOption<"noDecay", "no-decay", "std::string", "globs of parameter names without weight decay">,
    Option<"clipNorm", "clip-norm", "double", "0.0", "largest global norm of the gradients; 0: no clipping">,
    Option<"gradientNorms", "gradient-norms", "bool", "false", "also return each gradient's squared norm">,
    Option<"reduceType", "reduce-type", "std::string", "\"\"", "bf16 or f16: gradients are summed over ranks in it; by default in their own">,
    Option<"lossScaleWindow", "loss-scale-window", "int64_t", "2000", "steps in a row without overflow after which the loss scale doubles">,
  ];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def DecomposeComposites : Pass<"kerf-decompose-composites", "::mlir::ModuleOp"> {
  let summary = "Puts simpler ops in place of composites whose strategy asks for it";
  let description = [{
    Before, that a softmax over a cut dimension needs two small all-reduces is implicit in its sharding rule (a *Decomposed* factor).
    After, the reductions are ops of their own, whose partial results are resharded like any other. The new ops have the composite's
    location and `kerf.backward`, but no strategy: what plans the composite plans them.

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
    Apart from recognition, whose inverse it is for chosen ops only: the search decides between them.
  }];
  let options = [Option<"all", "all", "bool", "false", "every composite, whatever its strategy">];
  let dependentDialects = ["::kerf::ir::KerfDialect"];
}

def InsertReshards : Pass<"kerf-insert-reshards", "::mlir::ModuleOp"> {
  let summary = "Makes every change of sharding an op of its own";
  let description = [{
    Before, a plan says how each op cuts its work (`kerf.strategy`) and how arguments lie (`kerf.sharding`); that a producer leaves a
    value otherwise than a user needs it is implicit. After, each op's operands lie as its strategy asks: `kerf.reshard` ops stand
    between, one per value and form, made from the nearest form that is there already. Partial sums stay partial until a user can't
    take them. Composites whose reduced dimension is cut (cross_entropy over split classes) are decomposed first. `sync_gradient` is told
    what it gets and what it leaves, and stays abstract.

    An op without a strategy follows its operands: it takes the strategy that moves the fewest bytes, and of these the one that cuts
    most; what depends on nothing cut (iota, a broadcast) is made as its users need it. Hand-annotated IR needs no more than the
    strategies that matter.

    Apart from partitioning: what moves can be read, counted and changed here, before it is collectives.

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
  let summary = "Makes the program of one rank: local shapes and collectives";
  let description = [{
    Before, tensors are whole and shardings are attributes. After, every tensor has its local shape, a reshard is the cheapest sequence
    of collectives (on the `kerf` tool's cluster; by bytes received where there is none), started and awaited, and the rank is a value in
    the program: one program serves all, and its size does not depend on how many they are. Dimensions that do not divide are padded;
    `kerf.mask_padding` puts a neutral element there before an op that reduces over them.

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
  let summary = "Lets products and the collectives before and after them take turns, piece by piece";
  let description = [{
    Before, a product waits for the gather of its operand, and the sum of its result over ranks waits for all of it. After, both go in up to
    4 pieces along a dimension of the result that the collective does not cut: what one piece communicates runs beside the product of
    another. Rows of a product and elements of a sum are the same bits however many others there are.

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

def ScheduleCollectives : Pass<"kerf-schedule-collectives", "::mlir::ModuleOp"> {
  let summary = "Starts gradient collectives as early and waits as late as the program allows";
  let description = [{
    Before, every collective is awaited where it is started. After, a gradient's collective starts when the gradient is there and is
    awaited when the optimizer needs it, so that it runs beside the rest of backward on its own stream. With `all` every collective
    does: the sum of an input's gradient, say, beside the product of the weight's.
  }];
  let options = [Option<"all", "all", "bool", "false", "collectives of activations start early, too">];
}

def Recompute : Pass<"kerf-recompute", "::mlir::ModuleOp"> {
  let summary = "Makes values of a layer again in its backward pass instead of keeping them";
  let description = [{
    Before, a layer's forward function hands everything that its backward one uses from one to the other. After, a call of a backward function
    with `kerf.recompute` gets the layer's arguments instead and computes again what it needs: all of it ("full"), or what the core of
    attention made ("selective": attention, softmax). The same ops on the same values, collectives included: the same bits.
    What an op of the layer with `kerf.recompute = true` made is computed again in any layer, what one with `kerf.recompute = false` made in
    none: it is handed over, also where the backward function itself does not need it.

    Apart from differentiation: layers of one kind may differ in it, and one backward function serves all that don't.

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
  let summary = "Keeps in the host's memory what layers keep for their backward pass";
  let description = [{
    Before, what the forward pass leaves for a layer's backward one stays on the device. After, a backward call with `kerf.offload` gets copies
    that were made in the host's memory as soon as the values were there, and fetched again right before the call; the runtime moves
    both apart, so that they run beside other layers. Values that a backward op without `kerf.offload` reads as well stay.

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
  let summary = "Makes two of a layer's backward function: gradients of its inputs, and of its parameters";
  let description = [{
    Before, one call gives all gradients of a layer. After, @layer_backward_input gives those that other ops wait for, and
    @layer_backward_weights, from what the first one hands it, those that are only summed over microbatches (`kerf.accumulate`). Zero-bubble
    schedules run the second when there is nothing else to do.

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
  let summary = "Says when and on which stage each op of the step runs";
  let description = [{
    Runs where the mesh has an axis "microbatch" or "stage" (docs/pipelines.md). Before, @main is one step in sequence, told for one
    microbatch; layers may say their part of the pipeline (`kerf.part`: chunk c of stage s is part c * stages + s). After, every op of
    @main has `kerf.task`: its phase, stage and chunk.

    * What depends on the microbatch is *forward* or *backward*. What stands before all layers belongs to the
      first part, what stands behind them to the last one, what stands between to the part that its operands come from; a gradient to the part of
      the op that it is of.
    * What depends on sums over microbatches (`kerf.accumulate`) is *update*, on the stage of its largest operand.
    * What depends on neither is *prepare*, once a step, on each stage that needs it. What depends on inputs alone is made by each part that
      needs it.
    * A parameter lives on the first stage that uses it, its states beside it (`kerf.stage` on arguments and results). What a stage needs from another one
      is a `kerf.transfer`: activations and their gradients, values that skip stages, parameters that two stages share.

    A gradient to which two stages contribute is summed over microbatches on each before the two are added. An op that needs a sum over the batch
    before the last microbatch is done (statistics of a batch) is an error. With `split-backward`, *input_gradient* and *weight_gradient* (what leads
    to sums only) stand for *backward*.

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
  let options = [Option<"chunks", "chunks", "int64_t", "1", "parts of each stage">,
                 Option<"splitBackward", "split-backward", "bool", "false", "tell gradients of inputs and of weights apart">];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

def ExpandMaps : Pass<"kerf-expand-maps", "::mlir::ModuleOp"> {
  let summary = "Puts the ops of its body in place of each map";
  let description = [{
    Before, one `kerf.map` stands for a formula. After, the ops of its body stand in its place, on the map's operands and with its
    attributes. Scalars are broadcast where an op has a tensor beside them.
  }];
  let dependentDialects = ["::kerf::ir::KerfDialect"];
}

def FusePointwise : Pass<"kerf-fuse-pointwise", "::mlir::ModuleOp"> {
  let summary = "Makes kernels of chains of pointwise ops";
  let description = [{
    Before, every op is a pass over its tensors in memory. After, ops that feed each other are functions with `kerf.kernel`, called where the
    last of the ops stood: one pass over what they read and give (docs/native.md). Broadcasts of what they read are part of them, where rows of
    the broadcast are long enough. Reductions that end a chain are part of it: what is only reduced is stored nowhere. Equal chains are calls of
    one function. An op of 16-bit floats is a kernel by itself too.

    * The ops are of one shape, of floating types and i1, and of one task. Reductions are over the same dimensions, and leave rows long enough.
    * Nothing is reduced beside stored results where routines are called, nor routines' values into few numbers (docs/native.md).
    * Nobody else may read a value of the chain before the chain's end; beside other work in between, waiting for the end must not hold more
      memory than is no longer stored.

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
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

#endif
