// SPDX-License-Identifier: Apache-2.0
// Compares our declarations of NVIDIA's functions with NVIDIA's own headers, where these are installed. The comparison
// happens while this file is compiled: the test only says that it did.
#include "../../lib/Runtime/Cuda/Driver.h"
#include "../../lib/Runtime/Cuda/Gemm.h"
#include "../../lib/Runtime/Cuda/Nccl.h"
#include "DeclarationsAlike.h"

#include <gtest/gtest.h>

#ifdef KERF_HAS_CUDA_HEADERS
#include <cuda.h>
#endif
#ifdef KERF_HAS_NCCL_HEADERS
#include <nccl.h>
#endif
#ifdef KERF_HAS_CUBLASLT_HEADERS
#include <cublasLt.h>
#endif

namespace kerf::runtime::cuda {
namespace {

TEST(CudaDeclarations, AreThoseOfTheDriversHeader) {
#ifdef KERF_HAS_CUDA_HEADERS
  KERF_ALIKE(Driver, init, cuInit);
  KERF_ALIKE(Driver, driverGetVersion, cuDriverGetVersion);
  KERF_ALIKE(Driver, getErrorName, cuGetErrorName);
  KERF_ALIKE(Driver, getErrorString, cuGetErrorString);
  KERF_ALIKE(Driver, deviceGetCount, cuDeviceGetCount);
  KERF_ALIKE(Driver, deviceGet, cuDeviceGet);
  KERF_ALIKE(Driver, deviceGetAttribute, cuDeviceGetAttribute);
  KERF_ALIKE(Driver, devicePrimaryCtxRetain, cuDevicePrimaryCtxRetain);
  KERF_ALIKE(Driver, devicePrimaryCtxRelease, cuDevicePrimaryCtxRelease);
  KERF_ALIKE(Driver, ctxSetCurrent, cuCtxSetCurrent);
  KERF_ALIKE(Driver, memGetInfo, cuMemGetInfo);
  KERF_ALIKE(Driver, memAlloc, cuMemAlloc);
  KERF_ALIKE(Driver, memFree, cuMemFree);
  KERF_ALIKE(Driver, memHostAlloc, cuMemHostAlloc);
  KERF_ALIKE(Driver, memFreeHost, cuMemFreeHost);
  KERF_ALIKE(Driver, memcpyHtoDAsync, cuMemcpyHtoDAsync);
  KERF_ALIKE(Driver, memcpyDtoHAsync, cuMemcpyDtoHAsync);
  KERF_ALIKE(Driver, memcpyDtoDAsync, cuMemcpyDtoDAsync);
  KERF_ALIKE(Driver, memsetD8Async, cuMemsetD8Async);
  KERF_ALIKE(Driver, streamCreate, cuStreamCreateWithPriority);
  KERF_ALIKE(Driver, streamDestroy, cuStreamDestroy);
  KERF_ALIKE(Driver, streamSynchronize, cuStreamSynchronize);
  KERF_ALIKE(Driver, streamQuery, cuStreamQuery);
  KERF_ALIKE(Driver, streamWaitEvent, cuStreamWaitEvent);
  KERF_ALIKE(Driver, eventCreate, cuEventCreate);
  KERF_ALIKE(Driver, eventRecord, cuEventRecord);
  KERF_ALIKE(Driver, eventElapsedTime, cuEventElapsedTime);
  KERF_ALIKE(Driver, eventDestroy, cuEventDestroy);
  KERF_ALIKE(Driver, moduleLoadDataEx, cuModuleLoadDataEx);
  KERF_ALIKE(Driver, moduleUnload, cuModuleUnload);
  KERF_ALIKE(Driver, moduleGetFunction, cuModuleGetFunction);
  KERF_ALIKE(Driver, launchKernel, cuLaunchKernel);
  KERF_ALIKE(Driver, streamBeginCapture, cuStreamBeginCapture);
  KERF_ALIKE(Driver, streamEndCapture, cuStreamEndCapture);
  KERF_ALIKE(Driver, graphInstantiate, cuGraphInstantiateWithFlags);
  KERF_ALIKE(Driver, graphLaunch, cuGraphLaunch);
  KERF_ALIKE(Driver, graphExecDestroy, cuGraphExecDestroy);
  KERF_ALIKE(Driver, graphDestroy, cuGraphDestroy);
  static_assert(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL == kThreadLocalCapture);
  static_assert(sizeof(CUjit_option) == sizeof(int) && CU_JIT_ERROR_LOG_BUFFER == kErrorLog &&
                CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES == kErrorLogBytes);
  static_assert(CUDA_ERROR_NOT_READY == kNotReady);
  static_assert(CUDA_ERROR_OUT_OF_MEMORY == kOutOfMemory && CUDA_ERROR_NO_DEVICE == kNoDevice &&
                CUDA_ERROR_DEVICE_UNAVAILABLE == kDeviceUnavailable && CUDA_ERROR_ECC_UNCORRECTABLE == kUncorrectable);
  static_assert(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == kMajorVersion &&
                CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == kMinorVersion);
  static_assert(CU_STREAM_NON_BLOCKING == kNonBlocking && CU_MEMHOSTALLOC_PORTABLE == kPortableHostMemory);
#else
  GTEST_SKIP() << "the driver's header cuda.h is not installed";
#endif
}

TEST(CudaDeclarations, AreThoseOfNcclsHeader) {
#ifdef KERF_HAS_NCCL_HEADERS
  KERF_ALIKE(Nccl, getVersion, ncclGetVersion);
  KERF_ALIKE(Nccl, getUniqueId, ncclGetUniqueId);
  KERF_ALIKE(Nccl, commInitRank, ncclCommInitRank);
  KERF_ALIKE(Nccl, commDestroy, ncclCommDestroy);
  KERF_ALIKE(Nccl, commAbort, ncclCommAbort);
  KERF_ALIKE(Nccl, commGetAsyncError, ncclCommGetAsyncError);
  KERF_ALIKE(Nccl, send, ncclSend);
  KERF_ALIKE(Nccl, recv, ncclRecv);
  KERF_ALIKE(Nccl, allReduce, ncclAllReduce);
  KERF_ALIKE(Nccl, reduceScatter, ncclReduceScatter);
  KERF_ALIKE(Nccl, allGather, ncclAllGather);
  static_assert(ncclSum == 0 && ncclMax == 2 && ncclMin == 3 && ncclUint8 == 1 && ncclInt32 == 2 && ncclUint32 == 3 &&
                ncclInt64 == 4 && ncclUint64 == 5 && ncclFloat16 == 6 && ncclFloat32 == 7 && ncclFloat64 == 8);
#if NCCL_VERSION_CODE >= 21000
  static_assert(ncclBfloat16 == 9);
#endif
  KERF_ALIKE(Nccl, groupStart, ncclGroupStart);
  KERF_ALIKE(Nccl, groupEnd, ncclGroupEnd);
  KERF_ALIKE(Nccl, getErrorString, ncclGetErrorString);
  static_assert(sizeof(ncclUniqueId) == sizeof(NcclId) && ncclInt8 == kNcclBytes && ncclInProgress == kNcclInProgress);
#else
  GTEST_SKIP() << "NCCL's header nccl.h is not installed";
#endif
}

TEST(CudaDeclarations, AreThoseOfCublasLtsHeader) {
#ifdef KERF_HAS_CUBLASLT_HEADERS
  KERF_ALIKE(CublasLt, create, cublasLtCreate);
  KERF_ALIKE(CublasLt, destroy, cublasLtDestroy);
  KERF_ALIKE(CublasLt, descCreate, cublasLtMatmulDescCreate);
  KERF_ALIKE(CublasLt, descDestroy, cublasLtMatmulDescDestroy);
  KERF_ALIKE(CublasLt, descSet, cublasLtMatmulDescSetAttribute);
  KERF_ALIKE(CublasLt, layoutCreate, cublasLtMatrixLayoutCreate);
  KERF_ALIKE(CublasLt, layoutDestroy, cublasLtMatrixLayoutDestroy);
  KERF_ALIKE(CublasLt, layoutSet, cublasLtMatrixLayoutSetAttribute);
  KERF_ALIKE(CublasLt, preferenceCreate, cublasLtMatmulPreferenceCreate);
  KERF_ALIKE(CublasLt, preferenceDestroy, cublasLtMatmulPreferenceDestroy);
  KERF_ALIKE(CublasLt, preferenceSet, cublasLtMatmulPreferenceSetAttribute);
  KERF_ALIKE(CublasLt, heuristic, cublasLtMatmulAlgoGetHeuristic);
  KERF_ALIKE(CublasLt, matmul, cublasLtMatmul);
  KERF_ALIKE(CublasLt, getVersion, cublasLtGetVersion);
  KERF_ALIKE(CublasLt, getStatusString, cublasLtGetStatusString);
  static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(CublasAlgorithm) &&
                sizeof(cublasLtMatmulHeuristicResult_t) == sizeof(CublasAnswer) &&
                offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == offsetof(CublasAnswer, workspaceBytes) &&
                offsetof(cublasLtMatmulHeuristicResult_t, state) == offsetof(CublasAnswer, state));
  static_assert(CUDA_R_32F == kTypeF32 && CUDA_R_64F == kTypeF64 && CUDA_R_16F == kTypeF16 && CUDA_R_16BF == kTypeBF16);
  static_assert(CUBLAS_COMPUTE_32F == kComputeF32 && CUBLAS_COMPUTE_64F == kComputeF64 &&
                CUBLAS_COMPUTE_32F_FAST_TF32 == kComputeTf32);
  static_assert(CUBLASLT_MATMUL_DESC_TRANSA == kTransposeA && CUBLASLT_MATMUL_DESC_TRANSB == kTransposeB &&
                CUBLASLT_MATMUL_DESC_EPILOGUE == kEpilogueKind && CUBLASLT_MATMUL_DESC_BIAS_POINTER == kBiasPointer &&
                CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER == kAuxPointer &&
                CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD == kAuxLeading);
  static_assert(CUBLASLT_EPILOGUE_BIAS == numberOf(Epilogue::Bias) &&
                CUBLASLT_EPILOGUE_GELU_BIAS == numberOf(Epilogue::GeluOfBias) &&
                CUBLASLT_EPILOGUE_GELU_AUX_BIAS == numberOf(Epilogue::KeptGeluOfBias) &&
                CUBLASLT_EPILOGUE_DGELU == numberOf(Epilogue::GeluGradient) &&
                CUBLASLT_EPILOGUE_DGELU_BGRAD == numberOf(Epilogue::GeluGradientAndSums) &&
                CUBLASLT_EPILOGUE_BGRADA == numberOf(Epilogue::SumsOfA) &&
                CUBLASLT_EPILOGUE_BGRADB == numberOf(Epilogue::SumsOfB) &&
                CUBLASLT_EPILOGUE_DEFAULT == numberOf(Epilogue::None));
  static_assert(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT == kBatchCount &&
                CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET == kBatchStride);
  static_assert(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES == kMostWorkspace &&
                CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK == kReductionSchemes &&
                CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE == kReductionInWorkspace);
  static_assert(CUBLAS_OP_N == 0 && CUBLAS_OP_T == 1 && CUBLAS_STATUS_NOT_SUPPORTED == kCublasNotSupported);
#else
  GTEST_SKIP() << "cuBLASLt's header cublasLt.h is not installed";
#endif
}

} // namespace
} // namespace kerf::runtime::cuda
