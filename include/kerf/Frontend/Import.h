// SPDX-License-Identifier: Apache-2.0
// A model becomes kerf IR: one function @main over whole tensors whose first result is the loss. Weights stay in
// their mapped files. What the function's arguments say of themselves is described with the dialect (KerfBase.td).
#pragma once

#include "kerf/Frontend/ModelSource.h"
#include "kerf/Package/TensorFile.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <limits>

namespace kerf {

/// On a module: texts that name the parameters of the original model which its exporter folded into constants or
/// merged.
inline constexpr const char *kFoldedAttr = "kerf.folded";

/// A capacity that drops no copy of a token.
inline constexpr double kExactExperts = std::numeric_limits<double>::infinity();

struct ImportOptions {
  /// F32 or F64: every floating tensor of the model is computed in it, explicit casts to another floating type
  /// included.
  DType floatType = DType::F32;
  /// "": the output "loss", else the first scalar output. A value's name, or "cross_entropy(LOGITS, LABELS)": the mean
  /// over labels that aren't -100.
  std::string loss;
  /// Names of other scalar values of an export, which become results of @main behind the loss and the updated buffers,
  /// in the type of the computation. No gradient flows into them.
  std::vector<std::string> metrics;
  /// Globs over initializer names. Trained are: the exporter's parameters, less `frozen`, and `trainable` whatever else
  /// holds.
  std::vector<std::string> trainable, frozen;
  /// Tensors that replace the model's own by name: .safetensors, .npz or a folder of .npy.
  std::optional<std::string> weights;
  /// Of a config.json: samples of one step and tokens of a sample; 0: 1, and the model's positions up to 2048. Exports
  /// have their own.
  int64_t globalBatch = 0, sequence = 0;
  /// Of a config.json with experts: slots of an expert in each sample, as a multiple of its equal share of the sample's
  /// choices, at most one for each token; copies beyond them are dropped. Nothing: kExactExperts, for predictions 1.
  std::optional<double> expertCapacity;
  /// For predictions. A config.json: a run of alike layers is one call with `kerf.repeat`, ops after which the
  /// configuration drops elements out carry `kerf.dropout`; no weights are read.
  bool structureOnly = false;
};

struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// Parameters and buffers as they lie in their file (their dtype, mapped where possible), constants as the program
  /// sees them, all by `kerf.name`. A name is absent where the model came without that tensor's data.
  TensorMap weights;
  std::vector<std::string> warnings;
  /// Files that the model says hold its weights, and that do not exist.
  std::vector<std::string> missingFiles;
};

/// A file by its suffix: .onnx, .mlir (StableHLO, or kerf IR as `writeModel` writes it), or .json (a Hugging Face
/// configuration; its weights are model.safetensors beside it). Or the same in memory.
Result<ImportedModel> importModel(mlir::MLIRContext &context, const ModelSource &source, const ImportOptions &options);

/// Writes the IR as text to `path`. Weights stay outside: the module's `kerf.weights` names the files that hold them,
/// later ones first: `source` (the model file it was imported from; "" for none), and a .safetensors beside `path` for
/// what isn't there by name.
Status writeModel(const ImportedModel &model, const std::string &source, const std::string &path);

} // namespace kerf
