// SPDX-License-Identifier: Apache-2.0
// The passes, in the order in which a model flows through them.
#ifndef KERF_TRANSFORMS_PASSES_TD
#define KERF_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

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
    Before, @main gives gradients. After, it is the step: arguments as before, then the optimizer's states (kind "state", named
    "momentum/NAME", or "exp_avg/NAME" and "exp_avg_sq/NAME"; they start as zeros), the learning rate and the number of the step
    (from 0); results are the loss, the new parameters and the new states. `kerf.updated_by` on a parameter or state is the index
    of the result that replaces it. SGD without momentum has no state.

    Each gradient passes one `kerf.sync_gradient` first: where and how it is summed over ranks is decided later. Clipping scales all
    gradients by min(1, clip-norm / (norm + 1e-6)) of their global norm (torch.nn.utils.clip_grad_norm_); squares of 16-bit
    gradients are summed in f32. `gradient-norms` adds results "gradient_norm_squared/NAME", of gradients before clipping.

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
      %w1, %v1 = kerf.sgd %w, %v, %s, %lr {momentum = 0.9 : f64, weight_decay = 0.0 : f64} : ...
    ```
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"sgd\"", "sgd or adamw">,
    Option<"momentum", "momentum", "double", "0.0", "sgd: share of the last velocity that is kept">,
    Option<"beta1", "beta1", "double", "0.9", "adamw: decay of the gradient's mean">,
    Option<"beta2", "beta2", "double", "0.999", "adamw: decay of the mean of its square">,
    Option<"eps", "eps", "double", "1e-8", "adamw: added to the square root">,
    Option<"weightDecay", "weight-decay", "double", "0.0", "share of the parameter, per unit of learning rate">,
    ListOption<"noDecay", "no-decay", "std::string", "globs of parameter names without weight decay">,
    Option<"clipNorm", "clip-norm", "double", "0.0", "largest global norm of the gradients; 0: no clipping">,
    Option<"gradientNorms", "gradient-norms", "bool", "false", "also return each gradient's squared norm">,
  ];
  let dependentDialects = ["::kerf::ir::KerfDialect", "::mlir::func::FuncDialect"];
}

#endif
