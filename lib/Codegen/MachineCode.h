// SPDX-License-Identifier: Apache-2.0
// From kernels in MLIR to one block of machine code.
#pragma once

#include "kerf/Package/Native.h"
#include "mlir/IR/BuiltinOps.h"

namespace kerf::codegen {

/// A fault of Kerf: what it wrote could not be made code.
Error broken(const std::string &what);

/// The ELF object of a module of llvm.func, scf, arith, math and vector ops for an x86-64 processor; the module is
/// lowered in place.
Result<std::string> compileObject(mlir::ModuleOp module, const std::string &isa);

/// What of the object is loaded, put together as it lies in memory: references between its parts are resolved, so that
/// it runs wherever it is mapped. `kernels` are its functions.
Result<package::NativeImage> linkImage(const std::string &object, const std::string &isa,
                                       const std::vector<std::string> &kernels);

} // namespace kerf::codegen
