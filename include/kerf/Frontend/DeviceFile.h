// SPDX-License-Identifier: Apache-2.0
// Kerf IR at the device level, as `kerf compile --device-ir` writes it and people edit it.
#pragma once

#include "kerf/Frontend/Import.h"

namespace kerf {

/// The module as it is written, types included; `weights` as in ImportOptions. Errors: what is no kerf IR, has no
/// `kerf.mesh`, or is not valid.
Result<ImportedModel> readDeviceProgram(mlir::MLIRContext &context, const std::string &path,
                                        const std::optional<std::string> &weights);

} // namespace kerf
