// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Package/Package.h"

namespace kerf {

/// Of a function that is a kernel (package::Function::kernel).
inline constexpr const char *kKernelAttr = "kerf.kernel";

/// The device-level module as the plain data that the runtime reads. Errors: an op or a type that packages don't have.
Result<package::Program> emitPackage(mlir::ModuleOp module);

/// f32 -> DType::F32, i1 -> Bool, ...; nothing for other types.
std::optional<DType> dtypeOf(mlir::Type elementType);

} // namespace kerf
