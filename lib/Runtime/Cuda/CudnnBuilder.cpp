// SPDX-License-Identifier: Apache-2.0
#include "CudnnBuilder.h"

namespace kerf::runtime::cuda {

namespace {
Descriptor tensorOf(Builder &b, const GraphTensor &t, int number) {
  Descriptor made = b.make(kTensor);
  b.set(made, kTensorType, kTypeDataType, int(t.type));
  b.set(made, kTensorDims, t.dims);
  b.set(made, kTensorStrides, t.strides);
  b.set(made, kTensorId, kTypeInt64, idOf(number));
  b.set(made, kTensorAlignment, kTypeInt64, t.alignment);
  b.set(made, kTensorIsVirtual, kTypeBoolean, t.isVirtual);
  b.set(made, kTensorIsByValue, kTypeBoolean, t.value.has_value());
  b.finalize(made);
  return made;
}

/// The attributes of a kind of convolution: the two tensors that it reads, and the one that it writes.
struct ConvolutionAttributes {
  CudnnKind kind;
  CudnnAttribute alpha, beta, window, a, b, y;
};
constexpr ConvolutionAttributes kConvolutions[] = {
    {kConvolutionForward, kForwardAlpha, kForwardBeta, kForwardConvolution, kForwardX, kForwardW, kForwardY},
    {kConvolutionDataGradient, kDataGradientAlpha, kDataGradientBeta, kDataGradientConvolution, kDataGradientDy,
     kDataGradientW, kDataGradientDx},
    {kConvolutionFilterGradient, kFilterGradientAlpha, kFilterGradientBeta, kFilterGradientConvolution,
     kFilterGradientX, kFilterGradientDy, kFilterGradientDw},
};

void addConvolution(Builder &b, const GraphNode &node, const Descriptor &operation, Operations &all) {
  Descriptor window = b.make(kConvolution);
  b.set(window, kConvolutionComputeType, kTypeDataType, int(node.compute));
  b.set(window, kConvolutionMode, kTypeConvolutionMode, kCrossCorrelation);
  b.set(window, kConvolutionDims, kTypeInt64, int64_t(node.window.strides.size()));
  b.set(window, kConvolutionStrides, node.window.strides);
  b.set(window, kConvolutionDilations, node.window.dilations);
  b.set(window, kConvolutionPaddingBefore, node.window.before);
  b.set(window, kConvolutionPaddingAfter, node.window.after);
  b.finalize(window);
  for (const ConvolutionAttributes &one : kConvolutions) {
    if (one.kind != node.kind)
      continue;
    b.set(operation, one.alpha, kTypeFloat, 1.0f);
    b.set(operation, one.beta, kTypeFloat, 0.0f);
    b.set(operation, one.window, window);
    b.set(operation, one.a, all.tensors[size_t(node.a)]);
    b.set(operation, one.b, all.tensors[size_t(node.b)]);
    b.set(operation, one.y, all.tensors[size_t(node.y)]);
  }
  all.settings.push_back(std::move(window));
}

void addOperation(Builder &b, const GraphNode &node, Operations &all) {
  Descriptor operation = b.make(node.kind);
  auto tensor = [&](CudnnAttribute attribute, int number) {
    if (number >= 0)
      b.set(operation, attribute, all.tensors[size_t(number)]);
  };
  auto settings = [&](CudnnKind kind, CudnnAttribute attribute, auto set) {
    Descriptor made = b.make(kind);
    set(made);
    b.finalize(made);
    b.set(operation, attribute, made);
    all.settings.push_back(std::move(made));
  };
  switch (node.kind) {
  case kPointwiseOperation:
    settings(kPointwise, kPointwiseDescriptor, [&](const Descriptor &made) {
      b.set(made, kPointwiseMode, kTypePointwiseMode, node.mode);
      b.set(made, kPointwiseComputeType, kTypeDataType, int(node.compute));
      if (node.mode == kIndex)
        b.set(made, kPointwiseAxis, kTypeInt64, node.axis);
    });
    tensor(kPointwiseX, node.a);
    tensor(kPointwiseB, node.b);
    tensor(kPointwiseT, node.t);
    tensor(kPointwiseY, node.y);
    break;
  case kMatmulOperation:
    settings(kMatmul, kMatmulDescriptor,
             [&](const Descriptor &made) { b.set(made, kMatmulComputeType, kTypeDataType, int(node.compute)); });
    tensor(kMatmulA, node.a);
    tensor(kMatmulB, node.b);
    tensor(kMatmulC, node.y);
    break;
  case kReductionOperation:
    settings(kReduction, kReductionDescriptor, [&](const Descriptor &made) {
      b.set(made, kReductionComputeType, kTypeDataType, int(node.compute));
      b.set(made, kReductionOperator, kTypeReduction, node.mode);
    });
    tensor(kReductionX, node.a);
    tensor(kReductionY, node.y);
    break;
  case kReshapeOperation:
    tensor(kReshapeX, node.a);
    tensor(kReshapeY, node.y);
    break;
  default:
    addConvolution(b, node, operation, all);
  }
  b.finalize(operation);
  all.operations.push_back(std::move(operation));
}
} // namespace

Operations operationsOf(Builder &b, const CudnnGraph &graph) {
  Operations all;
  for (size_t i = 0; i < graph.tensors.size(); ++i)
    all.tensors.push_back(tensorOf(b, graph.tensors[i], int(i)));
  for (const GraphNode &node : graph.nodes)
    addOperation(b, node, all);
  return all;
}

} // namespace kerf::runtime::cuda
