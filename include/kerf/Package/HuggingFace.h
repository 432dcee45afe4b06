// SPDX-License-Identifier: Apache-2.0

// Reading and writing the weights of a Hugging Face model folder: model.safetensors, or the files that
// model.safetensors.index.json lists.
#pragma once

#include "kerf/Package/TensorFile.h"

namespace kerf {

/// Reads all weights of a Hugging Face folder under the tensors' names. Returns no value where the folder has neither
/// model.safetensors nor an index; fails where a file is damaged or the index names a file outside of the folder.
Result<std::optional<TensorMap>> readHuggingFaceWeights(const std::string &folder);

/// Default size limit, in bytes, of one weights file; the limit that Hugging Face Transformers uses.
inline constexpr int64_t kHuggingFaceShardBytes = 5'000'000'000;

/// Writes `tensors` into `folder` as Hugging Face weights, split into several files with an index where they exceed
/// `shardBytes` bytes. Writes `config` (JSON text; empty: none) as config.json, with its `dtype` set to the tensors'
/// floating type. Replaces weights that the folder held before; each file is written as a whole or not at all.
Status writeHuggingFace(const std::string &folder, const TensorMap &tensors, const std::string &config,
                        int64_t shardBytes = kHuggingFaceShardBytes);

} // namespace kerf
