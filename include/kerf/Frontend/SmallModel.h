// SPDX-License-Identifier: Apache-2.0
// Imports the model of a config.json with reduced sizes, for a trial run on a few CPU ranks. The structure of the model
// (kind of attention, experts and their groups, windows, rotary embeddings, shared heads) stays.
#pragma once

#include "kerf/Frontend/Import.h"

namespace kerf {

/// The requirements that the sizes of a reduced model have to meet.
struct SmallSizes {
  /// The number of layers; for a model with encoder and decoder, of both together.
  int64_t layers = 1;
  /// Whether encoder and decoder have `layers` layers each, so that pipeline stages may end in any of them.
  bool layersInEachPart = false;
  int64_t batch = 1; // samples in a step
  /// The largest shard counts of the sequence, of the heads and of the experts in the plan.
  int64_t sequenceShards = 1, headShards = 1, expertShards = 1;
  /// The shard count of the heads in the full plan. If it exceeds the number of key/value heads, ranks of the reduced
  /// model share a key/value head too. If it does not divide their number, it does not in the reduced model either.
  int64_t headRanks = 1;
};

/// A model with reduced sizes.
struct SmallModel {
  ImportedModel model;            // without weights
  int64_t sequence = 0;           // tokens of a sample
  std::vector<std::string> notes; // one text for each reduced size: "hidden size 4096 -> 32"
};

/// Reads the configuration `config`, reduces the sizes that `options` ask for to `sizes`, and imports the reduced model
/// as IR. Writes no file and reads no weights. Fails for configurations that importModel refuses.
Result<SmallModel> importSmallModel(mlir::MLIRContext &context, const ModelSource &config, const ImportOptions &options,
                                    const SmallSizes &sizes);

} // namespace kerf
