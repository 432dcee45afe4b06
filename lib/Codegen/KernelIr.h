// SPDX-License-Identifier: Apache-2.0

// Generates the MLIR of a kernel: scf loops over arith and vector ops, with pointers of the LLVM dialect.
#pragma once

#include "kerf/Package/Native.h"
#include "mlir/IR/BuiltinOps.h"

namespace kerf::codegen {

/// Appends the kernel `function`, whose iteration space is `space`, to `module` as an llvm.func with the signature of
/// package::NativeEntry. Appends the names of runtime routines that the kernel calls to `routines`, unless present.
/// The kernel must have passed checkTypes.
void buildKernel(mlir::ModuleOp module, const package::Function &function, const package::KernelSpace &space,
                 std::vector<std::string> &routines);

} // namespace kerf::codegen
