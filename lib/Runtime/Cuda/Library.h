// SPDX-License-Identifier: Apache-2.0
// NVIDIA's shared libraries, which are found and loaded while the program runs.
#pragma once

#include "kerf/Support/Result.h"
#include <string>

namespace kerf::runtime::cuda {

/// A loaded library. It stays loaded to the end of the process.
struct Library {
  void *handle = nullptr; // what dlopen returned
  std::string file;       // the path or name it was loaded by
};

/// Loads a library, e.g. "libnccl.so.2". It is looked for in the folders that the variable KERF_CUDA_LIBRARIES lists
/// (separated by ':'), then in the folders nvidia/*/lib of the Python packages of the active virtual environment
/// (VIRTUAL_ENV, CONDA_PREFIX), of the user and of the system, then where the system's loader looks. Fails with what
/// the loader says.
Result<Library> openLibrary(const std::string &name);

} // namespace kerf::runtime::cuda
