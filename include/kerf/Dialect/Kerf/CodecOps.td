// SPDX-License-Identifier: Apache-2.0
// Ops of which the codecs of compressed gradients are made (docs/compression.md), in addition to ops that models have.
#ifndef KERF_CODEC_OPS_TD
#define KERF_CODEC_OPS_TD
include "kerf/Dialect/Kerf/KerfBase.td"

def Kerf_RandomKeyOp : Kerf_Op<"random_key", [Pure]> {
  let summary = "Key of the random numbers of one tensor in one step";
  let description = [{
    The result is a hash of seed, step, `stream` and position(axes), the rank's coordinate along `axes`. Ranks with
    different positions have different keys; without axes, all ranks have the same key. `stream` distinguishes the
    tensors of a step. The hash is mix(h xor word) for each 32-bit word in turn (the halves of seed, of step, of
    `stream` and of the position, low half first), where mix is that of `kerf.random` and h begins as 0.
    * Seed, step and result are scalars.

    Example:
    ```mlir
    %key = kerf.random_key %seed, %step {stream = 3 : i64, axes = array<i64: 0, 1, 4>} : (tensor<i64>, tensor<i64>) -> tensor<i32>
    ```
  }];
  let arguments = (ins StaticShapeTensorOf<[I64]>:$seed, StaticShapeTensorOf<[I64]>:$step, I64Attr:$stream, DenseI64ArrayAttr:$axes);
  let results = (outs StaticShapeTensorOf<[I32]>:$result);
  let hasVerifier = 1;
}

def Kerf_RandomOp : Kerf_Op<"random", [Pure, Elementwise, SameOperandsAndResultShape, Kerf_CodecWork]> {
  let summary = "Random numbers in [0, 1) that depend on a key and on the element's index alone";
  let description = [{
    y[i] = floor(mix(mix(i + key[i]) xor key[i]) / 2^8) / 2^24, where i is the row-major index of the element, all
    integers are taken modulo 2^32, and mix(x) is the following function:
    x ^= x >> 16; x *= 0x7feb352d; x ^= x >> 15; x *= 0x846ca68b; x ^= x >> 16.
    (lowbias32 of C. Wellons, "Prospecting for Hash Functions", 2018.) Usually one key is broadcast to all elements.

    Example:
    ```mlir
    %u = kerf.random %keys : (tensor<4x256xi32>) -> tensor<4x256xf32>
    ```
  }];
  let arguments = (ins StaticShapeTensorOf<[I32]>:$key);
  let results = (outs StaticShapeTensorOf<[F32]>:$result);
}

/// An op that puts small integers into fewer bytes or takes them out.
class Kerf_PackingOp<string opMnemonic> : Kerf_Op<opMnemonic, [Pure, Kerf_CodecWork]> {
  let arguments = (ins StaticShapeTensorOf<[I8]>:$operand, I64Attr:$bits);
  let results = (outs StaticShapeTensorOf<[I8]>:$result);
  let hasVerifier = 1;
}

def Kerf_PackOp : Kerf_PackingOp<"pack"> {
  let summary = "Puts the low bits of several elements into one byte";
  let description = [{
    With p = 8 / bits elements in a byte and w = the result's last size, y[r.., j] has the low `bits` bits of
    x[r.., j + k * w] at its bits k * bits to (k + 1) * bits - 1, for k = 0 to p - 1.
    * `bits` is 1, 2 or 4. The operand has at least one dimension. The shapes agree except along the last dimension,
      which has p times as many elements in the operand as in the result.

    Example:
    ```mlir
    %y = kerf.pack %x {bits = 4 : i64} : (tensor<3x256xi8>) -> tensor<3x128xi8>
    ```
  }];
}

def Kerf_UnpackOp : Kerf_PackingOp<"unpack"> {
  let summary = "Takes the elements out of bytes that kerf.pack made";
  let description = [{
    The inverse of `kerf.pack`: x[r.., j + k * w] = bits k * bits to (k + 1) * bits - 1 of y[r.., j], a number from 0
    to 2^bits - 1, where w is the operand's last size.
    * As for `kerf.pack`, with operand and result exchanged.

    Example:
    ```mlir
    %x = kerf.unpack %y {bits = 4 : i64} : (tensor<3x128xi8>) -> tensor<3x256xi8>
    ```
  }];
}

#endif
