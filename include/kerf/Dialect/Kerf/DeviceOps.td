// SPDX-License-Identifier: Apache-2.0
// The mesh, the planned level's reshard, and the device level: what one rank does. Every rank runs the same program; its number is a value in it.
#ifndef KERF_DEVICE_TD
#define KERF_DEVICE_TD
include "kerf/Dialect/Kerf/KerfBase.td"

def Kerf_MeshOp : Kerf_Op<"mesh", [Symbol]> {
  let summary = "The mesh of ranks of this module";
  let description = [{
    Example:
    ```mlir
    kerf.mesh @mesh #kerf.mesh<"data"=2, "model"=4>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Kerf_MeshAttr:$mesh);
  let assemblyFormat = "$sym_name attr-dict $mesh";
}

def Kerf_ReshardOp : Kerf_Op<"reshard", [Kerf_SameValue, Pure, SameOperandsAndResultType]> {
  let summary = "The same value under another sharding";
  let description = [{
    Planned level; partitioning expands it into the cheapest sequence of collectives. The identity on whole tensors.

    Example:
    ```mlir
    %y = kerf.reshard %x {from = #kerf.sharding<[{}, {} ], partial = ["model"]>, to = #kerf.sharding<[{"data"}, {} ]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand, Kerf_ShardingAttr:$from, Kerf_ShardingAttr:$to);
  let results = (outs Kerf_Tensor:$result);
}

// Axes of device ops are flat triples (axis index in the mesh, before, size), major first: array<i64: 0, 1, 2> is the whole axis 0 of size 2.
// Every verifier checks them: a multiple of three entries, index >= 0, before >= 1, size >= 1. ways(axes) is the product of the sizes.

def Kerf_ShardOffsetOp : Kerf_Op<"shard_offset", [Pure]> {
  let summary = "First global index that this rank holds along a dimension";
  let description = [{
    position(axes) * chunk, a scalar.
    * The result is a scalar; `chunk` is at least 0.

    Example:
    ```mlir
    %o = kerf.shard_offset {axes = array<i64: 1, 1, 4>, chunk = 25 : i64} : () -> tensor<i64>
    ```
  }];
  let arguments = (ins DenseI64ArrayAttr:$axes, I64Attr:$chunk);
  let results = (outs Kerf_IntTensor:$result);
  let hasVerifier = 1;
}

def Kerf_MaskPaddingOp : Kerf_Op<"mask_padding", [Kerf_SameValue, Pure, SameOperandsAndResultType]> {
  let summary = "A neutral element in place of the padding along a dimension";
  let description = [{
    Elements whose global index position(axes) * chunk + i along `dim` is `size` or more become 0 (fill = sum), the lowest value
    (fill = max) or the highest (fill = min). `chunk` is the local size of the dimension.
    * `dim` is inside the operand's rank; `size` is at most ways(axes) * chunk.

    Example:
    ```mlir
    %y = kerf.mask_padding %x {dim = 0 : i64, axes = array<i64: 0, 1, 3>, size = 8 : i64, fill = #kerf<reduce_kind sum>} : (tensor<3x8xf32>) -> tensor<3x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand, I64Attr:$dim, DenseI64ArrayAttr:$axes, I64Attr:$size, Kerf_ReduceKindAttr:$fill);
  let results = (outs Kerf_Tensor:$result);
  let hasVerifier = 1;
}

def Kerf_LocalSliceOp : Kerf_Op<"local_slice", [Kerf_SameValue, Pure]> {
  let summary = "This rank's piece of a local tensor";
  let description = [{
    y = x[position(axes) * chunk ...] of extent chunk along `dim`, chunk the result's size; past the operand's end: unspecified.
    * `dim` is inside the operand's rank; element types and shapes agree but for `dim`.

    Example:
    ```mlir
    %y = kerf.local_slice %x {dim = 0 : i64, axes = array<i64: 0, 1, 4>} : (tensor<8x8xf32>) -> tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand, I64Attr:$dim, DenseI64ArrayAttr:$axes);
  let results = (outs Kerf_Tensor:$result);
  let hasVerifier = 1;
}

/// `traits`: what comes is the value that went, unless the op moves another rank's.
class Kerf_Collective<string opMnemonic, string does, string text, dag extra, list<Trait> traits = [Kerf_SameValue]>
    : Kerf_Op<opMnemonic, traits> {
  let summary = does;
  let description = [{
    Started on the stream `stream`; the result is there after `kerf.wait`. `cause` says, for reports, why it is done.
  }] # text;
  let arguments = !con((ins Kerf_Tensor:$operand, DenseI64ArrayAttr:$axes), extra, (ins StrAttr:$stream, StrAttr:$cause));
  let results = (outs Kerf_Pending:$result);
  let hasVerifier = 1;
}

/// A collective whose result has the operand's type.
class Kerf_SameTypeCollective<string opMnemonic, string does, string text, dag extra, list<Trait> traits = [Kerf_SameValue]>
    : Kerf_Collective<opMnemonic, does, text, extra, !listconcat(traits, [Kerf_KeepsType])> {
  let hasVerifier = 0;
}

def Kerf_AllReduceOp : Kerf_SameTypeCollective<"all_reduce", "Every rank of the group gets the combination of all",
    [{
    Element-wise over the group, in one fixed order.
    * The result has the operand's type.
  }], (ins Kerf_ReduceKindAttr:$kind)>;
def Kerf_AllGatherOp : Kerf_Collective<"all_gather", "Every rank of the group gets all pieces along a dimension",
    [{
    Pieces in order of position along `dim`, trimmed to the result's size.
    * `dim` is inside the rank; types agree but for `dim`, where the result has at most ways(axes) * the operand's size.
  }], (ins I64Attr:$dim)>;
def Kerf_ReduceScatterOp : Kerf_Collective<"reduce_scatter", "Every rank of the group gets its piece of the combination of all",
    [{
    `dim` is padded to ways(axes) * (the result's size); position p keeps piece p of the combination.
    * `dim` is inside the rank; types agree but for `dim`, where the operand has at most ways(axes) * the result's size.
  }], (ins I64Attr:$dim, Kerf_ReduceKindAttr:$kind)>;
def Kerf_AllToAllOp : Kerf_Collective<"all_to_all", "Pieces of one dimension are exchanged for pieces of another",
    [{
    `other_dim` is cut into ways(axes) pieces of the result's size (padded up first), piece p goes to position p; what arrives is concatenated
    along `dim` and trimmed to the result's size.
    * `dim` and `other_dim` are two dimensions inside the rank; types agree but for these.
    * Along `dim` the result has at most ways(axes) * the operand's size, along `other_dim` the operand at most ways(axes) * the result's.
  }],
    (ins I64Attr:$dim, I64Attr:$other_dim)>;
def Kerf_CollectivePermuteOp : Kerf_Collective<"collective_permute", "Every rank gets the local tensor of another",
    [{
    The rank receives what it holds under `after` from a rank that holds it under `before`; both are flat lists: number of dims, then for each
    dim the count of triples and the triples.
    * The result has the operand's type; `before` and `after` are such lists, for the operand's rank.
  }],
    (ins DenseI64ArrayAttr:$before, DenseI64ArrayAttr:$after)>;

def Kerf_RingShiftOp : Kerf_SameTypeCollective<"ring_shift", "Every rank gets the local tensor of the rank before it",
    [{
    Position p receives what position p - 1 holds, the first what the last holds.
    * The result has the operand's type.
  }], (ins), []>;
def Kerf_RingBalanceOp : Kerf_Collective<"ring_balance", "Every rank gets a piece from the start and its mirror image from the end",
    [{
    Of n ranks each holds two of 2n pieces along `dim`: position p has pieces 2p and 2p + 1 before, p and 2n - 1 - p after. `inverse`: the
    way back. Where later queries see more keys, the ranks then have equal work.
    * `dim` is inside the rank and of an even size; the result has the operand's type.
  }], (ins I64Attr:$dim, UnitAttr:$inverse)>;

//===-- ring attention: keys and values of the other ranks, one block after the other --------------------------------------===//

class Kerf_RingAttention<string opMnemonic> : Kerf_Op<opMnemonic,
    [Pure, DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass", "describe"]>]> { let hasVerifier = 1; }

def Kerf_AttentionBlockOp : Kerf_RingAttention<"attention_block"> {
  let summary = "Attention to one more block of keys and values";
  let description = [{
    `so_far` and `lse_so_far` are attention to the blocks before; the results are attention to these and this one (Rabe and Staats 2021,
    Milakov and Gimelshein 2018): lse = log(exp(lse_so_far) + exp(lse_block)), out = so_far exp(lse_so_far - lse) + out_block exp(lse_block - lse).
    After `step` shifts of n ranks the rank at position p has the block of position (p - step) mod n. `causal`: a block of a later position
    is hidden, and skipped. `balanced`: queries and keys lie as `kerf.ring_balance` leaves them, so all queries see the first half of
    an earlier position's keys, and the second half of the queries sees all of a later position's.
    * query [B, S, H, D], key [B, S, G, D], value [B, S, G, E], G divides H; out [B, S, H, E], lse [B, H, S].
    * mask, if any, [1 or B, 1 or H, S, n S], not with `balanced`; `balanced` goes with `causal` and asks for an even S.
    * `step` is between 1 and n - 1.

    Example:
    ```mlir
    %out1, %lse1 = kerf.attention_block %out, %lse, %q, %k1, %v1 {scale = 0.25 : f64, causal, axes = array<i64: 0, 1, 4>, step = 1 : i64}
        : (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
        -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$so_far, Kerf_FloatTensor:$lse_so_far, Kerf_FloatTensor:$query, Kerf_FloatTensor:$key,
                       Kerf_FloatTensor:$value, Optional<Kerf_Tensor>:$mask, F64Attr:$scale, UnitAttr:$causal, UnitAttr:$balanced,
                       DenseI64ArrayAttr:$axes, I64Attr:$step);
  let results = (outs Kerf_FloatTensor:$result, Kerf_FloatTensor:$lse);
}

def Kerf_AttentionBlockBackwardOp : Kerf_RingAttention<"attention_block_backward"> {
  let summary = "Gradients of attention from one more block of keys and values";
  let description = [{
    Adds this block's part to the query's gradient `so_far`; the gradients of key and value are this rank's part of theirs, zeros where it
    sees nothing of them. `output` and `lse` are attention to all blocks.
    * Every operand and result has the shape of its counterpart in `attention_block`; attributes are as there.

    Example:
    ```mlir
    %dq1, %dk, %dv = kerf.attention_block_backward %dq, %q, %k1, %v1, %out, %lse, %dout
        {scale = 0.25 : f64, causal, axes = array<i64: 0, 1, 4>, step = 1 : i64}
        : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>,
           tensor<2x8x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$so_far, Kerf_FloatTensor:$query, Kerf_FloatTensor:$key, Kerf_FloatTensor:$value,
                       Optional<Kerf_Tensor>:$mask, Kerf_FloatTensor:$output, Kerf_FloatTensor:$lse, Kerf_FloatTensor:$gradient,
                       F64Attr:$scale, UnitAttr:$causal, UnitAttr:$balanced, DenseI64ArrayAttr:$axes, I64Attr:$step);
  let results = (outs Kerf_FloatTensor:$query_gradient, Kerf_FloatTensor:$key_gradient, Kerf_FloatTensor:$value_gradient);
}

def Kerf_WaitOp : Kerf_Op<"wait", [Kerf_SameValue]> {
  let summary = "The result of a started collective";
  let description = [{
    * The result has the type that was promised.

    Example:
    ```mlir
    %y = kerf.wait %p : (!kerf.pending<tensor<4x8xf32>>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Pending:$operand);
  let results = (outs Kerf_Tensor:$result);
  let hasVerifier = 1;
}

//===-- activations in the host's memory -----------------------------------------------------------------------------------===//

class Kerf_HostCopy<string opMnemonic> : Kerf_Op<opMnemonic, [Kerf_CopiesByHost]> {
  let arguments = (ins Kerf_Tensor:$operand, StrAttr:$stream);
  let results = (outs Kerf_Pending:$result);
  let hasVerifier = 1;
}

def Kerf_OffloadOp : Kerf_HostCopy<"offload"> {
  let summary = "A copy of a value in the host's memory";
  let description = [{
    Started on the stream `stream`; only `kerf.wait` and then `kerf.prefetch` take the result.
    * The result has the operand's type.

    Example:
    ```mlir
    %p = kerf.offload %x {stream = "offload"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
    ```
  }];
}

def Kerf_PrefetchOp : Kerf_HostCopy<"prefetch"> {
  let summary = "A value that was offloaded, in the device's memory again";
  let description = [{
    Started on the stream `stream`; the result is there after `kerf.wait`.
    * The result has the operand's type.

    Example:
    ```mlir
    %p = kerf.prefetch %h {stream = "prefetch"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
    ```
  }];
}

//===-- microbatches and stages: ops of the step itself, not of layers (docs/pipelines.md) ---------------------------------===//

def Kerf_AccumulateOp : Kerf_Op<"accumulate", [Pure, SameOperandsAndResultType]> {
  let summary = "The sum of a value over all microbatches";
  let description = [{
    The operand is made once for each microbatch, the result is there when the last one's is. On a step without microbatches, the identity.
    The only way from what is done for each microbatch to what is done once a step.

    Example:
    ```mlir
    %s = kerf.accumulate %g : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_TransferOp : Kerf_Op<"transfer", [SameOperandsAndResultType]> {
  let summary = "A value that one stage made, on another stage";
  let description = [{
    One message of every rank of stage `from` to the rank of stage `to` that has its other coordinates; a value that is made for each microbatch
    is sent for each. Send and receive are one op, so that they can't disagree.
    * `from` and `to` are at least 0, and differ.

    Example:
    ```mlir
    %y = kerf.transfer %x {from = 0 : i64, to = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Tensor:$operand, I64Attr:$from, I64Attr:$to);
  let results = (outs Kerf_Tensor:$result);
  let hasVerifier = 1;
}

#endif
