// SPDX-License-Identifier: Apache-2.0
// Compares our declarations of cuDNN's functions and numbers with cuDNN's own headers, where these are installed. The
// comparison happens while this file is compiled: the test only says that it did.
#include "../../lib/Runtime/Cuda/Cudnn.h"
#include "DeclarationsAlike.h"

#include <gtest/gtest.h>

#ifdef KERF_HAS_CUDNN_HEADERS
#include <cudnn_graph.h>
#endif

namespace kerf::runtime::cuda {
namespace {

TEST(CudnnDeclarations, AreThoseOfCudnnsHeader) {
#ifdef KERF_HAS_CUDNN_HEADERS
  KERF_ALIKE(Cudnn, create, cudnnCreate);
  KERF_ALIKE(Cudnn, destroy, cudnnDestroy);
  KERF_ALIKE(Cudnn, setStream, cudnnSetStream);
  KERF_ALIKE(Cudnn, createDescriptor, cudnnBackendCreateDescriptor);
  KERF_ALIKE(Cudnn, destroyDescriptor, cudnnBackendDestroyDescriptor);
  KERF_ALIKE(Cudnn, finalize, cudnnBackendFinalize);
  KERF_ALIKE(Cudnn, setAttribute, cudnnBackendSetAttribute);
  KERF_ALIKE(Cudnn, getAttribute, cudnnBackendGetAttribute);
  KERF_ALIKE(Cudnn, execute, cudnnBackendExecute);
  KERF_ALIKE(Cudnn, getVersion, cudnnGetVersion);
  KERF_ALIKE(Cudnn, getErrorString, cudnnGetErrorString);
  KERF_ALIKE(Cudnn, getLastErrorString, cudnnGetLastErrorString);
  static_assert(int(kPointwise) == int(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
  static_assert(int(kConvolution) == int(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  static_assert(int(kEngine) == int(CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  static_assert(int(kEngineConfig) == int(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  static_assert(int(kHeuristics) == int(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  static_assert(int(kExecutionPlan) == int(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  static_assert(int(kConvolutionForward) == int(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
  static_assert(int(kConvolutionFilterGradient) == int(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR));
  static_assert(int(kConvolutionDataGradient) == int(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR));
  static_assert(int(kPointwiseOperation) == int(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR));
  static_assert(int(kOperationGraph) == int(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  static_assert(int(kVariantPack) == int(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  static_assert(int(kTensor) == int(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  static_assert(int(kMatmul) == int(CUDNN_BACKEND_MATMUL_DESCRIPTOR));
  static_assert(int(kMatmulOperation) == int(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR));
  static_assert(int(kReduction) == int(CUDNN_BACKEND_REDUCTION_DESCRIPTOR));
  static_assert(int(kReductionOperation) == int(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR));
  static_assert(int(kReshapeOperation) == int(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR));
  static_assert(int(kDeviceProperties) == int(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));
  static_assert(int(kPointwiseMode) == int(CUDNN_ATTR_POINTWISE_MODE));
  static_assert(int(kPointwiseComputeType) == int(CUDNN_ATTR_POINTWISE_MATH_PREC));
  static_assert(int(kPointwiseAxis) == int(CUDNN_ATTR_POINTWISE_AXIS));
  static_assert(int(kConvolutionComputeType) == int(CUDNN_ATTR_CONVOLUTION_COMP_TYPE));
  static_assert(int(kConvolutionMode) == int(CUDNN_ATTR_CONVOLUTION_CONV_MODE));
  static_assert(int(kConvolutionDilations) == int(CUDNN_ATTR_CONVOLUTION_DILATIONS));
  static_assert(int(kConvolutionStrides) == int(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES));
  static_assert(int(kConvolutionPaddingAfter) == int(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS));
  static_assert(int(kConvolutionPaddingBefore) == int(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS));
  static_assert(int(kConvolutionDims) == int(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  static_assert(int(kHeuristicsMode) == int(CUDNN_ATTR_ENGINEHEUR_MODE));
  static_assert(int(kHeuristicsGraph) == int(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
  static_assert(int(kHeuristicsResults) == int(CUDNN_ATTR_ENGINEHEUR_RESULTS));
  static_assert(int(kHeuristicsDevice) == int(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP));
  static_assert(int(kEngineConfigEngine) == int(CUDNN_ATTR_ENGINECFG_ENGINE));
  static_assert(int(kPlanHandle) == int(CUDNN_ATTR_EXECUTION_PLAN_HANDLE));
  static_assert(int(kPlanEngineConfig) == int(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
  static_assert(int(kPlanWorkspaceBytes) == int(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  static_assert(int(kPlanDevice) == int(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP));
  static_assert(int(kForwardAlpha) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA));
  static_assert(int(kForwardBeta) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA));
  static_assert(int(kForwardConvolution) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC));
  static_assert(int(kForwardW) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W));
  static_assert(int(kForwardX) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X));
  static_assert(int(kForwardY) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y));
  static_assert(int(kDataGradientAlpha) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA));
  static_assert(int(kDataGradientBeta) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA));
  static_assert(int(kDataGradientConvolution) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC));
  static_assert(int(kDataGradientW) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W));
  static_assert(int(kDataGradientDx) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX));
  static_assert(int(kDataGradientDy) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY));
  static_assert(int(kFilterGradientAlpha) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA));
  static_assert(int(kFilterGradientBeta) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA));
  static_assert(int(kFilterGradientConvolution) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC));
  static_assert(int(kFilterGradientDw) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW));
  static_assert(int(kFilterGradientX) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X));
  static_assert(int(kFilterGradientDy) == int(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY));
  static_assert(int(kPointwiseDescriptor) == int(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR));
  static_assert(int(kPointwiseX) == int(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
  static_assert(int(kPointwiseB) == int(CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
  static_assert(int(kPointwiseY) == int(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
  static_assert(int(kPointwiseT) == int(CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
  static_assert(int(kGraphHandle) == int(CUDNN_ATTR_OPERATIONGRAPH_HANDLE));
  static_assert(int(kGraphOperations) == int(CUDNN_ATTR_OPERATIONGRAPH_OPS));
  static_assert(int(kTensorAlignment) == int(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT));
  static_assert(int(kTensorType) == int(CUDNN_ATTR_TENSOR_DATA_TYPE));
  static_assert(int(kTensorDims) == int(CUDNN_ATTR_TENSOR_DIMENSIONS));
  static_assert(int(kTensorStrides) == int(CUDNN_ATTR_TENSOR_STRIDES));
  static_assert(int(kTensorId) == int(CUDNN_ATTR_TENSOR_UNIQUE_ID));
  static_assert(int(kTensorIsVirtual) == int(CUDNN_ATTR_TENSOR_IS_VIRTUAL));
  static_assert(int(kTensorIsByValue) == int(CUDNN_ATTR_TENSOR_IS_BY_VALUE));
  static_assert(int(kPackIds) == int(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS));
  static_assert(int(kPackPointers) == int(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS));
  static_assert(int(kPackWorkspace) == int(CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
  static_assert(int(kEngineIndex) == int(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  static_assert(int(kEngineNumericalNotes) == int(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE));
  static_assert(int(kMatmulComputeType) == int(CUDNN_ATTR_MATMUL_COMP_TYPE));
  static_assert(int(kMatmulA) == int(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
  static_assert(int(kMatmulB) == int(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
  static_assert(int(kMatmulC) == int(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
  static_assert(int(kMatmulDescriptor) == int(CUDNN_ATTR_OPERATION_MATMUL_DESC));
  static_assert(int(kReductionOperator) == int(CUDNN_ATTR_REDUCTION_OPERATOR));
  static_assert(int(kReductionComputeType) == int(CUDNN_ATTR_REDUCTION_COMP_TYPE));
  static_assert(int(kReductionX) == int(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
  static_assert(int(kReductionY) == int(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
  static_assert(int(kReductionDescriptor) == int(CUDNN_ATTR_OPERATION_REDUCTION_DESC));
  static_assert(int(kReshapeX) == int(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
  static_assert(int(kReshapeY) == int(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
  static_assert(int(kDeviceJson) == int(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION));
  static_assert(int(kTypeHandle) == int(CUDNN_TYPE_HANDLE));
  static_assert(int(kTypeDataType) == int(CUDNN_TYPE_DATA_TYPE));
  static_assert(int(kTypeBoolean) == int(CUDNN_TYPE_BOOLEAN));
  static_assert(int(kTypeInt64) == int(CUDNN_TYPE_INT64));
  static_assert(int(kTypeFloat) == int(CUDNN_TYPE_FLOAT));
  static_assert(int(kTypePointer) == int(CUDNN_TYPE_VOID_PTR));
  static_assert(int(kTypeConvolutionMode) == int(CUDNN_TYPE_CONVOLUTION_MODE));
  static_assert(int(kTypeHeuristicsMode) == int(CUDNN_TYPE_HEUR_MODE));
  static_assert(int(kTypeNumericalNote) == int(CUDNN_TYPE_NUMERICAL_NOTE));
  static_assert(int(kTypePointwiseMode) == int(CUDNN_TYPE_POINTWISE_MODE));
  static_assert(int(kTypeDescriptor) == int(CUDNN_TYPE_BACKEND_DESCRIPTOR));
  static_assert(int(kTypeReduction) == int(CUDNN_TYPE_REDUCTION_OPERATOR_TYPE));
  static_assert(int(kTypeChar) == int(CUDNN_TYPE_CHAR));
  static_assert(int(kDataFloat) == int(CUDNN_DATA_FLOAT));
  static_assert(int(kDataHalf) == int(CUDNN_DATA_HALF));
  static_assert(int(kDataInt32) == int(CUDNN_DATA_INT32));
  static_assert(int(kDataBfloat16) == int(CUDNN_DATA_BFLOAT16));
  static_assert(int(kDataBoolean) == int(CUDNN_DATA_BOOLEAN));
  static_assert(int(kAdd) == int(CUDNN_POINTWISE_ADD));
  static_assert(int(kMultiply) == int(CUDNN_POINTWISE_MUL));
  static_assert(int(kDivide) == int(CUDNN_POINTWISE_DIV));
  static_assert(int(kSubtract) == int(CUDNN_POINTWISE_SUB));
  static_assert(int(kExponential) == int(CUDNN_POINTWISE_EXP));
  static_assert(int(kLogarithm) == int(CUDNN_POINTWISE_LOG));
  static_assert(int(kIdentity) == int(CUDNN_POINTWISE_IDENTITY));
  static_assert(int(kCompareGreaterEqual) == int(CUDNN_POINTWISE_CMP_GE));
  static_assert(int(kIndex) == int(CUDNN_POINTWISE_GEN_INDEX));
  static_assert(int(kSelect) == int(CUDNN_POINTWISE_BINARY_SELECT));
  static_assert(int(kReduceAdd) == int(CUDNN_REDUCE_TENSOR_ADD));
  static_assert(int(kReduceMax) == int(CUDNN_REDUCE_TENSOR_MAX));
  static_assert(int(kHeuristicsFallback) == int(CUDNN_HEUR_MODE_FALLBACK));
  static_assert(int(kHeuristicsA) == int(CUDNN_HEUR_MODE_A));
  static_assert(int(kCrossCorrelation) == int(CUDNN_CROSS_CORRELATION));
  static_assert(int(kNoteTensorCores) == int(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
  static_assert(int(kNoteConvertsInputs) == int(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
  static_assert(int(kNoteReducedSums) == int(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION));
  static_assert(int(kNoteFourier) == int(CUDNN_NUMERICAL_NOTE_FFT));
  static_assert(int(kNoteNondeterministic) == int(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC));
  static_assert(int(kNoteWinograd) == int(CUDNN_NUMERICAL_NOTE_WINOGRAD));
  static_assert(int(kNoteWinograd4) == int(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4));
  static_assert(int(kNoteWinograd6) == int(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6));
  static_assert(int(kNoteWinograd13) == int(CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13));
#else
  GTEST_SKIP() << "cuDNN's header cudnn_graph.h is not installed";
#endif
}

} // namespace
} // namespace kerf::runtime::cuda
