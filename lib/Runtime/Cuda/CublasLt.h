// SPDX-License-Identifier: Apache-2.0
// The functions of NVIDIA's library of matrix products, cuBLASLt, that the device uses, with declarations of our own
// (the "cuBLAS" reference documents them under "Using the cuBLASLt API").
#pragma once

#include "Context.h"

namespace kerf::runtime::cuda {

using CublasStatus = int; // cublasStatus_t; 0 is success

/// An algorithm for one problem. Only the library knows the meaning of its words.
struct CublasAlgorithm {
  uint64_t words[8]; // cublasLtMatmulAlgo_t
};
/// One answer of the library's heuristics (cublasLtMatmulHeuristicResult_t).
struct CublasAnswer {
  CublasAlgorithm algorithm;
  size_t workspaceBytes; // temporary memory that the algorithm needs
  CublasStatus state;    // 0 if the algorithm can run the problem
  float waves;           // how often the work fills the GPU
  int reserved[4];
};

// Numbers of the library's enumerations that the device uses.
inline constexpr int kTypeF32 = 0, kTypeF64 = 1, kTypeF16 = 2, kTypeBF16 = 14, kTypeE4M3 = 28,
                     kTypeE5M2 = 29;                                        // cudaDataType_t
inline constexpr int kComputeF32 = 68, kComputeF64 = 70, kComputeTf32 = 77; // cublasComputeType_t
inline constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogueKind = 7, kBiasPointer = 8, kAuxPointer = 11,
                     kAuxLeading = 12, kScaleOfA = 17, kScaleOfB = 18; // cublasLtMatmulDescAttributes_t
inline constexpr int kBatchCount = 5, kBatchStride = 6;                // cublasLtMatrixLayoutAttribute_t
inline constexpr int kMostWorkspace = 1, kReductionSchemes = 3;        // cublasLtMatmulPreferenceAttributes_t
/// Partial sums of a split contraction go to the workspace in the compute type, and are added in a fixed order.
inline constexpr uint32_t kReductionInWorkspace = 2; // CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
inline constexpr int kLowestCublasLt = 120000;       // 10000 * major + 100 * minor + patch
inline constexpr CublasStatus kCublasNotSupported = 15;

#define KERF_CUBLASLT_FUNCTIONS(KERF_CUBLASLT)                                                                         \
  KERF_CUBLASLT(create, "cublasLtCreate", void **)                                                                     \
  KERF_CUBLASLT(destroy, "cublasLtDestroy", void *)                                                                    \
  KERF_CUBLASLT(descCreate, "cublasLtMatmulDescCreate", void **, int, int)                                             \
  KERF_CUBLASLT(descDestroy, "cublasLtMatmulDescDestroy", void *)                                                      \
  KERF_CUBLASLT(descSet, "cublasLtMatmulDescSetAttribute", void *, int, const void *, size_t)                          \
  KERF_CUBLASLT(layoutCreate, "cublasLtMatrixLayoutCreate", void **, int, uint64_t, uint64_t, int64_t)                 \
  KERF_CUBLASLT(layoutDestroy, "cublasLtMatrixLayoutDestroy", void *)                                                  \
  KERF_CUBLASLT(layoutSet, "cublasLtMatrixLayoutSetAttribute", void *, int, const void *, size_t)                      \
  KERF_CUBLASLT(preferenceCreate, "cublasLtMatmulPreferenceCreate", void **)                                           \
  KERF_CUBLASLT(preferenceDestroy, "cublasLtMatmulPreferenceDestroy", void *)                                          \
  KERF_CUBLASLT(preferenceSet, "cublasLtMatmulPreferenceSetAttribute", void *, int, const void *, size_t)              \
  KERF_CUBLASLT(heuristic, "cublasLtMatmulAlgoGetHeuristic", void *, void *, void *, void *, void *, void *, void *,   \
                int, CublasAnswer *, int *)                                                                            \
  KERF_CUBLASLT(matmul, "cublasLtMatmul", void *, void *, const void *, const void *, void *, const void *, void *,    \
                const void *, const void *, void *, void *, void *, const CublasAlgorithm *, void *, size_t,           \
                DriverStream)

/// The table of cuBLASLt's functions.
struct CublasLt {
#define KERF_MEMBER(name, exported, ...) CublasStatus (*name)(__VA_ARGS__) = nullptr;
  KERF_CUBLASLT_FUNCTIONS(KERF_MEMBER)
#undef KERF_MEMBER
  size_t (*getVersion)() = nullptr;
  const char *(*getStatusString)(CublasStatus) = nullptr;
  int version = 0;  // 10000 * major + 100 * minor + patch
  std::string file; // the path or name that the library was loaded by
};

/// Loads cuBLASLt on the first call. Fails where it is missing or too old.
Result<const CublasLt *> loadCublasLt();

/// cuBLASLt's state for one GPU.
class CublasHandle {
public:
  CublasHandle(const CublasLt &library, void *handle) : library(library), handle(handle) {}
  ~CublasHandle() { library.destroy(handle); }
  CublasHandle(const CublasHandle &) = delete;
  const CublasLt &library;
  void *const handle;
};

/// Returns cuBLASLt's state for the GPU, which is made on the first call.
Result<const CublasHandle *> cublasOf(Context &context);

/// Returns the error for a call of cuBLASLt that failed; `what` says what GPU `device` could not do.
Error cublasError(const CublasLt &library, CublasStatus status, int device, std::string_view what);

} // namespace kerf::runtime::cuda
