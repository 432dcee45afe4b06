// SPDX-License-Identifier: Apache-2.0
// Functions of the driver that NVIDIA's own cuDNN asks for while it plans for a GPU that is described by its properties
// (unittests/Runtime/CudnnPlanTest.cpp). It loads code and looks at it, but runs nothing: the handles lead nowhere.
#include "CudaState.h"

using namespace kerf::standin::cuda;

namespace {
int handleOf(void **handle) {
  static char nowhere;
  *handle = &nowhere;
  return kSuccess;
}
} // namespace

KERF_CUDA_API cuLibraryLoadData(void **library, const void *, int *, void **, unsigned, int *, void **, unsigned) {
  return handleOf(library);
}
KERF_CUDA_API cuLibraryUnload(void *) { return kSuccess; }
KERF_CUDA_API cuLibraryGetKernel(void **kernel, void *, const char *) { return handleOf(kernel); }
KERF_CUDA_API cuKernelGetFunction(void **function, void *) { return handleOf(function); }
KERF_CUDA_API cuKernelSetAttribute(int, int, void *, int) { return kSuccess; }
KERF_CUDA_API cuKernelGetAttribute(int *value, int, void *, int) {
  *value = 0;
  return kSuccess;
}

// Functions that must exist, and that planning can do without.
#define KERF_NOT_SUPPORTED(name)                                                                                       \
  KERF_CUDA_API name() { return kNotSupported; }
KERF_NOT_SUPPORTED(cuGetExportTable)
KERF_NOT_SUPPORTED(cuCtxGetLimit)
KERF_NOT_SUPPORTED(cuCtxPopCurrent)
KERF_NOT_SUPPORTED(cuCtxPushCurrent)
KERF_NOT_SUPPORTED(cuLaunchCooperativeKernel)
KERF_NOT_SUPPORTED(cuLibraryLoadFromFile)
KERF_NOT_SUPPORTED(cuLinkAddData)
KERF_NOT_SUPPORTED(cuLinkComplete)
KERF_NOT_SUPPORTED(cuLinkCreate)
KERF_NOT_SUPPORTED(cuLinkDestroy)
KERF_NOT_SUPPORTED(cuOccupancyMaxPotentialClusterSize)
KERF_NOT_SUPPORTED(cuStreamGetCtx)
