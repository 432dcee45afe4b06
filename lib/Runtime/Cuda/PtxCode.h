// SPDX-License-Identifier: Apache-2.0
// The compiled kernels of a package on a GPU: PTX that the driver has compiled.
#pragma once

#include "Context.h"
#include "kerf/Package/Ptx.h"

namespace kerf::runtime::cuda {

/// One compiled kernel of a package.
struct PtxKernel {
  const package::Function *function = nullptr; // the program's function that the kernel computes
  package::KernelSpace space;                  // its iteration space
  DriverFunction entry = nullptr;              // null while memory is only being planned
};

/// The compiled kernels of a program. Empty if the package has no code for this GPU.
struct PtxCode : DeviceCode {
  std::map<std::string_view, PtxKernel> kernels; // by name of the program's function
  std::string whyUnused;        // why none of the package's code is used; empty if it is used or there is none
  std::shared_ptr<void> module; // keeps the driver's module loaded

  bool has(std::string_view function) const override { return kernels.count(function) > 0; }
  std::string reasonUnused() const override { return whyUnused; }
};

/// Loads the newest PTX of the package that the GPU can run. The program must have passed checkProgram and must
/// outlive the result. With CodeUse::Plan, nothing is loaded and every kernel of the program is listed. Fails if the
/// driver cannot compile the PTX; the message has the driver's log.
Result<std::shared_ptr<const PtxCode>> loadPtx(const std::shared_ptr<Context> &context, const package::Program &program,
                                               CodeUse use);

} // namespace kerf::runtime::cuda
