// SPDX-License-Identifier: Apache-2.0
// Ops that slide a window over a tensor: convolutions and pooling. Samples and channels may be sharded, the dimensions
// that the window slides along may not.
#ifndef KERF_WINDOW_TD
#define KERF_WINDOW_TD
include "kerf/Dialect/Kerf/KerfBase.td"

class Kerf_WindowOp<string opMnemonic, list<Trait> traits = []> : Kerf_GlobalOp<opMnemonic, !listconcat([
    DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass"]>], traits)> { let hasVerifier = 1; }

/// One of the three products of a convolution. The operand, the kernel and the result of a convolution take part in
/// each; two of them are given and the third is computed.
class Kerf_ConvolutionClass<string opMnemonic, list<Trait> traits = []> : Kerf_WindowOp<opMnemonic,
    !listconcat([Kerf_In16Bits<"Half">, DeclareOpInterfaceMethods<WorkOpInterface, ["describe"]>], traits)> {
  dag window = (ins DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                    UnitAttr:$channels_last);
}

def Kerf_ConvolutionOp : Kerf_ConvolutionClass<"convolution", [DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Convolution of samples with a kernel";
  let description = [{
    y[n, o, t..] = sum over c, w.. of x[n, first + c, t * stride + w * dilation - low, ..] * kernel[o, c, w..], where
    x is 0 outside of its bounds. `low` and `high` are the numbers of zeros before and after each spatial dimension (a
    dimension that the kernel slides along). The kernel's second dimension counts the channels c of one group, so the
    number of groups is the operand's channels divided by the kernel's. Output channel o belongs to group o / (output
    channels / groups), and `first` is the first channel of this group.
    Rule: `([n, gc, s], [go, c, w]) -> ([n, go, t])  c: reduction(sum)`; s, w and t may not be sharded. Without groups there
    is no factor g.
    * Operand, kernel and result have one rank, at least 3. Element types agree.
    * The attributes have an entry for each spatial dimension. Strides and dilations are at least 1, low and high at
      least 0.
    * The kernel has at least one channel, its channels divide those of the operand, and the number of groups divides
      the result's channels.
    * The padded operand is at least as large as the dilated kernel, and t = (low + s + high - (w - 1) * dilation - 1)
      / stride + 1.
    * With `channels_last`, the second dimension of each of the three tensors is its last one instead: x[n, s.., c],
      kernel[o, w.., c] and y[n, t.., o].

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
  let summary = "Transposed convolution: the gradient of a convolution with respect to its operand";
  let description = [{
    x[n, first + c, t * stride + w * dilation - low, ..] += y[n, o, t..] * kernel[o, c, w..], starting from x = 0.
    This is also ONNX's ConvTranspose. Contributions to the padding are dropped.
    Rule: `([n, go, t], [go, c, w]) -> ([n, gc, s])  o: reduction(sum)`; s, w and t may not be sharded.
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
  let summary = "Gradient of a convolution with respect to its kernel";
  let description = [{
    kernel[o, c, w..] = sum over n, t.. of x[n, first + c, t * stride + w * dilation - low, ..] * dy[n, o, t..].
    Rule: `([n, gc, s], [n, go, t]) -> ([go, c, w])  n: reduction(sum)`; s, w and t may not be sharded.
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
  let summary = "Sum, maximum or minimum over a sliding window (pooling)";
  let description = [{
    y[t..] combines, by `kind`, the elements x[t * stride + w * dilation - low, ..] for all w within `window`. The
    padding holds the neutral element of `kind`. Rule: a dimension with a window of 1, stride 1 and no padding may be
    sharded, no other one.
    * The attributes have an entry for each dimension. Window, strides and dilations are at least 1, low and high at
      least 0.
    * Element types agree. The result's shape follows as in `convolution`.

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
  let summary = "Gradient of a sliding maximum or minimum with respect to its operand";
  let description = [{
    dx = 0; each window of a `reduce_window` with this `kind` and these attributes adds its gradient to the first
    element, in row-major order, that attains the window's extremum. Rule: the same as that of `reduce_window`.
    * `kind` is max or min. The attributes and shapes are those of a `reduce_window` whose result has the gradient's
      shape. The result has the operand's shape.

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
