// SPDX-License-Identifier: Apache-2.0

// Generates the MLIR of a kernel for NVIDIA GPUs, with one thread's work as scalar code.
#pragma once

#include "kerf/Package/Native.h"
#include "mlir/IR/BuiltinOps.h"

namespace kerf::codegen {

/// Appends the kernel `function`, whose iteration space is `space`, to `module` as an llvm.func named `entry` with the
/// interface that kerf/Package/Ptx.h describes. The types of its values must be those that kernels can store
/// (checkTypes).
void buildPtxKernel(mlir::ModuleOp module, const package::Function &function, const package::KernelSpace &space,
                    const std::string &entry);

} // namespace kerf::codegen
