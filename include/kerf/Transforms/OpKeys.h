// SPDX-License-Identifier: Apache-2.0
// The names by which plans and reports speak of ops: "scope/op", then "@backward" for what differentiation made, then
// "#k" where several are alike (in program order, from 0).
//
//   transformer.h.*.attn.c_attn/dot_general               the forward product of every layer (one outlined function)
//   transformer.h.*.attn.c_attn/dot_general@backward#1    its second gradient product
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace kerf {

struct OpKey {
  std::string key;  // unique in the module
  std::string node; // the exported node's name, as "scope/node"
};

/// Of every op that has a sharding rule, function by function in module order. Inside a function that several calls
/// share, the part of the scope in which the calls differ (the layer's number) is `*`.
llvm::MapVector<mlir::Operation *, OpKey> opKeys(mlir::ModuleOp module);

/// True when a plan's pattern means the op: a glob on the key, on the key without "#k", on the node's name with or
/// without its scope.
bool matchesKey(llvm::StringRef pattern, const OpKey &key);

/// Returns the place of the entry of `entries` (OpPlan, OpRecompute) that decides for the op with `key`: one whose
/// pattern is the whole key, else the first whose pattern means the op; `entries.size()` where there is none.
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

/// An op of the forward pass as one layer has it: an op of @main, or one in a call of a function.
struct NamedOp {
  OpKey name; // with the layer's own number where `opKeys` has `*`; "#k" counts the ops of one call
  mlir::Operation *op;
  ir::CallOp call = {}; // null for an op of @main
  int64_t layer = 0;    // which of the layers that `call` stands for (`kerf.repeat`)
};

/// Names the ops of @main and of the functions that it calls, once for each layer. The module is as
/// kerf-outline-layers leaves it.
std::vector<NamedOp> namedOps(mlir::ModuleOp module);

/// Returns the name that the exported model gave to what `op` stands for in `call`, one of the `calls` of its function.
std::string nodeInCall(mlir::Operation *op, ir::CallOp call, llvm::ArrayRef<ir::CallOp> calls, int64_t layer = 0);

/// The argument's exported name ("kerf.name"), or "@function#index" for what a layer gets.
std::string argumentKey(mlir::BlockArgument argument);

} // namespace kerf
