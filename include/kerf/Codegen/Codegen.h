// SPDX-License-Identifier: Apache-2.0

// Compiles the kernels of a program to machine code: vectorized loops in MLIR, lowered by LLVM. The code does not
// depend on the machine that runs the compiler.
#pragma once

#include "kerf/Package/Native.h"

namespace kerf::codegen {

/// Instruction sets for which kernels are compiled by default, from the oldest to the newest: the levels of the x86-64
/// psABI that have AVX2 and AVX-512.
inline constexpr const char *kInstructionSets[] = {"x86-64-v3", "x86-64-v4"};

/// Compiles every kernel of the program for each instruction set of `isas`. Returns null if the program has no kernel.
Result<std::shared_ptr<const package::NativeCode>> compileKernels(const package::Program &program,
                                                                  const std::vector<std::string> &isas);

} // namespace kerf::codegen
