// SPDX-License-Identifier: Apache-2.0
// Finds and opens NVIDIA's libraries.
#pragma once

#include "../Accelerator/Library.h"

namespace kerf::runtime::cuda {

/// Loads a library, e.g. "libnccl.so.2". It is looked for in the folders that the variable KERF_CUDA_LIBRARIES lists
/// (separated by ':'), then in the folders nvidia/*/lib of the Python packages of the active virtual environment
/// (VIRTUAL_ENV, CONDA_PREFIX), of the user and of the system, then where the system's loader looks. Fails with what
/// the loader says.
Result<Library> openLibrary(const std::string &name);

} // namespace kerf::runtime::cuda
