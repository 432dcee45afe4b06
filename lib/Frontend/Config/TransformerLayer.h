// SPDX-License-Identifier: Apache-2.0
// Writes the functions of a transformer: what @main and a layer have in common, and the layer itself. The IR is what an
// ONNX export of the same model becomes before its gradients are taken: composites, heads apart as dimensions,
// parameters viewed to match.
#pragma once

#include "Config/TransformerModel.h"
#include "kerf/Dialect/Kerf/Emit.h"
#include "kerf/Package/Package.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf::frontend {

/// An argument of a function that is written: a parameter or an input of the model.
struct TransformerArgument {
  std::string name; // in a layer: within it
  std::string kind; // "parameter", "input"; in a layer also "": handed over by @main
  Shape exported;   // its shape in a checkpoint; the function may see another shape of the same elements
  bool trained = true;
};

/// Appends ops and arguments to the one block of a function.
class FunctionWriter {
public:
  /// `scope` goes before the names of modules in locations: "transformer.h.0." in a layer.
  FunctionWriter(mlir::func::FuncOp function, mlir::Type floatType, std::string scope);

  /// Ops from here on are `node` of `module`.
  void at(const std::string &module, const char *node);
  mlir::Value parameter(const std::string &name, const Shape &exported, const Shape &viewed);
  mlir::Value parameter(const std::string &name, const Shape &shape) { return parameter(name, shape, shape); }
  /// A parameter that gradients do not train.
  mlir::Value frozen(const std::string &name, const Shape &shape);
  /// What `like`, an argument of a layer, is in @main under its full name.
  mlir::Value parameter(const TransformerArgument &like, const std::string &name, const Shape &viewed);
  mlir::Value input(const std::string &name, mlir::Type element, const Shape &shape);
  /// What @main hands over to a layer; null stays null.
  mlir::Value received(mlir::Value given);

  /// The product of x's last `contracted` dimensions with the module's weight, to dimensions `out` in their place, and
  /// its bias.
  mlir::Value linear(mlir::Value x, int64_t contracted, const Shape &out, const std::string &module,
                     WeightLayout layout, bool bias);
  mlir::Value bias(mlir::Value x, const Shape &out, const std::string &name);
  mlir::Value norm(mlir::Value x, NormKind kind, double epsilon, const std::string &module);
  mlir::Value activation(mlir::Value x, Activation kind);
  /// Marks the op of `result` as one that training drops elements for, where marks are asked for.
  mlir::Value dropping(mlir::Value result, bool drops);
  bool marksDropout = false;
  /// Elements from, from + stride, ... below `to` of one dimension.
  mlir::Value slice(mlir::Value x, int64_t dim, int64_t from, int64_t to, int64_t stride = 1);
  mlir::Value concatenate(mlir::ValueRange parts, int64_t dim);
  mlir::Value constant(llvm::ArrayRef<double> values);
  mlir::RankedTensorType type(const Shape &shape) const { return mlir::RankedTensorType::get(shape, floatType); }

  ir::Emitter &emitter() { return emit; }
  mlir::OpBuilder &opBuilder() { return builder; }
  mlir::Location location() const { return emit.loc; }
  const std::vector<TransformerArgument> &arguments() const { return args; }
  mlir::Block &block() { return function.getBody().front(); }
  /// Returns `result`; the function's type is then known.
  void finish(mlir::Value result);

private:
  mlir::Value argument(TransformerArgument argument, mlir::Type type);

  mlir::func::FuncOp function;
  mlir::Type floatType;
  std::string scope;
  mlir::OpBuilder builder;
  ir::Emitter emit;
  std::vector<TransformerArgument> args;
};

/// What all layers share, computed once in @main. Null where the model has none.
struct SharedValues {
  mlir::Value cosine, sine; // [S, R] for R rotated elements
  mlir::Value mask;         // [1 or B, 1 or H, S, S], added or excluding
  mlir::Value bias;         // [H, S, S], added to the scores, trained
  mlir::Value memory;       // [B, S, hidden], the encoder's result
  mlir::Value memoryMask;   // [B, 1, S, S], excluding
};
/// Those that are not null, in the order in which a layer takes them.
llvm::SmallVector<mlir::Value> given(const SharedValues &shared);

/// Writes the body of a layer: its first argument is the residual stream [B, S, hidden], then `shared`, then its
/// parameters.
void writeLayer(FunctionWriter &writer, const TransformerModel &model, const ModuleNames &names, mlir::Value stream,
                const SharedValues &shared);

/// What a layer's MLP or its experts make of the stream (TransformerExperts.cpp).
mlir::Value feedForward(FunctionWriter &writer, const TransformerModel &model, const ModuleNames &names, mlir::Value x);

// What the positions of S tokens become (TransformerPositions.cpp).

/// The cosine and sine of each position's rotation.
void addRotaryTables(FunctionWriter &writer, const TransformerModel &model, int64_t sequence, SharedValues &shared);
mlir::Value alibiBias(FunctionWriter &writer, const TransformerModel &model, int64_t sequence);
mlir::Value windowMask(FunctionWriter &writer, int64_t window, int64_t sequence);
/// Excludes what `mask` [B, S] has 0 for, from every query.
mlir::Value paddingMask(FunctionWriter &writer, mlir::Value mask);
enum class Sees { All, Earlier };
/// The trained bias of each pair of positions [H, S, S]; Earlier: later keys are hidden as well.
mlir::Value relativeBias(FunctionWriter &writer, const TransformerModel &model, const std::string &module,
                         int64_t sequence, Sees which);
/// A number that hides a score it is added to or put in place of: exp(it - the largest) is 0.
inline constexpr double kHiddenScore = -1e9;

} // namespace kerf::frontend
