// SPDX-License-Identifier: Apache-2.0
// Calls of the kernels of convolutions and poolings (Kernels/Window.cu).
#include "CallsSort.h"
#include "Kernels/ParametersWindow.h"

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
  auto spatial = [](const TensorView &view) { return Shape(view.shape.begin() + 2, view.shape.end()); };
  Shape size = spatial(operand);
  Result<Window> window = windowOf(r, size, spatial(kernel), spatial(result), 0, size.size());
  if (!window)
    return window.error();
  int64_t in = kernel.shape[1], groups = operand.shape[1] / in;
  return ConvolutionParameters{operand.data,     kernel.data, result.data, r.result().elements(),
                               operand.shape[0], groups,      in,          result.shape[1] / groups,
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

Result<Calls> callReduceWindow(const CallRequest &r) {
  const TensorView &x = r.operand(0), &y = r.result();
  Result<Pool> pool = poolOf(r, x.shape, y.shape);
  if (!pool)
    return pool.error();
  std::string kind = r.attrs().at("kind").get<std::string>();
  ReduceWindowParameters p{kind == "sum"   ? Reduction::Sum
                           : kind == "max" ? Reduction::Max
                                           : Reduction::Min,
                           x.data,
                           y.data,
                           y.elements(),
                           pool->inner,
                           pool->window};
  Calls calls;
  addElementCall(calls, "Window", y.dtype, "reduceWindow", p.n, p);
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
  Calls calls;
  auto *selected = static_cast<int32_t *>(r.scratch(takeScratch(calls, dy.elements() * int64_t(sizeof(int32_t)))));
  SelectAndScatterParameters p{r.attrs().at("kind").get<std::string>() == "max",
                               x.data,
                               dy.data,
                               dx.data,
                               selected,
                               dx.elements(),
                               dy.elements(),
                               pool->inner,
                               pool->window};
  addElementCall(calls, "Window", x.dtype, "selectOfWindows", p.places, p);
  addElementCall(calls, "Window", x.dtype, "scatterOfWindows", p.n, p);
  return calls;
}

} // namespace kerf::runtime::cuda
