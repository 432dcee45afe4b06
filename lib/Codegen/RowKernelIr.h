// SPDX-License-Identifier: Apache-2.0

// Generates the MLIR of a row kernel (kerf/Package/RowKernel.h): vector code, one row at a time.
#pragma once

#include "kerf/Package/Native.h"
#include "mlir/IR/BuiltinOps.h"

namespace kerf::codegen {

/// Appends the row kernel `function`, whose iteration space is `space`, to `module` as an llvm.func with the signature
/// of package::NativeEntry. The kernel must have passed checkTypes. Appends the names of runtime routines that the
/// kernel calls to `routines`, unless present.
void buildRowKernel(mlir::ModuleOp module, const package::Function &function, const package::KernelSpace &space,
                    std::vector<std::string> &routines);

} // namespace kerf::codegen
