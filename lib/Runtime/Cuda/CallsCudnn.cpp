// SPDX-License-Identifier: Apache-2.0
// Instructions that cuDNN computes: executions of graphs, and convolutions. Other forms run Kerf's own kernels.
#include "CallsCudnn.h"
#include "CallsSort.h"
#include "CudnnConvolution.h"
#include "CudnnGpu.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {
/// Adds the executions of a plan to the calls. The scratch memory of the calls must be known.
Status addExecutions(Calls &calls, const CudnnGpu &cudnn, const std::shared_ptr<const CudnnPlan> &plan,
                     const SlicedGraph &sliced, void *workspace) {
  for (int64_t i = 0; i < sliced.batchSlices * sliced.headSlices; ++i) {
    if (sliced.prepare && i % sliced.headSlices == 0)
      sliced.prepare(calls, i / sliced.headSlices);
    std::vector<void *> addresses(sliced.graph->tensors.size(), nullptr);
    for (const SlicedTensor &t : sliced.tensors) {
      void *address =
          static_cast<std::byte *>(t.data) + i / sliced.headSlices * t.batchBytes + i % sliced.headSlices * t.headBytes;
      int64_t alignment = sliced.graph->tensors[size_t(t.number)].alignment;
      if (reinterpret_cast<uintptr_t>(address) % uintptr_t(alignment) != 0)
        return Error{fmt::format("a tensor at address {} is not aligned to the {} bytes that cuDNN needs; set "
                                 "KERF_CUDNN=off to use Kerf's own kernels",
                                 address, alignment)};
      addresses[size_t(t.number)] = address;
    }
    auto bound = bindTensors(cudnn.cudnn, *sliced.graph, addresses, workspace);
    if (!bound)
      return bound.error();
    calls.calls.push_back([plan, graph = sliced.graph, bound = *bound](CudaStream &stream) {
      return stream.context->cudnn->execute(*plan, *bound, stream);
    });
  }
  return ok();
}
} // namespace

std::optional<CudnnData> halfTypeOf(DType type) {
  if (type == DType::BF16)
    return kDataBfloat16;
  return type == DType::F16 ? std::optional(kDataHalf) : std::nullopt;
}

CudnnCalls withGraph(const CallRequest &r, Calls calls, const SlicedGraph &sliced, int64_t workspaceBytes) {
  void *workspace = r.scratch(takeScratch(calls, workspaceBytes));
  if (r.gpu->isPlanned())
    return std::optional(std::move(calls));
  BindTimer timer(*r.gpu, "cudnn");
  auto cudnn = CudnnGpu::of(*r.gpu);
  if (!cudnn)
    return cudnn.error();
  auto plan = (*cudnn)->plan(r.gpu, *sliced.graph, {workspaceBytes, r.gpu->products.deterministic});
  if (!plan)
    return plan.error();
  if (!*plan) {
    if (Status compiler = loadRuntimeCompiler(); !compiler)
      return compiler.error();
    return std::optional<Calls>();
  }
  if (workspace) // else only the size is asked for
    if (Status added = addExecutions(calls, **cudnn, *plan, sliced, workspace); !added)
      return added.error();
  return std::optional(std::move(calls));
}

namespace {
/// Returns the shape of a convolution that cuDNN may compute; nothing for another one. A convolution with one spatial
/// dimension gets a second one of size 1, because cuDNN takes two or three.
std::optional<ConvolutionShape> convolutionShape(const CallRequest &r, CudnnKind kind) {
  const TensorView &a = r.operand(0), &b = r.operand(1), &y = r.result();
  size_t rank = a.shape.size();
  bool fits = rank >= 3 && rank <= 5 && a.dtype == b.dtype && a.dtype == y.dtype &&
              (a.dtype == DType::F32 || halfTypeOf(a.dtype));
  for (const TensorView *view : {&a, &b, &y})
    fits = fits && view->elements() > 0 && view->elements() < kMostElements;
  if (!fits)
    return std::nullopt;
  ConvolutionShape shape{kind == kConvolutionDataGradient ? y.shape : a.shape,
                         kind == kConvolutionFilterGradient ? y.shape : b.shape,
                         kind == kConvolutionForward        ? y.shape
                         : kind == kConvolutionDataGradient ? a.shape
                                                            : b.shape,
                         {r.integers("strides"), r.integers("dilations"), r.integers("low"), r.integers("high")},
                         r.flag("channels_last")};
  if (shape.channelsLast)
    for (auto *dims : {&shape.sample, &shape.kernel, &shape.result})
      std::rotate(dims->begin() + 1, dims->end() - 1, dims->end());
  if (rank == 3) {
    for (auto *dims : {&shape.sample, &shape.kernel, &shape.result})
      dims->insert(dims->begin() + 2, 1);
    for (auto *steps : {&shape.window.strides, &shape.window.dilations})
      steps->insert(steps->begin(), 1);
    for (auto *padding : {&shape.window.before, &shape.window.after})
      padding->insert(padding->begin(), 0);
  }
  return shape;
}

CudnnCalls convolutionCalls(const CallRequest &r, CudnnKind kind) {
  std::optional<ConvolutionShape> shape = convolutionShape(r, kind);
  if (!shape)
    return std::optional<Calls>();
  CudnnData type = halfTypeOf(r.result().dtype).value_or(kDataFloat);
  auto all = std::make_shared<const ConvolutionGraph>(convolutionGraph(*shape, kind, type));
  SlicedGraph whole{{all, &all->graph},
                    {{all->a, r.operand(0).data}, {all->b, r.operand(1).data}, {all->y, r.result().data}}};
  return withGraph(r, {}, whole, convolutionWorkspace(*shape, type));
}
} // namespace

CudnnCalls cudnnCallsOf(const CallRequest &r) {
  const char *wish = std::getenv("KERF_CUDNN");
  const std::string &op = r.request.instruction.op;
  if (wish && std::string_view(wish) == "off")
    return std::optional<Calls>();
  if (wish && *wish)
    return Error{fmt::format("KERF_CUDNN is '{}'; the only value that it takes is off, which leaves attention and "
                             "convolutions to Kerf's own kernels",
                             wish)};
  if (op == "attention")
    return attentionCalls(r, kMostAttentionScratch);
  if (op == "attention_backward")
    return attentionBackwardCalls(r, kMostAttentionScratch);
  if (op == "convolution")
    return convolutionCalls(r, kConvolutionForward);
  if (op == "convolution_transpose")
    return convolutionCalls(r, kConvolutionDataGradient);
  if (op == "convolution_kernel")
    return convolutionCalls(r, kConvolutionFilterGradient);
  return std::optional<Calls>();
}

} // namespace kerf::runtime::cuda
