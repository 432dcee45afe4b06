// SPDX-License-Identifier: Apache-2.0

// Compiles the kernels of a program: to machine code for processors, as vectorized loops in MLIR, and to PTX for NVIDIA
// GPUs. LLVM lowers both. The code does not depend on the machine that runs the compiler.
#pragma once

#include "kerf/Package/Native.h"

namespace kerf::codegen {

/// Instruction sets for which kernels are compiled by default, from the oldest to the newest: the levels of the x86-64
/// psABI that have AVX2 and AVX-512.
inline constexpr const char *kInstructionSets[] = {"x86-64-v3", "x86-64-v4"};

/// Architecture of NVIDIA GPUs for which kernels are compiled by default: Ampere, the oldest that the runtime drives.
/// The driver compiles the PTX for the GPU at hand, so newer GPUs run it as well.
inline constexpr const char *kGpuArchitecture = "sm_80";

/// Compiles every kernel of the program for each instruction set of `isas`, for example "x86-64-v3", and each
/// architecture, for example "sm_80". Returns null if the program has no kernel.
Result<std::shared_ptr<const package::NativeCode>> compileKernels(const package::Program &program,
                                                                  const std::vector<std::string> &isas);

} // namespace kerf::codegen
