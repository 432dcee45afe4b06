# SPDX-License-Identifier: Apache-2.0
"""Fused products in an exported graph: weights that are cut within blocks are stored reordered where the graph only splits their results."""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch.distributed.tensor import DTensor, Shard

from .graph import Piece
from .placement import Placement

WEIGHTS = {"linear": (1, 0), "addmm": (2, 1), "mm": (1, 1), "matmul": (1, 1)}  # the argument that is the weight, and its columns
BIASES = {"linear": 2, "addmm": 0}
SPLITS = ("split", "split_with_sizes", "chunk")


def _name(node: torch.fx.Node) -> str:
    return getattr(node.target, "_opname", "")


def find_fused(pieces: list[Piece], placed: dict[str, Placement], aliases: dict[str, str], ranks: int) -> tuple[set[str], dict[str, int]]:
    """Returns the parameters that can be stored reordered, and the nodes that split results of their products with the numbers of blocks."""
    uses: dict[str, int] = {}
    nodes = [node for piece in pieces for node in piece.graph_module.graph.nodes]
    for node in nodes:
        if node.op == "get_attr" and str(node.target) in aliases:
            uses[aliases[str(node.target)]] = uses.get(aliases[str(node.target)], 0) + len(node.users)

    def cut(node: Any) -> Optional[Placement]:
        known = isinstance(node, torch.fx.Node) and node.op == "get_attr" and str(node.target) in aliases
        where = placed[aliases[str(node.target)]] if known else None
        return where if where is not None and where.blocks > 1 and uses[where.name] == 1 else None

    stored: set[str] = set()
    splits: dict[str, int] = {}
    for node in nodes:
        position, columns = WEIGHTS.get(_name(node), (0, -1))
        weight = cut(node.args[position]) if columns >= 0 and len(node.args) > position else None
        if weight is None or weight.dimension != columns or weight.shape[columns] % (weight.blocks * ranks):
            continue
        biases = [node.args[BIASES[_name(node)]]] if _name(node) in BIASES and len(node.args) > BIASES[_name(node)] else []
        found = _follow(node, weight, [one for one in biases if one is not None], cut)
        if found is not None:
            stored |= {weight.name, *found[0]}
            splits.update({one: weight.blocks for one in found[1]})
    return stored, splits


def _follow(product: torch.fx.Node, weight: Placement, biases: list[Any], cut: Any) -> Optional[tuple[set[str], list[str]]]:
    """Returns the biases of a product and the nodes that split it into its blocks, or nothing where it has another use."""
    width, names, ends = product.meta["val"].shape[-1], set(), []
    wanted = [product]
    while wanted:
        node = wanted.pop()
        for user in node.users:
            if _name(user) == "add" and len(user.args) == 2 and user.args[0] is node:
                biases.append(user.args[1])
                wanted.append(user)
            elif _name(user) in ("view", "reshape", "_unsafe_view") and user.meta["val"].shape[-1] == width:
                wanted.append(user)
            elif _name(user) in SPLITS and _splits_blocks(user, weight.blocks, width):
                ends.append(user.name)
            else:
                return None
    for one in biases:
        bias = cut(one)
        if bias is None or (bias.dimension, bias.blocks) != (0, weight.blocks):
            return None
        names.add(bias.name)
    return names, ends


def _splits_blocks(node: torch.fx.Node, blocks: int, width: int) -> bool:
    values = node.meta["val"]
    return len(values) == blocks and all(one.shape[-1] == width // blocks and one.dim() == len(values[0].shape) for one in values) and (
        node.args[2] if len(node.args) > 2 else 0) in (-1, values[0].dim() - 1)


def split(value: DTensor, blocks: int) -> list[DTensor]:
    """Splits a fused product, whose ranks hold their parts of all blocks, into its blocks."""
    last = value.dim() - 1
    axis = (value.device_mesh.mesh_dim_names or ()).index("model")
    places = [Shard(last) if position == axis else one for position, one in enumerate(value.placements)]
    local = value.redistribute(placements=places).to_local()
    return [DTensor.from_local(one, value.device_mesh, places, run_check=False) for one in local.chunk(blocks, -1)]
