// SPDX-License-Identifier: Apache-2.0
// Machine code for the functions of a program that are kernels: loops of vectors in MLIR, lowered by LLVM. The same
// code whatever machine it is made on.
#pragma once

#include "kerf/Package/Native.h"

namespace kerf::codegen {

/// Instruction sets that code is made for, worst first: those of the x86-64 psABI whose vectors are worth it.
inline constexpr const char *kIsas[] = {"x86-64-v3", "x86-64-v4"};

/// Code of every kernel for each of `isas`. Null where the program has no kernel.
Result<std::shared_ptr<const package::NativeCode>> compileKernels(const package::Program &program,
                                                                  const std::vector<std::string> &isas);

} // namespace kerf::codegen
