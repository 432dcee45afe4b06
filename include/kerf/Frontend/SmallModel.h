// SPDX-License-Identifier: Apache-2.0
// A configuration's model with small sizes, for a trial run on a few CPU ranks. The forms that the configuration chose
// (kind of attention, experts and their groups, windows, rotations, shared heads) stay.
#pragma once

#include "kerf/Frontend/Import.h"

namespace kerf {

/// The requirements that the sizes of a small model have to meet. `...Shards` are the most ranks that a plan cuts a
/// dimension over.
struct SmallSizes {
  /// Layers of the model; where it has an encoder and a decoder, of both together.
  int64_t layers = 1;
  /// Encoder and decoder have `layers` each, so that stages may end in any layer of either.
  bool layersInEachPart = false;
  int64_t batch = 1;
  int64_t sequenceShards = 1, headShards = 1, expertShards = 1;
  /// Ranks over which the full plan cuts heads. Where they are more than the heads of keys and values, ranks of the
  /// small model share such a head, too.
  int64_t headRanks = 1;
};

struct SmallModel {
  ImportedModel model; // without weights
  int64_t sequence = 0;
  std::vector<std::string> notes; // what became of each size: "hidden size 4096 -> 32"
};

/// Reads the configuration with the full sizes that `options` ask for, reduces them and writes the model as IR. No file
/// is written and no weights are read.
Result<SmallModel> importSmallModel(mlir::MLIRContext &context, const ModelSource &config, const ImportOptions &options,
                                    const SmallSizes &sizes);

} // namespace kerf
