// SPDX-License-Identifier: Apache-2.0
// Instructions that cuDNN computes: attention and its gradients in 16-bit types, and convolutions. Other forms run
// Kerf's own kernels.
#include "CallsCudnn.h"
#include "../Cpu/Kernels/Attention.h"
#include "CallsSort.h"
#include "CudnnAttention.h"
#include "CudnnConvolution.h"
#include "CudnnGpu.h"

#include <cstdlib>
#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {
constexpr int64_t kMostElements = int64_t(1) << 31; // of a tensor: cuDNN's kernels may count in 32 bits

std::optional<CudnnData> halfTypeOf(DType type) {
  if (type == DType::BF16)
    return kDataBfloat16;
  return type == DType::F16 ? std::optional(kDataHalf) : std::nullopt;
}

/// A tensor of memory, and the distances in bytes from a slice to the next one along the batch and along the heads.
struct SlicedTensor {
  int number;
  void *data;
  int64_t batchBytes = 0, headBytes = 0;
};

/// A graph that is executed for each slice, and its tensors.
struct SlicedGraph {
  std::shared_ptr<const CudnnGraph> graph;
  std::vector<SlicedTensor> tensors;
  int64_t batchSlices = 1, headSlices = 1;
};

/// Adds the executions of a plan to the calls. The scratch memory of the calls must be known.
Status addExecutions(Calls &calls, const CudnnGpu &cudnn, const std::shared_ptr<const CudnnPlan> &plan,
                     const SlicedGraph &sliced, void *workspace) {
  for (int64_t i = 0; i < sliced.batchSlices * sliced.headSlices; ++i) {
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

/// The sizes of an attention instruction, and its 16-bit type.
struct AttentionForm {
  AttentionSizes z;
  CudnnData type;
};

/// Reads an attention instruction; nothing if it has a form that Kerf's own kernels compute. `masked` says whether the
/// operand after the value is a mask, and `lse` is the log-sum-exp.
std::optional<AttentionForm> attentionForm(const CallRequest &r, bool masked, const TensorView &lse) {
  std::optional<CudnnData> type = halfTypeOf(r.operand(0).dtype);
  auto fits = [&](const TensorView &view) {
    return view.elements() < kMostElements && (&view == &lse || view.dtype == r.operand(0).dtype);
  };
  bool all = type && !masked && lse.dtype == DType::F32;
  for (const auto *views : {&r.request.operands, &r.request.results})
    for (const TensorView &view : *views)
      all = all && fits(view);
  if (!all)
    return std::nullopt;
  const BindRequest host = hostRequest(r.request, nullptr);
  kernels::Checker check(host);
  AttentionSizes z = *kernels::attentionSizes(check, host, 0, false, kernels::KeyScope::All);
  constexpr int64_t kWidthStep = 8, kMostWidth = 256;
  bool widths = z.d % kWidthStep == 0 && z.e % kWidthStep == 0 && z.d <= kMostWidth && z.e <= kMostWidth;
  bool any = z.b > 0 && z.s > 0 && z.t > 0 && z.h > 0 && z.d > 0 && z.e > 0;
  bool fromFirstKey = !z.causal || (z.firstQuery == 0 && z.s == z.t);
  return widths && any && fromFirstKey ? std::optional(AttentionForm{z, *type}) : std::nullopt;
}

/// Returns whether cuDNN computes the gradients of an attention that it computes, on a GPU of this compute capability.
/// NVIDIA's front end refuses widths over 128 before Hopper. After Hopper, this graph is not known to give the same
/// bits in every run. The other forms that are refused here can give NaN where all scores of a query are strongly
/// negative: on Hopper, half of a tile of 128 keys is not masked (NVIDIA/cudnn-frontend pull request 628), unless the
/// causal mask excludes it; and with a single query, the gradients of keys and values are wrong (issue 1072).
bool hasGradients(const AttentionSizes &z, int capability) {
  constexpr int kHopper = 90, kBlackwell = 100;
  constexpr int64_t kKeyTile = 128;
  int64_t mostWidth = capability >= kHopper ? 256 : 128;
  bool tailUnmasked = capability >= kHopper && !z.causal && z.t % kKeyTile == kKeyTile / 2;
  return capability < kBlackwell && z.s > 1 && !tailUnmasked && z.d <= mostWidth && z.e <= mostWidth;
}

using CudnnCalls = Result<std::optional<Calls>>;

/// Adds the executions of a graph to `calls`. Returns nothing if cuDNN has no plan of the graph. A GPU that exists only
/// to plan memory is taken to have one.
CudnnCalls withGraph(const CallRequest &r, Calls calls, const SlicedGraph &sliced, int64_t workspaceBytes) {
  void *workspace = r.scratch(takeScratch(calls, workspaceBytes));
  if (r.gpu->isPlanned())
    return std::optional(std::move(calls));
  auto cudnn = CudnnGpu::of(*r.gpu);
  if (!cudnn)
    return cudnn.error();
  auto plan = (*cudnn)->plan(*sliced.graph, workspaceBytes);
  if (!plan)
    return plan.error();
  if (!*plan)
    return std::optional<Calls>();
  if (workspace) // else only the size is asked for
    if (Status added = addExecutions(calls, **cudnn, *plan, sliced, workspace); !added)
      return added.error();
  return std::optional(std::move(calls));
}

CudnnCalls attentionCalls(const CallRequest &r) {
  auto form = attentionForm(r, r.operands() == 4, r.result(1));
  if (!form)
    return std::optional<Calls>();
  const AttentionSizes &z = form->z;
  auto all = std::make_shared<const ForwardGraph>(forwardGraph(z, {z.b, z.g}, form->type));
  SlicedGraph whole{{all, &all->graph},
                    {{all->query, r.operand(0).data},
                     {all->key, r.operand(1).data},
                     {all->value, r.operand(2).data},
                     {all->out, r.result(0).data},
                     {all->lse, r.result(1).data}}};
  return withGraph(r, {}, whole, kForwardWorkspace);
}

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
                         {r.integers("strides"), r.integers("dilations"), r.integers("low"), r.integers("high")}};
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

Result<std::optional<Calls>> attentionBackwardCalls(const CallRequest &r, int64_t mostBytes) {
  bool masked = r.operands() == 7;
  auto form = attentionForm(r, masked, r.operand(masked ? 5 : 4));
  if (!form || !hasGradients(form->z, r.gpu->capability()))
    return std::optional<Calls>();
  const AttentionSizes &z = form->z;
  AttentionSlice slice = backwardSlice(z, mostBytes);
  auto all = std::make_shared<const BackwardGraph>(backwardGraph(z, slice, form->type));
  Calls calls;
  void *dots = r.scratch(takeScratch(calls, z.b * z.h * z.s * int64_t(sizeof(float))));
  int64_t sharing = z.h / z.g;
  auto tensor = [&](int number, const TensorView &view, int64_t headsOfGroup) {
    return SlicedTensor{number, view.data, view.bytes() / z.b * slice.batches,
                        view.shape[3] * headsOfGroup * slice.groups * bytesOf(view.dtype)};
  };
  auto perQuery = [&](int number, void *data) {
    int64_t headBytes = z.s * int64_t(sizeof(float));
    return SlicedTensor{number, data, headBytes * z.h * slice.batches, headBytes * sharing * slice.groups};
  };
  SlicedGraph sliced{{all, &all->graph},
                     {tensor(all->query, r.operand(0), sharing), tensor(all->key, r.operand(1), 1),
                      tensor(all->value, r.operand(2), 1), tensor(all->out, r.operand(3), sharing),
                      perQuery(all->lse, r.operand(4).data), tensor(all->dOut, r.operand(5), sharing),
                      tensor(all->dQuery, r.result(0), sharing), tensor(all->dKey, r.result(1), 1),
                      tensor(all->dValue, r.result(2), 1), perQuery(all->dots, dots)},
                     z.b / slice.batches,
                     z.g / slice.groups};
  return withGraph(r, std::move(calls), sliced, backwardWorkspace(z, slice));
}

Result<std::optional<Calls>> cudnnCallsOf(const CallRequest &r) {
  const char *wish = std::getenv("KERF_CUDNN");
  const std::string &op = r.request.instruction.op;
  if (wish && std::string_view(wish) == "off")
    return std::optional<Calls>();
  if (wish && *wish)
    return Error{fmt::format("KERF_CUDNN is '{}'; the only value that it takes is off, which leaves attention and "
                             "convolutions to Kerf's own kernels",
                             wish)};
  if (op == "attention")
    return attentionCalls(r);
  if (op == "attention_backward")
    return attentionBackwardCalls(r, kMostBackwardWorkspace);
  if (op == "convolution")
    return convolutionCalls(r, kConvolutionForward);
  if (op == "convolution_transpose")
    return convolutionCalls(r, kConvolutionDataGradient);
  if (op == "convolution_kernel")
    return convolutionCalls(r, kConvolutionFilterGradient);
  return std::optional<Calls>();
}

} // namespace kerf::runtime::cuda
