// SPDX-License-Identifier: Apache-2.0
// Ops that slide a window over a tensor: convolutions and pools. Samples and channels may be cut, what the window moves along may not.
#ifndef KERF_WINDOW_TD
#define KERF_WINDOW_TD
include "kerf/Dialect/Kerf/KerfBase.td"

class Kerf_WindowOp<string opMnemonic, list<Trait> traits = []> : Kerf_GlobalOp<opMnemonic, !listconcat([
    DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass"]>], traits)> { let hasVerifier = 1; }

/// One of the three products of a convolution: of its operand, its kernel and its result two are given, one is made.
class Kerf_ConvolutionClass<string opMnemonic, list<Trait> traits = []> : Kerf_WindowOp<opMnemonic,
    !listconcat([DeclareOpInterfaceMethods<WorkOpInterface, ["describe"]>], traits)> {
  dag window = (ins DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high);
}

def Kerf_ConvolutionOp : Kerf_ConvolutionClass<"convolution", [DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Sums of a tensor's samples weighted by a kernel that slides over them";
  let description = [{
    y[n, o, t..] = sum over c, w.. of x[n, first + c, t * stride + w * dilation - low, ..] * kernel[o, c, w..], where x is 0 outside; `low` and `high` are the zeros
    before and behind each of the dimensions that the kernel moves along. The kernel has one dimension for the channels c of a group: there are as many groups as these go into
    the operand's channels, output channel o belongs to group o / (output channels / groups), and `first` is the group's first channel.
    Rule: `([n, gc, s], [go, c, w]) -> ([n, go, t])  c: reduction(sum)`; s, w and t may not be cut; without groups there is no g.
    * Operand, kernel and result have one rank, at least 3; element types agree.
    * The attributes have an entry for each dimension after the second; strides and dilations are at least 1, low and high at least 0.
    * The kernel has a channel, its channels divide those of the operand, and the groups divide the result's channels.
    * The shapes fit: the padded operand holds the kernel, and t = (low + s + high - (w - 1) * dilation - 1) / stride + 1.

    Example:
    ```mlir
    %y = kerf.convolution %x, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>}
        : (tensor<4x6x8xf32>, tensor<10x3x3xf32>) -> tensor<4x10x4xf32>
    ```
  }];
  let arguments = !con((ins Kerf_FloatTensor:$operand, Kerf_FloatTensor:$kernel), window);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_ConvolutionTransposeOp : Kerf_ConvolutionClass<"convolution_transpose", [DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Transpose of a convolution: what each result takes from its operand goes back there";
  let description = [{
    The gradient of `convolution` for its operand, and ONNX's ConvTranspose: x[n, first + c, t * stride + w * dilation - low, ..] += y[n, o, t..] * kernel[o, c, w..]. What
    falls into the padding is dropped.
    Rule: `([n, go, t], [go, c, w]) -> ([n, gc, s])  o: reduction(sum)`; s, w and t may not be cut.
    * The shapes and attributes are those of a `convolution` with operand and result exchanged.

    Example:
    ```mlir
    %x = kerf.convolution_transpose %y, %k {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>}
        : (tensor<4x10x4xf32>, tensor<10x3x3xf32>) -> tensor<4x6x8xf32>
    ```
  }];
  let arguments = !con((ins Kerf_FloatTensor:$operand, Kerf_FloatTensor:$kernel), window);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_ConvolutionKernelOp : Kerf_ConvolutionClass<"convolution_kernel"> {
  let summary = "Gradient of a convolution for its kernel";
  let description = [{
    kernel[o, c, w..] = sum over n, t.. of x[n, first + c, t * stride + w * dilation - low, ..] * dy[n, o, t..].
    Rule: `([n, gc, s], [n, go, t]) -> ([go, c, w])  n: reduction(sum)`; s, w and t may not be cut.
    * The shapes and attributes are those of a `convolution` whose kernel is the result.

    Example:
    ```mlir
    %dk = kerf.convolution_kernel %x, %dy {strides = array<i64: 2>, dilations = array<i64: 1>, low = array<i64: 1>, high = array<i64: 0>}
        : (tensor<4x6x8xf32>, tensor<4x10x4xf32>) -> tensor<10x3x3xf32>
    ```
  }];
  let arguments = !con((ins Kerf_FloatTensor:$operand, Kerf_FloatTensor:$gradient), window);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_ReduceWindowOp : Kerf_WindowOp<"reduce_window", [DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Sum, maximum or minimum over a window that slides";
  let description = [{
    y[t..] combines, by `kind`, the x[t * stride + w * dilation - low, ..] with w in `window`; padding holds the neutral element.
    Rule: a dimension whose window is 1, with stride 1 and no padding, passes through; others may not be cut.
    * The attributes have an entry for each dimension; window, strides and dilations are at least 1, low and high at least 0.
    * Element types agree; the result's shape follows as in `convolution`.

    Example:
    ```mlir
    %y = kerf.reduce_window %x {kind = #kerf<reduce_kind max>, window = array<i64: 1, 3>, strides = array<i64: 1, 2>,
        dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand, Kerf_ReduceKindAttr:$kind, DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high);
  let results = (outs Kerf_Tensor:$result);
}

def Kerf_SelectAndScatterOp : Kerf_WindowOp<"select_and_scatter"> {
  let summary = "Gradient of a window's maximum or minimum: to the first element that reaches it";
  let description = [{
    dx = 0; of each window of `reduce_window` with this `kind` and these attributes, the first element (in row-major order) that reaches the extremum gets the window's gradient added.
    Rule: as in `reduce_window`.
    * `kind` is max or min; the attributes and shapes are those of a `reduce_window` whose result is the gradient; the result has the operand's shape.

    Example:
    ```mlir
    %dx = kerf.select_and_scatter %x, %dy {kind = #kerf<reduce_kind max>, window = array<i64: 1, 3>, strides = array<i64: 1, 2>,
        dilations = array<i64: 1, 1>, low = array<i64: 0, 1>, high = array<i64: 0, 0>} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, Kerf_FloatTensor:$gradient, Kerf_ReduceKindAttr:$kind, DenseI64ArrayAttr:$window,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high);
  let results = (outs Kerf_FloatTensor:$result);
}

#endif
