// SPDX-License-Identifier: Apache-2.0
// Search for the layers of a straight-line function by structure: the longest tandem repeat in its sequence of ops.
//
//   sequence   e a | l q m a f a | l q m a f a | l q m a f a | l h        (e: embedding, l: norm, a: add, h: head)
//
// The kinds of ops repeat with period 6 from the first `a` to the last `l`. These are 18 + 2 ops, so the three segments
// may start at `a` or at `l`. If they start at `a`, two values cross each border (the residual stream and the result of
// `f`). If they start at `l`, one value does, so this division is taken.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>
#include <vector>

namespace kerf {

/// A repeat in a sequence of ops: `count` segments of `period` ops each. The first one begins at position `start`.
struct Repeat {
  int64_t start = 0, period = 0, count = 0;
  /// Returns the number of ops that one function for all segments saves.
  int64_t savedOps() const { return (count - 1) * period; }
};

/// The ops of a block that depend on a parameter, in program order, with the properties that two ops must share to be
/// the same op in two layers. Ops that depend on no parameter (masks, position tables, constants) are *invariant*. They
/// are not part of the sequence, because an exporter may compute one in the first layer and use it in all layers, which
/// would make the first layer differ from the others.
class OpSequence {
public:
  /// Collects the ops of `block`.
  explicit OpSequence(mlir::Block &block);

  std::vector<mlir::Operation *> ops;
  /// A number for each of `ops`, which is equal for ops with equal name, attributes and types.
  std::vector<int> kinds;
  /// scopes[i]: the components of op i's module scope ("transformer", "h", "0") as numbers, equal for equal components;
  /// empty where the op has no scope.
  std::vector<std::vector<int>> scopes;

  /// Returns whether the op depends on no parameter.
  bool isInvariant(mlir::Operation *op) const { return invariantKinds.count(op) != 0; }
  /// Returns the kind of an invariant op: a number as in `kinds`.
  int invariantKind(mlir::Operation *op) const { return invariantKinds.lookup(op); }
  /// Returns the position in `ops` of the op that defines `value`, or -1 for an argument or the result of
  /// an invariant op.
  int64_t definedAt(mlir::Value value) const;

private:
  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<mlir::Operation *, int> invariantKinds;
};

/// Returns the repeat that saves the most ops, or nothing where there is no repeat. In a repeat, every segment but the
/// first uses a result of the segment before it.
std::optional<Repeat> findRepeat(const OpSequence &sequence);

/// Returns the module scope that a location names: "transformer.h.0.attn" for "transformer.h.0.attn/node", and "" where
/// the location names none.
std::string moduleScope(mlir::Location location);

} // namespace kerf
