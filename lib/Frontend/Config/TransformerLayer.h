// SPDX-License-Identifier: Apache-2.0
// Writes the functions of a transformer as IR: the operations that @main and layers share, and the layer itself. The IR
// equals that of an ONNX export of the same model after the passes before differentiation: composite operators, heads
// as a dimension of their own, and parameters reshaped accordingly.
#pragma once

#include "Config/TransformerModel.h"
#include "kerf/Dialect/Kerf/Emit.h"
#include "kerf/Package/Package.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kerf::frontend {

/// An argument of @main or of a layer: a parameter or an input of the model.
struct TransformerArgument {
  std::string name; // full name in @main; name within the layer in a layer
  std::string kind; // "parameter" or "input"; "": a value that @main passes to a layer
  Shape exported;   // shape in a checkpoint; the argument may have another shape with the same elements
  bool trained = true;
};

/// Appends operators and arguments to the body of one function.
class FunctionWriter {
public:
  /// Writes into `function`. `scope` is the prefix of module names in locations, such as "transformer.h.0." in a layer.
  FunctionWriter(mlir::func::FuncOp function, mlir::Type floatType, std::string scope);

  /// Sets the location of the operators from now on: `node` of `module`.
  void at(const std::string &module, const char *node);
  /// Adds a trained parameter with the shape `exported` in checkpoints, and returns it with the shape `viewed`.
  mlir::Value parameter(const std::string &name, const Shape &exported, const Shape &viewed);
  /// Adds a trained parameter.
  mlir::Value parameter(const std::string &name, const Shape &shape) { return parameter(name, shape, shape); }
  /// Adds a parameter that is not trained by gradients.
  mlir::Value frozen(const std::string &name, const Shape &shape);
  /// Adds to @main, under its full name, the parameter that the layer argument `like` stands for.
  mlir::Value parameter(const TransformerArgument &like, const std::string &name, const Shape &viewed);
  /// Adds an input of the model.
  mlir::Value input(const std::string &name, mlir::Type element, const Shape &shape);
  /// Adds a layer argument for the value `given` of @main, and returns it; null for null.
  mlir::Value layerInput(mlir::Value given);

  /// Applies a linear layer: multiplies the last `contracted` dimensions of `x` by the module's weight, which replaces
  /// them by the dimensions `out`, and adds the bias if `bias`.
  mlir::Value linear(mlir::Value x, int64_t contracted, const Shape &out, const std::string &module,
                     WeightLayout layout, bool bias);
  /// Adds the bias `name` with the dimensions `out` to `x`.
  mlir::Value bias(mlir::Value x, const Shape &out, const std::string &name);
  /// Normalizes the last dimension of `x` with the parameters of `module`.
  mlir::Value norm(mlir::Value x, NormKind kind, double epsilon, const std::string &module);
  /// Applies the activation function.
  mlir::Value activation(mlir::Value x, Activation kind);
  /// Marks the operator of `result` as followed by dropout if `drops` and dropoutMarksEnabled; returns `result`.
  mlir::Value markDropout(mlir::Value result, bool drops);
  bool dropoutMarksEnabled = false; // whether operators get the attribute kerf.dropout, for predictions
  /// Returns the elements from, from + stride, ... below `to` of dimension `dim`.
  mlir::Value slice(mlir::Value x, int64_t dim, int64_t from, int64_t to, int64_t stride = 1);
  /// Concatenates the parts along dimension `dim`.
  mlir::Value concatenate(mlir::ValueRange parts, int64_t dim);
  /// Returns a constant vector.
  mlir::Value constant(llvm::ArrayRef<double> values);
  /// Returns the floating-point tensor type of `shape`.
  mlir::RankedTensorType type(const Shape &shape) const { return mlir::RankedTensorType::get(shape, floatType); }

  ir::Emitter &emitter() { return emit; }
  mlir::OpBuilder &opBuilder() { return builder; }
  mlir::Location location() const { return emit.loc; }
  /// Returns the arguments added so far.
  const std::vector<TransformerArgument> &arguments() const { return args; }
  mlir::Block &block() { return function.getBody().front(); }
  /// Ends the function with a return of `result`, and sets the type of the function.
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

/// The values that all layers share, computed once in @main. A value is null if the model does not need it. B samples,
/// H heads, S tokens.
struct SharedValues {
  mlir::Value cosine, sine; // rotary position embeddings [S, R] for R rotated elements of a head
  mlir::Value
      mask; // attention mask [1 or B, 1 or H, S, S]: floating-point (added to the scores) or boolean (true: visible)
  mlir::Value bias;       // trained bias [H, S, S], added to the scores
  mlir::Value memory;     // result of the encoder [B, S, hidden]
  mlir::Value memoryMask; // boolean mask of the encoder's padding [B, 1, S, S]
};
/// Returns the values that are not null, in the order in which a layer takes them.
llvm::SmallVector<mlir::Value> presentValues(const SharedValues &shared);

/// Writes the body of a layer. The arguments of the layer are the residual stream [B, S, hidden], then the values of
/// `shared`, then the parameters.
void writeLayer(FunctionWriter &writer, const TransformerModel &model, const ModuleNames &names, mlir::Value stream,
                const SharedValues &shared);

/// Applies the MLP or the experts of a layer to `x` [B, S, hidden] (TransformerExperts.cpp).
mlir::Value feedForward(FunctionWriter &writer, const TransformerModel &model, const ModuleNames &names, mlir::Value x);

// Position embeddings and masks for S tokens (TransformerPositions.cpp).

/// Sets `shared.cosine` and `shared.sine` to the rotary position embeddings of `sequence` tokens.
void addRotaryTables(FunctionWriter &writer, const TransformerModel &model, int64_t sequence, SharedValues &shared);
/// Returns the bias of ALiBi [H, S, S] (Press et al. 2022).
mlir::Value alibiBias(FunctionWriter &writer, const TransformerModel &model, int64_t sequence);
/// Returns a mask under which each token sees itself and the window - 1 tokens before it.
mlir::Value windowMask(FunctionWriter &writer, int64_t window, int64_t sequence);
/// Returns a mask [B, 1, S, S] that hides, from every query, the keys for which `mask` [B, S] is 0.
mlir::Value paddingMask(FunctionWriter &writer, mlir::Value mask);
/// The keys that a query sees: all of them, or those up to the position of the query.
enum class VisibleKeys { All, UpToQuery };
/// Returns the trained relative position bias of each pair of positions [H, S, S] (T5). With UpToQuery, keys after the
/// query are hidden too.
mlir::Value relativeBias(FunctionWriter &writer, const TransformerModel &model, const std::string &module,
                         int64_t sequence, VisibleKeys visible);
/// The score of a hidden key. Its softmax weight is 0, because exp(kHiddenScore - largest score) is 0.
inline constexpr double kHiddenScore = -1e9;

} // namespace kerf::frontend
