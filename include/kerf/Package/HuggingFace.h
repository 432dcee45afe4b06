// SPDX-License-Identifier: Apache-2.0
// The weights of a Hugging Face folder: model.safetensors, or the files that model.safetensors.index.json names.
#pragma once

#include "kerf/Package/TensorFile.h"

namespace kerf {

/// Nothing where the folder has neither file.
Result<std::optional<TensorMap>> readHuggingFaceWeights(const std::string &folder);

/// Largest file that Transformers writes, in bytes.
inline constexpr int64_t kHuggingFaceShardBytes = 5'000'000'000;

/// Writes the folder's weights under the tensors' names, in several files with an index where they have more than
/// `shardBytes` bytes, and `config` (JSON text; empty: none) as config.json, with the tensors' floating type as its
/// `dtype`. Weights that were in the folder before are replaced. Each file is written whole or not at all.
Status writeHuggingFace(const std::string &folder, const TensorMap &tensors, const std::string &config,
                        int64_t shardBytes = kHuggingFaceShardBytes);

} // namespace kerf
