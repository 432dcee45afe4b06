// SPDX-License-Identifier: Apache-2.0

// Compiles kernels in MLIR to PTX.
#pragma once

#include "kerf/Package/Native.h"
#include "mlir/IR/BuiltinOps.h"

namespace kerf::codegen {

/// A kernel of a module: the name of its function, and the number of addresses in the array that it takes.
struct PtxKernel {
  std::string entry;
  size_t addresses = 0;
};

/// Compiles a module of llvm.func, scf and arith ops to PTX for GPUs of the architecture `isa` and newer. Lowers the
/// module in place.
Result<std::string> compilePtx(mlir::ModuleOp module, const std::string &isa, const std::vector<PtxKernel> &kernels);

/// Returns the LLVM bitcode of Runtime/Cuda/Kernels/Routines.cu, which the build embeds.
std::string_view routineBitcode();

} // namespace kerf::codegen
