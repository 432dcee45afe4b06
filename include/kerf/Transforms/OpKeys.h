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

/// The argument's exported name ("kerf.name"), or "@function#index" for what a layer gets.
std::string argumentKey(mlir::BlockArgument argument);

} // namespace kerf
