// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Package/Package.h"

namespace kerf {

/// The name of the attribute that marks a function as one fused kernel (package::Function::kernel).
inline constexpr const char *kKernelAttr = "kerf.kernel";

/// Returns the device-level module as the plain data that the runtime executes. Fails where the module has an op or a
/// type that packages cannot express.
Result<package::Program> emitPackage(mlir::ModuleOp module);

/// Returns the package's name of an element type (DType::F32 for f32, DType::Bool for i1, ...), or nothing for a type
/// that packages cannot express.
std::optional<DType> dtypeOf(mlir::Type elementType);

} // namespace kerf
