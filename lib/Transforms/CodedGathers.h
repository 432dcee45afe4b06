// SPDX-License-Identifier: Apache-2.0
// Gathers of sharded parameters that send payloads of a codec.
#pragma once

#include "Compression.h"

namespace kerf {

/// Replaces each gather of a parameter's shards, in @main and in the functions that it calls, by a gather of payloads
/// of the codec that the module names (kGatherCodecAttr). Vectors and small matrices are left as they are. Does nothing
/// where the module names no codec. Fails with an error where there is no such codec.
mlir::LogicalResult codeGathers(mlir::ModuleOp module);

} // namespace kerf
