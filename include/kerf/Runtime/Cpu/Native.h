// SPDX-License-Identifier: Apache-2.0
// The code of a package, as a rank has it in memory.
#pragma once

#include "kerf/Package/Native.h"
#include "kerf/Runtime/Device.h"
#include <map>

namespace kerf::runtime {

struct NativeKernel {
  const package::Function *function = nullptr;
  package::KernelSpace space;
  package::NativeEntry entry = nullptr; // none where nothing is run
  const void *const *routines = nullptr;
};

/// The kernels of a program that are one instruction: none where there is no code for this processor.
struct NativeKernels : DeviceCode {
  std::map<std::string_view, NativeKernel> kernels;
  std::string isa;                    // that is used
  std::string whyUnused;              // where the program has code, and there is none
  std::vector<const void *> routines; // the table
  std::shared_ptr<const void> memory; // of the code

  bool has(std::string_view function) const override { return find(function) != nullptr; }
  std::string unused() const override { return whyUnused; }
  const NativeKernel *find(std::string_view function) const;
};

/// Maps the best image that this processor runs. `program` must have passed checkProgram and outlive what is returned.
Result<std::shared_ptr<const NativeKernels>> loadNative(const package::Program &program, CodeUse use = CodeUse::Run);

/// Of x86-64 (psABI): "x86-64-v3", "x86-64-v4".
bool processorHas(std::string_view isa);

} // namespace kerf::runtime
