// SPDX-License-Identifier: Apache-2.0
// Ops of the mesh, the reshard op of the planned level, and the ops of the device level. A device-level module is the
// program of one rank; every rank runs the same program, which computes from the rank's number where its shards begin.
#ifndef KERF_DEVICE_TD
#define KERF_DEVICE_TD
include "kerf/Dialect/Kerf/KerfBase.td"

def Kerf_MeshOp : Kerf_Op<"mesh", [Symbol]> {
  let summary = "Declares the mesh of ranks that the module is planned for";
  let description = [{
    The axis names in the module's shardings and strategies refer to this mesh.

    Example:
    ```mlir
    kerf.mesh @mesh #kerf.mesh<"data"=2, "model"=4>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Kerf_MeshAttr:$mesh);
  let assemblyFormat = "$sym_name attr-dict $mesh";
}

def Kerf_ReshardOp : Kerf_Op<"reshard", [Kerf_SameValue, Pure, SameOperandsAndResultType]> {
  let summary = "Changes the sharding of a value";
  let description = [{
    The op exists at the planned level, where it is the identity on whole tensors. `kerf-partition` expands the op
    into the cheapest sequence of collectives from the sharding `from` to the sharding `to`.

    Example:
    ```mlir
    %y = kerf.reshard %x {from = #kerf.sharding<[{}, {} ], partial = ["model"]>, to = #kerf.sharding<[{"data"}, {} ]>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_MovedTensor:$operand, Kerf_ShardingAttr:$from, Kerf_ShardingAttr:$to);
  let results = (outs Kerf_MovedTensor:$result);
}

// A device op's `axes` attribute is a flat list of triples (index of the mesh axis, before, size), major axis first. A
// triple is a sub-axis as in #kerf.axis: array<i64: 0, 1, 2> is axis 0, of size 2, as a whole. Every verifier checks
// that the number of entries is a multiple of three, that index >= 0, before >= 1 and size >= 1. In the texts below,
// shardCount(axes) is the product of the sizes, and position(axes) is the rank's row-major coordinate along these axes,
// from 0 to shardCount(axes) - 1.

def Kerf_ShardOffsetOp : Kerf_Op<"shard_offset", [Pure]> {
  let summary = "First global index of this rank's shard along a dimension";
  let description = [{
    The scalar result is position(axes) * chunk, where `chunk` is the number of elements that each rank holds along
    the dimension.
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
  let summary = "Overwrites the padding along a dimension with a neutral element";
  let description = [{
    A dimension whose size is not a multiple of the number of ranks that shard it is padded at its end. Elements whose
    global index position(axes) * chunk + i along `dim` is `size` or more become 0 (fill = sum), the lowest value of
    the type (fill = max) or the highest value (fill = min). Here `chunk` is the local size of the dimension and
    `size` its global size without padding.
    * `dim` lies within the operand's rank; `size` is at most shardCount(axes), the number of ranks that shard `dim`,
      times chunk.

    Example:
    ```mlir
    %y = kerf.mask_padding %x {dim = 0 : i64, axes = array<i64: 0, 1, 3>, size = 8 : i64, fill = #kerf<reduce_kind sum>} : (tensor<3x8xf32>) -> tensor<3x8xf32>
    ```
  }];
  let arguments = (ins Kerf_MovedTensor:$operand, I64Attr:$dim, DenseI64ArrayAttr:$axes, I64Attr:$size, Kerf_ReduceKindAttr:$fill);
  let results = (outs Kerf_MovedTensor:$result);
  let hasVerifier = 1;
}

def Kerf_LocalSliceOp : Kerf_Op<"local_slice", [Kerf_SameValue, Pure]> {
  let summary = "Keeps only this rank's shard of a tensor that every rank of the group has";
  let description = [{
    y is the part of x along `dim` that begins at position(axes) * chunk and has chunk elements, where chunk is the
    result's size. Elements past the end of x are unspecified. No data is exchanged.
    * `dim` lies within the operand's rank. Element types agree, and shapes agree in all dimensions but `dim`.

    Example:
    ```mlir
    %y = kerf.local_slice %x {dim = 0 : i64, axes = array<i64: 0, 1, 4>} : (tensor<8x8xf32>) -> tensor<2x8xf32>
    ```
  }];
  let arguments = (ins Kerf_MovedTensor:$operand, I64Attr:$dim, DenseI64ArrayAttr:$axes);
  let results = (outs Kerf_MovedTensor:$result);
  let hasVerifier = 1;
}

/// A collective among the ranks that differ only in their coordinates along `axes` (the group). The default `traits`
/// state that the result has the operand's value under another sharding; an op that gives a rank the data of another
/// one overrides them.
class Kerf_Collective<string opMnemonic, string does, string text, dag extra, list<Trait> traits = [Kerf_SameValue]>
    : Kerf_Op<opMnemonic, traits> {
  let summary = does;
  let description = [{
    The collective runs on the stream `stream`; its result is available after `kerf.wait`. `cause` is a text for reports
    that says why the collective is needed.
  }] # text;
  let arguments = !con((ins Kerf_MovedTensor:$operand, DenseI64ArrayAttr:$axes), extra, (ins StrAttr:$stream, StrAttr:$cause));
  let results = (outs Kerf_Pending:$result);
  let hasVerifier = 1;
}

/// A collective whose result has the operand's type.
class Kerf_SameTypeCollective<string opMnemonic, string does, string text, dag extra, list<Trait> traits = [Kerf_SameValue]>
    : Kerf_Collective<opMnemonic, does, text, extra, !listconcat(traits, [Kerf_KeepsType])> {
  let hasVerifier = 0;
}

def Kerf_AllReduceOp : Kerf_SameTypeCollective<"all_reduce",
    "Combines the tensors of all ranks of a group and gives every rank the result",
    [{
    Elements are combined by `kind` in a fixed order of the ranks, so that all ranks get the same bits.
    * The result has the operand's type.
  }], (ins Kerf_ReduceKindAttr:$kind)>;
def Kerf_AllGatherOp : Kerf_Collective<"all_gather",
    "Concatenates the shards of all ranks of a group along a dimension and gives every rank the result",
    [{
    Shards are concatenated along `dim` in the order of position(axes), the rank's coordinate along `axes`, and trimmed
    to the result's size.
    * `dim` lies within the operand's rank. Types agree except along `dim`, where the result's size is at most
      shardCount(axes) * the operand's size, and
      shardCount(axes) is the number of ranks in the group.
  }], (ins I64Attr:$dim)>;
def Kerf_ReduceScatterOp : Kerf_Collective<"reduce_scatter",
    "Combines the tensors of all ranks of a group and gives every rank one shard of the result",
    [{
    Dimension `dim` of the operand is padded to shardCount(axes), the number of ranks in the group, times the result's
    size. The rank at position p keeps shard p of the combination.
    * `dim` lies within the operand's rank. Types agree except along `dim`, where the operand's size is at most
      shardCount(axes) * the result's size.
  }], (ins I64Attr:$dim, Kerf_ReduceKindAttr:$kind)>;
def Kerf_AllToAllOp : Kerf_Collective<"all_to_all", "Moves the sharding of a tensor from one dimension to another",
    [{
    The operand is padded along `other_dim` and divided into shardCount(axes) parts of the result's size, one for each
    rank of the group; part p is sent to the rank at position p. The
    received parts are concatenated along `dim` and trimmed to the result's size.
    * `dim` and `other_dim` are different dimensions within the operand's rank. Types agree except along these two.
    * Along `dim` the result's size is at most shardCount(axes) * the operand's size; along `other_dim` the operand's
      size is at most shardCount(axes) * the result's size.
  }],
    (ins I64Attr:$dim, I64Attr:$other_dim)>;
def Kerf_CollectivePermuteOp : Kerf_Collective<"collective_permute", "Gives every rank the local tensor of another rank",
    [{
    `before` and `after` are two shardings with equal local shapes. Each rank receives the shard that it has under
    `after` from a rank that has this shard under `before`. Both attributes are flat lists:
    the number of dimensions, then for each dimension the number of its axis triples and the triples.
    * The result has the operand's type. `before` and `after` are such lists, for the operand's rank.
  }],
    (ins DenseI64ArrayAttr:$before, DenseI64ArrayAttr:$after)>;

def Kerf_RingShiftOp : Kerf_SameTypeCollective<"ring_shift", "Gives every rank the local tensor of its predecessor in a ring",
    [{
    The rank at position p receives the tensor of position p - 1; the rank at position 0 receives that of the last
    position.
    * The result has the operand's type.
  }], (ins), []>;
def Kerf_RingBalanceOp : Kerf_Collective<"ring_balance", "Redistributes a sequence so that causal attention is equal work on every rank",
    [{
    The sequence along `dim` consists of 2n parts, of which each of the n ranks holds two. Before the op, the rank at
    position p holds parts 2p and 2p + 1; after it, parts p and 2n - 1 - p. With
    `inverse` the op goes from the second distribution to the first. Since later queries of causal attention read more
    keys, an early part and a late part together are the same work on every rank.
    * `dim` lies within the operand's rank and has an even size. The result has the operand's type.
  }], (ins I64Attr:$dim, UnitAttr:$inverse)>;

//===-- ring attention: attention over the keys and values of the other ranks, block by block -----------------------------===//

class Kerf_RingAttention<string opMnemonic> : Kerf_Op<opMnemonic,
    [Pure, DeclareOpInterfaceMethods<WorkOpInterface, ["getFlops", "getKernelClass", "describe"]>]> { let hasVerifier = 1; }

def Kerf_AttentionBlockOp : Kerf_RingAttention<"attention_block"> {
  let summary = "Extends attention by one more block of keys and values (one step of ring attention)";
  let description = [{
    `so_far` and `lse_so_far` are the attention over the blocks processed before; the results are the attention over
    these blocks and the given one (Rabe and Staats 2021, Milakov and Gimelshein 2018): lse = log(exp(lse_so_far) +
    exp(lse_block)), out = so_far exp(lse_so_far - lse) + out_block exp(lse_block - lse).

    After `step` shifts in a ring of n ranks, the rank at position p has the block of position (p - step) mod n. With
    `causal`, a block of a later position is hidden, and its computation is skipped. With `balanced`, queries and keys
    are distributed as `kerf.ring_balance` leaves them: all queries attend to the first half of an earlier position's
    keys, and the second half of the queries attends to all keys of a later position.
    * query is [B, S, H, D], key [B, S, G, D] and value [B, S, G, E], where G divides H; out is [B, S, H, E] and lse
      [B, H, S].
    * mask, if present, is [1 or B, 1 or H, S, n S], and is not allowed with `balanced`. `balanced` requires `causal`
      and an even S.
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
  let summary = "Gradients of attention from one more block of keys and values (one step of ring attention)";
  let description = [{
    The op adds this block's contribution to the query's gradient `so_far`. The gradients of key and value are this
    rank's contribution to the gradients of the block; they are zeros where none of the rank's queries attends to the
    block. `output` and `lse` are the attention over all blocks.
    * Every operand and result has the shape of its counterpart in `attention_block`. The attributes have the meaning
      that they have there.

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
  let summary = "Waits for a started collective or host copy and gives its result";
  let description = [{
    * The result has the tensor type that the pending operand names.

    Example:
    ```mlir
    %y = kerf.wait %p : (!kerf.pending<tensor<4x8xf32>>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_Pending:$operand);
  let results = (outs Kerf_MovedTensor:$result);
  let hasVerifier = 1;
}

//===-- activations in the host's memory -----------------------------------------------------------------------------------===//

class Kerf_HostCopy<string opMnemonic> : Kerf_Op<opMnemonic, [Kerf_TransfersHostMemory]> {
  let arguments = (ins Kerf_MovedTensor:$operand, StrAttr:$stream);
  let results = (outs Kerf_Pending:$result);
  let hasVerifier = 1;
}

def Kerf_OffloadOp : Kerf_HostCopy<"offload"> {
  let summary = "Starts copying a tensor from device memory to host memory";
  let description = [{
    The copy runs on the stream `stream`. The result stays in host memory: only `kerf.wait`, and then `kerf.prefetch`,
    may use it.
    * The result is a pending tensor of the operand's type.

    Example:
    ```mlir
    %p = kerf.offload %x {stream = "offload"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
    ```
  }];
}

def Kerf_PrefetchOp : Kerf_HostCopy<"prefetch"> {
  let summary = "Starts copying an offloaded tensor back to device memory";
  let description = [{
    The copy runs on the stream `stream`. The tensor is available after `kerf.wait`.
    * The result is a pending tensor of the operand's type.

    Example:
    ```mlir
    %p = kerf.prefetch %h {stream = "prefetch"} : (tensor<4x8xf32>) -> !kerf.pending<tensor<4x8xf32>>
    ```
  }];
}

//===-- microbatches and pipeline stages: ops of @main, never of a layer's function (docs/pipelines.md) --------------------===//

def Kerf_AccumulateOp : Kerf_Op<"accumulate", [Pure, SameOperandsAndResultType]> {
  let summary = "Sums a value over all microbatches of a step";
  let description = [{
    The operand is computed once for each microbatch; the result is available after the last microbatch. In a step
    without microbatches the op is the identity. It is the only op that leads from what runs for each microbatch to
    what runs once for each step.

    Example:
    ```mlir
    %s = kerf.accumulate %g : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_FloatTensor:$operand);
  let results = (outs Kerf_FloatTensor:$result);
}

def Kerf_TransferOp : Kerf_Op<"transfer", [SameOperandsAndResultType]> {
  let summary = "Sends a value from one pipeline stage to another";
  let description = [{
    Every rank of stage `from` sends one message to the rank of stage `to` that has the same coordinates on all other
    mesh axes. A value that is computed for each microbatch is sent for each microbatch. Send and receive are one op,
    so that they cannot contradict each other.
    * `from` and `to` are at least 0, and differ.

    Example:
    ```mlir
    %y = kerf.transfer %x {from = 0 : i64, to = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins Kerf_MovedTensor:$operand, I64Attr:$from, I64Attr:$to);
  let results = (outs Kerf_MovedTensor:$result);
  let hasVerifier = 1;
}

#endif
