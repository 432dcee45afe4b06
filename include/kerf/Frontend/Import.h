// SPDX-License-Identifier: Apache-2.0
// Imports a model as kerf IR: one function @main over unsharded tensors, whose first result is the loss. Weights stay
// in their memory-mapped files. KerfBase.td describes the attributes of the function's arguments.
#pragma once

#include "kerf/Frontend/ModelSource.h"
#include "kerf/Package/TensorFile.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <limits>

namespace kerf {

/// The name of a module attribute: a list of texts that name the parameters which the exporter folded into constants or
/// merged with other parameters.
inline constexpr const char *kFoldedAttr = "kerf.folded";

/// The expert capacity that drops no token.
inline constexpr double kExactExperts = std::numeric_limits<double>::infinity();

/// The options of an import.
struct ImportOptions {
  /// The type, F32 or F64, in which every floating-point tensor of the model is computed, even after a cast to another
  /// floating-point type.
  DType floatType = DType::F32;
  /// The loss: the name of a scalar value, or "cross_entropy(LOGITS, LABELS)" for the mean cross entropy over labels
  /// that are not -100. "" stands for the output "loss", or else the first scalar output.
  std::string loss;
  /// Names of further scalar values of an export. Each becomes a result of @main, after the loss and the updated
  /// buffers, in the type of the computation. No gradient flows into these values.
  std::vector<std::string> metrics;
  /// Glob patterns of tensor names. The trained tensors are the exporter's parameters without those in `frozen`, and
  /// all tensors in `trainable`.
  std::vector<std::string> trainable, frozen;
  /// The path of a file whose tensors replace the model's own tensors of the same names: .safetensors, .npz or a folder
  /// of .npy. Absent: none.
  std::optional<std::string> weights;
  /// The number of samples in one step of a config.json's model; 0: 1 sample. An export has a batch of its own.
  int64_t globalBatch = 0;
  /// The number of tokens in a sample of a config.json's model; 0: the model's maximum positions, at most 2048.
  int64_t sequence = 0;
  /// The capacity of each expert of a config.json's model, as a multiple of the expert's equal share of the sample's
  /// routed tokens; at most one slot per token. Tokens routed beyond the capacity are dropped. Absent: kExactExperts
  /// for training, 1 for predictions.
  std::optional<double> expertCapacity;
  /// Whether a config.json's model is imported for a prediction only. Then a run of equal layers is one call with the
  /// attribute `kerf.repeat`, operators followed by dropout have the attribute `kerf.dropout`, and no weights are read.
  bool structureOnly = false;
};

/// A model as kerf IR with its weights.
struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// Tensors by `kerf.name`: parameters and buffers in the types of their file (memory-mapped where possible), and
  /// constants in the types of the program. A tensor whose data the model lacks is absent.
  TensorMap weights;
  std::vector<std::string> warnings;
  /// Weights files to which the model refers and that do not exist.
  std::vector<std::string> missingFiles;
};

/// Imports a model from a file or from memory. The suffix of a file selects the format: .onnx, .mlir (StableHLO text,
/// or kerf IR as `writeModel` writes it), or .json (a Hugging Face configuration with model.safetensors beside it).
/// Fails with a message for the user when the model is malformed or not supported.
Result<ImportedModel> importModel(mlir::MLIRContext &context, const ModelSource &source, const ImportOptions &options);

/// Writes the IR as text to `path`, without weights. The module attribute `kerf.weights` names the files with the
/// weights: `source`, the model file of the import ("" for none), and a .safetensors file beside `path` with the
/// tensors that `source` lacks. Tensors of later files replace those of earlier files. Fails when a file cannot be
/// written.
Status writeModel(const ImportedModel &model, const std::string &source, const std::string &path);

} // namespace kerf
