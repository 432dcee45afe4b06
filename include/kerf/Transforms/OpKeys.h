// SPDX-License-Identifier: Apache-2.0
// The names of ops in plans and reports. A name is "scope/op", followed by "@backward" for an op that differentiation
// created, and by "#k" (in program order, from 0) where several ops would have the same name.
//
//   transformer.h.*.attn.c_attn/dot_general               the forward product of every layer (one outlined function)
//   transformer.h.*.attn.c_attn/dot_general@backward#1    the second product of its gradients
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace kerf {

/// The name of an op in plans and reports, and the node of the exported model that the op comes from.
struct OpKey {
  std::string key;  // the op's name, unique in the module
  std::string node; // the node's name in the exported model, as "scope/node"
};

/// Returns the names of all ops that have a sharding rule, function by function in module order. Inside a function that
/// several calls share, the part of the scope in which the calls differ (the number of the layer) is `*`.
llvm::MapVector<mlir::Operation *, OpKey> opKeys(mlir::ModuleOp module);

/// Returns whether a plan's pattern selects the op with `key`. The pattern is a glob that has to match one of: the op's
/// name; the name without the "#k" that counts ops of the same name; the name of the op's node in the exported model,
/// with or without the scope (the module path before the last "/").
bool matchesKey(llvm::StringRef pattern, const OpKey &key);

/// Returns the index of the entry of `entries` (a list of OpPlan or OpRecompute) that applies to the op with `key`: the
/// entry whose pattern is the complete key, otherwise the first entry whose pattern matches. Returns `entries.size()`
/// where none does.
template <typename Entries> size_t entryOf(const Entries &entries, const OpKey &key) {
  size_t found = entries.size();
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].pattern == key.key)
      return i;
    if (found == entries.size() && matchesKey(entries[i].pattern, key))
      found = i;
  }
  return found;
}

/// An op of the forward pass in one layer: an op of @main, or an op of a called function together with the call.
struct NamedOp {
  OpKey name; // has the layer's own number where `opKeys` has `*`; its "#k" counts the ops of one call
  mlir::Operation *op;
  ir::CallOp call = {}; // null for an op of @main
  int64_t layer = 0;    // index of the layer among those that `call` stands for (`kerf.repeat`), from 0
};

/// Returns the ops of @main and of the functions that it calls, with their names, once for each layer. The module is in
/// the form that kerf-outline-layers leaves.
std::vector<NamedOp> namedOps(mlir::ModuleOp module);

/// Returns the name of the node in the exported model that `op`, an op of a layer's function, comes from in the
/// layer of `call`. `calls` are all calls of this function; `layer` is the index of the layer where `call`
/// stands for several.
std::string nodeInCall(mlir::Operation *op, ir::CallOp call, llvm::ArrayRef<ir::CallOp> calls, int64_t layer = 0);

/// Returns the argument's name in plans: its name in the exported model ("kerf.name"), or "@function#index" for an
/// argument of a layer's function.
std::string argumentKey(mlir::BlockArgument argument);

} // namespace kerf
