// SPDX-License-Identifier: Apache-2.0
// Finds the layers of a straight-line function by structure: the longest tandem repeat in its sequence of ops.
//
//   sequence   e a | l q m a f a | l q m a f a | l q m a f a | l h        (e: embedding, l: norm, a: add, h: head)
//   kinds repeat with period 6 from the first `a` to the last `l`: 18 + 2 ops, so three segments may start at `a` or at
//   `l`. Starting at `a`, two values cross each border (the residual stream and `f`'s result); starting at `l`, one:
//   taken.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>
#include <vector>

namespace kerf {

/// `count` segments of `period` ops each, the first beginning at `start`.
struct Repeat {
  int64_t start = 0, period = 0, count = 0;
  int64_t savedOps() const { return (count - 1) * period; }
};

/// The ops of a block that depend on a parameter, in program order, and what decides whether two of them may be the
/// same op of two layers. Ops that depend on no parameter (masks, position tables, constants) are *invariant*: they
/// stand outside the sequence, so that one computed in the first layer and used in all doesn't break its likeness to
/// the others.
class OpSequence {
public:
  explicit OpSequence(mlir::Block &block);

  std::vector<mlir::Operation *> ops;
  /// Equal for ops of equal name, attributes and types.
  std::vector<int> kinds;
  /// scopes[i]: the components of op i's module scope ("transformer", "h", "0"), numbered; empty where it has none.
  std::vector<std::vector<int>> scopes;

  bool isInvariant(mlir::Operation *op) const { return invariantKinds.count(op) != 0; }
  /// The kind of an invariant op.
  int invariantKind(mlir::Operation *op) const { return invariantKinds.lookup(op); }
  /// Position of the op that defines `value`, or -1: an argument or an invariant.
  int64_t definedAt(mlir::Value value) const;

private:
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Operation *, int> invariantKinds;
};

/// The repeat that saves most ops, or nothing. Every segment but the first uses a result of the one before it.
std::optional<Repeat> findRepeat(const OpSequence &sequence);

/// "transformer.h.0.attn/node" -> "transformer.h.0.attn"; "" where the location names no scope.
std::string moduleScope(mlir::Location location);

} // namespace kerf
