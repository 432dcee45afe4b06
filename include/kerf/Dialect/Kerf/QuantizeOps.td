// SPDX-License-Identifier: Apache-2.0
// The conversion of a tensor to 8-bit floats with one scale.
#ifndef KERF_QUANTIZE_OPS_TD
#define KERF_QUANTIZE_OPS_TD
include "kerf/Dialect/Kerf/KerfBase.td"

def Kerf_QuantizeOp : Kerf_GlobalOp<"quantize", [Kerf_SameValue, DeclareOpInterfaceMethods<GradientOpInterface>]> {
  let summary = "Divides a tensor by a scale and rounds it to 8-bit floats";
  let description = [{
    y[i] = x[i] * (largest / magnitude), rounded to the nearest number of the result's format, ties to even, where
    `largest` is the largest finite number of the format: 448 for f8E4M3FN, 57344 for f8E5M2. A number beyond `largest`
    becomes `largest` with its sign. `magnitude` is the largest |x[i]| of the whole tensor; one below 2^-100 counts as
    2^-100. If the magnitude is infinite or NaN, the products of the result are NaN. The products of the
    result (`kerf.dot_general`) multiply by magnitude / largest. All of this is computed in f32.

    The gradient of x is the gradient of the result, as if nothing were rounded. It has the type of x. The gradient of
    the magnitude is 0. Rule: every dimension may be sharded.

    * The magnitude is a scalar with the element type of x.

    Example:
    ```mlir
    %y = kerf.quantize %x, %magnitude : (tensor<4x8xbf16>, tensor<bf16>) -> tensor<4x8xf8E4M3FN>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand, Kerf_FloatTensor:$magnitude);
  let results = (outs Kerf_Float8Tensor:$result);
  let hasVerifier = 1;
}

#endif
