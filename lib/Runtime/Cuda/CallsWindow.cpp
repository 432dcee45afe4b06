// SPDX-License-Identifier: Apache-2.0
// Calls of the kernels of convolutions and poolings (Kernels/Window.cu).
#include "CallsSort.h"
#include "Kernels/ParametersWindow.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace kerf::runtime::cuda {

namespace {
/// Returns the window that moves over the dimensions [begin, end) of the attributes. `size`, `window` and `places` have
/// the same dimensions as the attributes.
Result<Window> windowOf(const CallRequest &r, const Shape &size, const Shape &window, const Shape &places, size_t begin,
                        size_t end) {
  if (end - begin > size_t(kMostDims))
    return Error{fmt::format("windows on the GPU move over up to {} dimensions, and this one over {}; reshape the "
                             "tensor in the model",
                             kMostDims, end - begin)};
  std::vector<int64_t> strides = r.integers("strides"), dilations = r.integers("dilations"), low = r.integers("low");
  Window all;
  all.rank = int32_t(end - begin);
  for (size_t d = begin; d < end; ++d)
    all.dims[d - begin] = {size[d], window[d], places[d], strides[d], dilations[d], low[d]};
  all.elements = product(size, begin, end);
  all.windowElements = product(window, begin, end);
  all.placeCount = product(places, begin, end);
  return all;
}

/// Returns the parameters of a convolution of these tensors, one of which is the result of the instruction.
Result<ConvolutionParameters> convolutionOf(const CallRequest &r, const TensorView &operand, const TensorView &kernel,
                                            const TensorView &result) {
  bool channelsLast = r.flag("channels_last");
  auto spatial = [&](const TensorView &view) {
    return channelsLast ? Shape(view.shape.begin() + 1, view.shape.end() - 1)
                        : Shape(view.shape.begin() + 2, view.shape.end());
  };
  auto channels = [&](const TensorView &view) { return channelsLast ? view.shape.back() : view.shape[1]; };
  Shape size = spatial(operand);
  Result<Window> window = windowOf(r, size, spatial(kernel), spatial(result), 0, size.size());
  if (!window)
    return window.error();
  auto tensor = [&](const TensorView &view, int64_t places) {
    int64_t all = channels(view);
    return ConvolutionTensor{view.data, all, places, channelsLast ? 1 : places, channelsLast ? all : 1};
  };
  int64_t in = channels(kernel), groups = channels(operand) / in;
  return ConvolutionParameters{tensor(operand, window->elements),
                               tensor(kernel, window->windowElements),
                               tensor(result, window->placeCount),
                               r.result().elements(),
                               operand.shape[0],
                               groups,
                               in,
                               channels(result) / groups,
                               *window};
}

/// A pooling: the product of the dimensions inside of those in which the window moves, and the window.
struct Pool {
  int64_t inner;
  Window window;
};
/// Reads a pooling, and merges the dimensions before and after those in which the window moves.
Result<Pool> poolOf(const CallRequest &r, const Shape &operand, const Shape &places) {
  std::vector<int64_t> window = r.integers("window"), strides = r.integers("strides"), low = r.integers("low"),
                       high = r.integers("high");
  auto passes = [&](size_t d) { return window[d] == 1 && strides[d] == 1 && low[d] == 0 && high[d] == 0; };
  size_t begin = 0, end = operand.size();
  while (begin < end && passes(begin))
    ++begin;
  while (end > begin && passes(end - 1))
    --end;
  Result<Window> moving = windowOf(r, operand, window, places, begin, end);
  if (!moving)
    return moving.error();
  return Pool{product(operand, end), *moving};
}
} // namespace

Result<Calls> callConvolution(const CallRequest &r) {
  Result<ConvolutionParameters> p = convolutionOf(r, r.operand(0), r.operand(1), r.result());
  if (!p)
    return p.error();
  Calls calls;
  addElementCall(calls, "Window", r.result().dtype, "convolution", p->n, *p);
  return calls;
}

Result<Calls> callConvolutionTranspose(const CallRequest &r) {
  Result<ConvolutionParameters> p = convolutionOf(r, r.result(), r.operand(1), r.operand(0));
  if (!p)
    return p.error();
  Calls calls;
  addElementCall(calls, "Window", r.result().dtype, "convolutionTranspose", p->n, *p);
  return calls;
}

Result<Calls> callConvolutionKernel(const CallRequest &r) {
  Result<ConvolutionParameters> p = convolutionOf(r, r.operand(0), r.result(), r.operand(1));
  if (!p)
    return p.error();
  Calls calls;
  addRowCall(calls, "Window", r.result().dtype, "convolutionKernel", p->n, p->samples * p->window.placeCount, *p);
  return calls;
}

namespace {
/// The kernels that compute a pooling: those for any window, or those that read single elements or packs of 16 bytes.
enum class PoolKernels { Any, Single, Packs };

/// Chooses the kernels of a pooling, and adds dimensions of size 1 to the window where they need kPackDims. `tensors`
/// are those that the kernels read and write as packs.
PoolKernels kernelsOf(Pool &pool, DType type, std::initializer_list<const TensorView *> tensors) {
  Window &window = pool.window;
  bool fits = window.rank <= kPackDims && window.windowElements < kFewElements &&
              (type == DType::F64 || type == DType::F32 || type == DType::BF16 || type == DType::F16);
  for (const TensorView *tensor : tensors)
    fits = fits && tensor->elements() <= std::numeric_limits<int32_t>::max();
  for (int32_t d = 0; d < window.rank; ++d) // places and sizes with padding are 32-bit numbers in these kernels
    fits = fits && window.dims[d].low + window.dims[d].size + window.dims[d].window * window.dims[d].dilation <
                       std::numeric_limits<int32_t>::max() / 2;
  if (!fits)
    return PoolKernels::Any;
  int32_t added = kPackDims - window.rank;
  std::rotate(window.dims, window.dims + window.rank, window.dims + kPackDims);
  std::fill_n(window.dims, added, WindowDim{1, 1, 1, 1, 1, 0});
  window.rank = kPackDims;
  bool packs = pool.inner % (16 / bytesOf(type)) == 0;
  for (const TensorView *tensor : tensors)
    packs = packs && reinterpret_cast<uintptr_t>(tensor->data) % 16 == 0;
  return packs ? PoolKernels::Packs : PoolKernels::Single;
}
/// Adds a call of one of the three forms of a kernel, for `n` elements.
template <typename P>
void addPoolCall(Calls &calls, DType type, PoolKernels kernels, std::initializer_list<std::string_view> names,
                 int64_t n, const P &parameters) {
  int64_t each = kernels == PoolKernels::Packs ? 16 / bytesOf(type) : 1;
  addElementCall(calls, "Window", type, names.begin()[size_t(kernels)], n / each, parameters);
}
} // namespace

Result<Calls> callReduceWindow(const CallRequest &r) {
  const TensorView &x = r.operand(0), &y = r.result();
  Result<Pool> pool = poolOf(r, x.shape, y.shape);
  if (!pool)
    return pool.error();
  std::string kind = r.attrs().at("kind").get<std::string>();
  PoolKernels kernels = kernelsOf(*pool, y.dtype, {&x, &y});
  ReduceWindowParameters p{kind == "sum"   ? Reduction::Sum
                           : kind == "max" ? Reduction::Max
                                           : Reduction::Min,
                           x.data,
                           y.data,
                           y.elements(),
                           pool->inner,
                           pool->window};
  Calls calls;
  addPoolCall(calls, y.dtype, kernels, {"reduceWindow", "reduceWindowSinglePacks", "reduceWindowPacks"}, p.n, p);
  return calls;
}

Result<Calls> callSelectAndScatter(const CallRequest &r) {
  const TensorView &x = r.operand(0), &dy = r.operand(1), &dx = r.result();
  Result<Pool> pool = poolOf(r, x.shape, dy.shape);
  if (!pool)
    return pool.error();
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (pool->window.windowElements > kMost)
    return Error{fmt::format("select_and_scatter on the GPU takes windows of up to {} elements, and this one has {}; "
                             "lower the window's size",
                             kMost, pool->window.windowElements)};
  PoolKernels kernels = kernelsOf(*pool, x.dtype, {&x, &dy, &dx});
  int64_t bytes = kernels == PoolKernels::Any ? sizeof(int32_t) : sizeof(uint8_t);
  Calls calls;
  void *selected = r.scratch(takeScratch(calls, dy.elements() * bytes));
  SelectAndScatterParameters p{r.attrs().at("kind").get<std::string>() == "max",
                               x.data,
                               dy.data,
                               dx.data,
                               selected,
                               dx.elements(),
                               dy.elements(),
                               pool->inner,
                               pool->window};
  addPoolCall(calls, x.dtype, kernels, {"selectOfWindows", "selectOfSinglePacks", "selectOfPacks"}, p.places, p);
  addPoolCall(calls, x.dtype, kernels, {"scatterOfWindows", "scatterOfSinglePacks", "scatterOfPacks"}, p.n, p);
  return calls;
}

} // namespace kerf::runtime::cuda
