// SPDX-License-Identifier: Apache-2.0
// Reads device programs: kerf IR with local shapes and explicit collectives, as `kerf compile --device-ir` writes it
// and people edit it.
#pragma once

#include "kerf/Frontend/Import.h"

namespace kerf {

/// Reads the device program in the file `path` without changing it. `weights` names a file of tensors that replace the
/// program's weights by name. Fails when the file is not valid kerf IR or has no `kerf.mesh`.
Result<ImportedModel> readDeviceProgram(mlir::MLIRContext &context, const std::string &path,
                                        const std::optional<std::string> &weights);

} // namespace kerf
