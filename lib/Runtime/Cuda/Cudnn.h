// SPDX-License-Identifier: Apache-2.0
// The functions of NVIDIA's library cuDNN that the device uses, with declarations of our own. They are its graph API:
// every object is a descriptor, whose attributes are set one by one and which is then finalized. cuDNN's reference
// documents them ("Backend API").
#pragma once

#include "Driver.h"
#include <cstddef>
#include <cstdint>

namespace kerf::runtime::cuda {

using CudnnResult = int; // cudnnStatus_t; 0 is success
using CudnnDescriptor = void *;
using CudnnHandle = void *;

/// The functions: KERF_CUDNN(name of the member, exported name, types of the parameters).
#define KERF_CUDNN_FUNCTIONS(KERF_CUDNN)                                                                               \
  KERF_CUDNN(create, "cudnnCreate", CudnnHandle *)                                                                     \
  KERF_CUDNN(destroy, "cudnnDestroy", CudnnHandle)                                                                     \
  KERF_CUDNN(setStream, "cudnnSetStream", CudnnHandle, DriverStream)                                                   \
  KERF_CUDNN(createDescriptor, "cudnnBackendCreateDescriptor", int, CudnnDescriptor *)                                 \
  KERF_CUDNN(destroyDescriptor, "cudnnBackendDestroyDescriptor", CudnnDescriptor)                                      \
  KERF_CUDNN(finalize, "cudnnBackendFinalize", CudnnDescriptor)                                                        \
  KERF_CUDNN(setAttribute, "cudnnBackendSetAttribute", CudnnDescriptor, int, int, int64_t, const void *)               \
  KERF_CUDNN(getAttribute, "cudnnBackendGetAttribute", CudnnDescriptor, int, int, int64_t, int64_t *, void *)          \
  KERF_CUDNN(execute, "cudnnBackendExecute", CudnnHandle, CudnnDescriptor, CudnnDescriptor)

/// The table of cuDNN's functions.
struct Cudnn {
#define KERF_MEMBER(name, exported, ...) CudnnResult (*name)(__VA_ARGS__) = nullptr;
  KERF_CUDNN_FUNCTIONS(KERF_MEMBER)
#undef KERF_MEMBER
  size_t (*getVersion)() = nullptr;
  const char *(*getErrorString)(CudnnResult) = nullptr;
  void (*getLastErrorString)(char *, size_t) = nullptr;
  int64_t version = 0; // 10000 * major + 100 * minor + patch
};

/// Lowest version of cuDNN, in the form of Cudnn::version. NVIDIA's front end works around wrong gradients of attention
/// in earlier ones: where the number of keys is no multiple of 128 (to 9.15), and in 9.10.
inline constexpr int64_t kLowestCudnn = 91600;

/// Loads cuDNN on the first call. Fails where it is missing or too old.
Result<const Cudnn *> loadCudnn();
/// Loads NVIDIA's run-time compiler (NVRTC) on the first call. cuDNN compiles its kernels of attention with it, and
/// proposes no engine for them where it is missing.
Status loadRuntimeCompiler();

/// Returns the error for a call of cuDNN that failed; `what` says what could not be done.
Error cudnnError(const Cudnn &cudnn, CudnnResult result, std::string_view what);

/// Whether a result says that cuDNN has no implementation of a graph; other failures are errors.
constexpr bool isUnsupported(CudnnResult result) { return result >= 3000 && result < 4000; }

/// Kinds of descriptors (cudnnBackendDescriptorType_t).
enum CudnnKind : int {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristics = 4,
  kExecutionPlan = 5,
  kConvolutionForward = 10,
  kConvolutionFilterGradient = 11,
  kConvolutionDataGradient = 12,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kReshapeOperation = 31,
  kDeviceProperties = 38,
};

/// Attributes of descriptors (cudnnBackendAttributeName_t).
enum CudnnAttribute : int {
  kPointwiseMode = 0,
  kPointwiseComputeType = 1,
  kPointwiseAxis = 9,
  kConvolutionComputeType = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPaddingAfter = 104,
  kConvolutionPaddingBefore = 105,
  kConvolutionDims = 106,
  kHeuristicsMode = 200,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kHeuristicsDevice = 204,
  kEngineConfigEngine = 300,
  kPlanHandle = 400,
  kPlanEngineConfig = 401,
  kPlanWorkspaceBytes = 402,
  kPlanDevice = 407,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kDataGradientAlpha = 706,
  kDataGradientBeta = 707,
  kDataGradientConvolution = 708,
  kDataGradientW = 709,
  kDataGradientDx = 710,
  kDataGradientDy = 711,
  kFilterGradientAlpha = 712,
  kFilterGradientBeta = 713,
  kFilterGradientConvolution = 714,
  kFilterGradientDw = 715,
  kFilterGradientX = 716,
  kFilterGradientDy = 717,
  kPointwiseDescriptor = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kPointwiseT = 758,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDims = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineIndex = 1301,
  kEngineNumericalNotes = 1303,
  kMatmulComputeType = 1500,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kMatmulDescriptor = 1523,
  kReductionOperator = 1600,
  kReductionComputeType = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kReductionDescriptor = 1612,
  kReshapeX = 2200,
  kReshapeY = 2201,
  kDeviceJson = 2702,
};

/// Types of attributes (cudnnBackendAttributeType_t).
enum CudnnType : int {
  kTypeHandle = 0,
  kTypeDataType = 1,
  kTypeBoolean = 2,
  kTypeInt64 = 3,
  kTypeFloat = 4,
  kTypePointer = 6,
  kTypeConvolutionMode = 7,
  kTypeHeuristicsMode = 8,
  kTypeNumericalNote = 11,
  kTypePointwiseMode = 14,
  kTypeDescriptor = 15,
  kTypeReduction = 18,
  kTypeChar = 24,
};

/// Types of elements (cudnnDataType_t).
enum CudnnData : int { kDataFloat = 0, kDataHalf = 2, kDataInt32 = 4, kDataBfloat16 = 9, kDataBoolean = 11 };

/// Modes of pointwise operations (cudnnPointwiseMode_t).
enum CudnnPointwise : int {
  kAdd = 0,
  kMultiply = 1,
  kDivide = 6,
  kSubtract = 9,
  kExponential = 13,
  kLogarithm = 15,
  kIdentity = 21,
  kCompareGreaterEqual = 303,
  kIndex = 501,
  kSelect = 601,
};

inline constexpr int kReduceAdd = 0, kReduceMax = 3;            // cudnnReduceTensorOp_t
inline constexpr int kHeuristicsFallback = 2, kHeuristicsA = 3; // cudnnBackendHeurMode_t
inline constexpr int kCrossCorrelation = 1;                     // cudnnConvolutionMode_t
/// Notes on the numbers of an engine (cudnnBackendNumericalNote_t).
inline constexpr int kNoteTensorCores = 0, kNoteConvertsInputs = 1, kNoteReducedSums = 2, kNoteFourier = 3,
                     kNoteNondeterministic = 4, kNoteWinograd = 5, kNoteWinograd4 = 6, kNoteWinograd6 = 7,
                     kNoteWinograd13 = 8;

} // namespace kerf::runtime::cuda
