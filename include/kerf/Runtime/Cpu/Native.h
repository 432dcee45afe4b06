// SPDX-License-Identifier: Apache-2.0
// The compiled kernels of a package, loaded into the memory of a rank on a CPU.
#pragma once

#include "kerf/Package/Native.h"
#include "kerf/Runtime/Device.h"
#include <map>

namespace kerf::runtime {

/// One compiled kernel of a package.
struct NativeKernel {
  const package::Function *function = nullptr; // the program's function that the kernel computes
  package::KernelSpace space;                  // the iteration space that the kernel loops over
  package::NativeEntry entry = nullptr;        // address of the machine code; null while memory is only being planned
  const void *const *routines = nullptr;       // table of the runtime functions that the machine code calls
};

/// The compiled kernels of a program, by function. Empty if the package has no code for this processor.
struct NativeKernels : DeviceCode {
  std::map<std::string_view, NativeKernel> kernels; // kernels, by name of the program's function
  std::string isa;                                  // instruction set of the loaded image, for example "x86-64-v3"
  std::string whyUnused;              // why none of the package's code is used; empty if it is used or there is none
  std::vector<const void *> routines; // the table that NativeKernel::routines points to
  std::shared_ptr<const void> memory; // the executable memory that holds the machine code

  bool has(std::string_view function) const override { return find(function) != nullptr; }
  std::string reasonUnused() const override { return whyUnused; }
  /// Returns the compiled kernel of a function, or null if there is none.
  const NativeKernel *find(std::string_view function) const;
};

/// Loads the best image of machine code in the package that this processor can run. The program must have passed
/// checkProgram and must outlive the result. With CodeUse::Plan, no code is loaded and every kernel of the
/// program is listed.
Result<std::shared_ptr<const NativeKernels>> loadNative(const package::Program &program, CodeUse use = CodeUse::Run);

/// Returns whether this processor has the instruction set `isa`, "x86-64-v3" or "x86-64-v4" as the x86-64 psABI defines
/// them; false for any other name.
bool processorHas(std::string_view isa);

} // namespace kerf::runtime
