// SPDX-License-Identifier: Apache-2.0
// Calls of the kernels of convolutions and poolings (Kernels/Window.cu).
#include "CallsSort.h"
#include "Kernels/ParametersWindow.h"

#include <algorithm>
#include <bit>
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

/// Chooses the kernels of a pooling. `tensors` are those that the kernels read and write as packs.
PoolKernels kernelsOf(const Pool &pool, DType type, std::initializer_list<const TensorView *> tensors) {
  const Window &window = pool.window;
  bool fits = window.rank <= kPackDims && window.windowElements < kFewElements &&
              (type == DType::F64 || type == DType::F32 || type == DType::BF16 || type == DType::F16);
  for (const TensorView *tensor : tensors)
    fits = fits && tensor->elements() <= std::numeric_limits<int32_t>::max();
  for (int32_t d = 0; d < window.rank; ++d) { // places and sizes with padding are 32-bit numbers in these kernels
    const WindowDim &dim = window.dims[d];
    fits = fits && dim.low >= 0 &&
           dim.low + dim.size + dim.window * dim.dilation + dim.stride < std::numeric_limits<int32_t>::max() / 2;
  }
  if (!fits)
    return PoolKernels::Any;
  bool packs = pool.inner % (16 / bytesOf(type)) == 0;
  for (const TensorView *tensor : tensors)
    packs = packs && reinterpret_cast<uintptr_t>(tensor->data) % 16 == 0;
  return packs ? PoolKernels::Packs : PoolKernels::Single;
}

/// Returns the divisor of a size, or 1 for an empty tensor's size of 0, by which nothing is divided.
Divisor divisorOf(int64_t by) {
  by = std::max<int64_t>(by, 1);
  const uint32_t shift = uint32_t(std::bit_width(uint64_t(by - 1)));
  return {uint32_t(by), uint32_t((uint64_t(1) << (31 + shift)) / uint64_t(by) + 1), shift};
}
/// Returns the elements that a thread of these kernels takes together.
int64_t widthOf(PoolKernels kernels, DType type) { return kernels == PoolKernels::Packs ? 16 / bytesOf(type) : 1; }
/// Returns the sizes of a pooling. Dimensions of size 1 come first where the window has less than kPackDims.
PoolPacksParameters packsOf(const Pool &pool, int64_t width) {
  PoolPacksParameters p{};
  p.inner = int32_t(pool.inner);
  p.packs = divisorOf(pool.inner / width);
  const int added = kPackDims - pool.window.rank;
  for (int d = 0; d < kPackDims; ++d) {
    WindowDim dim = d < added ? WindowDim{1, 1, 1, 1, 1, 0} : pool.window.dims[d - added];
    p.dims[d] = {divisorOf(dim.size),     divisorOf(dim.places), divisorOf(dim.stride),
                 divisorOf(dim.dilation), int32_t(dim.window),   int32_t(dim.low)};
  }
  return p;
}
} // namespace

Result<Calls> callReduceWindow(const CallRequest &r) {
  const TensorView &x = r.operand(0), &y = r.result();
  Result<Pool> pool = poolOf(r, x.shape, y.shape);
  if (!pool)
    return pool.error();
  std::string name = r.attrs().at("kind").get<std::string>();
  Reduction kind = name == "sum" ? Reduction::Sum : name == "max" ? Reduction::Max : Reduction::Min;
  PoolKernels kernels = kernelsOf(*pool, y.dtype, {&x, &y});
  Calls calls;
  if (kernels == PoolKernels::Any) {
    ReduceWindowParameters p{kind, x.data, y.data, y.elements(), pool->inner, pool->window};
    addElementCall(calls, "Window", y.dtype, "reduceWindow", p.n, p);
    return calls;
  }
  int64_t width = widthOf(kernels, y.dtype);
  PoolPacksParameters p = packsOf(*pool, width);
  p.kind = kind;
  p.x = x.data;
  p.y = y.data;
  p.placed = y.elements();
  addElementCall(calls, "Window", y.dtype, width > 1 ? "reduceWindowPacks" : "reduceWindowSinglePacks",
                 p.placed / width, p);
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
  const int32_t isMaximum = r.attrs().at("kind").get<std::string>() == "max";
  const int64_t n = dx.elements(), placed = dy.elements();
  PoolKernels kernels = kernelsOf(*pool, x.dtype, {&x, &dy, &dx});
  int64_t bytes = kernels == PoolKernels::Any ? sizeof(int32_t) : sizeof(uint8_t);
  Calls calls;
  void *selected = r.scratch(takeScratch(calls, placed * bytes));
  if (kernels == PoolKernels::Any) {
    SelectAndScatterParameters p{isMaximum, x.data, dy.data, dx.data, selected, n, placed, pool->inner, pool->window};
    addElementCall(calls, "Window", x.dtype, "selectOfWindows", placed, p);
    addElementCall(calls, "Window", x.dtype, "scatterOfWindows", n, p);
    return calls;
  }
  int64_t width = widthOf(kernels, x.dtype);
  PoolPacksParameters p = packsOf(*pool, width);
  p.isMaximum = isMaximum;
  p.x = x.data;
  p.dy = dy.data;
  p.dx = dx.data;
  p.selected = selected;
  p.n = n;
  p.placed = placed;
  addElementCall(calls, "Window", x.dtype, width > 1 ? "selectOfPacks" : "selectOfSinglePacks", placed / width, p);
  addElementCall(calls, "Window", x.dtype, width > 1 ? "scatterOfPacks" : "scatterOfSinglePacks", n / width, p);
  return calls;
}

} // namespace kerf::runtime::cuda
