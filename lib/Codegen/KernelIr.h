// SPDX-License-Identifier: Apache-2.0
// A kernel of a program as MLIR: loops of scf over vectors of arith, pointers of the LLVM dialect.
#pragma once

#include "kerf/Package/Native.h"
#include "mlir/IR/BuiltinOps.h"

namespace kerf::codegen {

/// Appends `function`, which kernelSpace takes, to `module` as an llvm.func of the interface of NativeEntry. Names of
/// routines that are new are appended to `routines`.
Status buildKernel(mlir::ModuleOp module, const package::Function &function, const package::KernelSpace &space,
                   std::vector<std::string> &routines);

} // namespace kerf::codegen
