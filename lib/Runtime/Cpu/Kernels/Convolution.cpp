// SPDX-License-Identifier: Apache-2.0
// Convolutions and their two gradients. float32 uses oneDNN's primitives, which are created once, between reorders to
// and from their preferred layouts. float64, and convolutions that oneDNN does not support, use our matrix product
// (Gemm.h) for each sample and group. Its operand is a matrix (im2col) with one row for each weight of the kernel,
// which holds the elements that the weight is multiplied by (Chellapilla, Puri and Simard, High Performance
// Convolutional Neural Networks for Document Processing, 2006).
#include "Families.h"
#include "Gemm.h"
#include "GemmOfBf16.h"
#include "OneDnnConvolution.h"
#include "ThroughFloat.h"
#include "Windows.h"

#include <algorithm>
#include <array>

namespace kerf::runtime::kernels {

namespace {
template <typename T> class OwnConvolution {
public:
  OwnConvolution(const ConvolutionSizes &sizes, ConvolutionSide made)
      : made(made), sizes(sizes), places(sizes.window.placeCount()), rows(sizes.in * sizes.window.windowElements()) {
    const Window &w = sizes.window;
    auto all = [](const std::vector<int64_t> &values, int64_t value) {
      return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == value; });
    };
    isPointwise = all(w.window, 1) && all(w.strides, 1) && all(w.low, 0) && all(w.high, 0);
    if (!isPointwise)
      lines = linesOf(w);
  }

  int64_t matrixBytes() const { return isPointwise ? 0 : rows * places * int64_t(sizeof(T)); }
  int64_t productBytes() const {
    switch (made) {
    case ConvolutionSide::Result:
      return gemmScratchBytes<T>(sizes.out, places, rows);
    case ConvolutionSide::Operand:
      return gemmScratchBytes<T>(rows, places, sizes.out);
    case ConvolutionSide::Kernel:
      return gemmScratchBytes<T>(sizes.out, rows, places);
    }
    return 0;
  }

  void run(T *operand, T *kernel, T *result, T *matrix, void *scratch) const {
    int64_t operandStep = sizes.in * sizes.window.elements(), kernelStep = sizes.out * rows,
            resultStep = sizes.out * places;
    if (made == ConvolutionSide::Kernel && sizes.samples == 0)
      std::fill_n(kernel, sizes.groups * kernelStep, T(0));
    for (int64_t n = 0; n < sizes.samples; ++n)
      for (int64_t g = 0; g < sizes.groups; ++g) {
        T *x = operand + (n * sizes.groups + g) * operandStep, *w = kernel + g * kernelStep,
          *y = result + (n * sizes.groups + g) * resultStep;
        T *columns = isPointwise ? x : matrix;
        if (made == ConvolutionSide::Operand) {
          gemm<T>(rows, places, sizes.out, T(1), {w, 1, rows}, {y, places, 1}, columns, places, GemmOutput::Overwrite,
                  scratch);
          if (!isPointwise)
            toOperand(matrix, x);
          continue;
        }
        if (!isPointwise)
          fromOperand(x, matrix);
        if (made == ConvolutionSide::Result)
          gemm<T>(sizes.out, places, rows, T(1), {w, rows, 1}, {columns, places, 1}, y, places, GemmOutput::Overwrite,
                  scratch);
        else
          gemm<T>(sizes.out, rows, places, T(1), {y, places, 1}, {columns, 1, places}, w, rows,
                  n == 0 ? GemmOutput::Overwrite : GemmOutput::Add, scratch);
      }
  }

private:
  void fromOperand(const T *x, T *matrix) const {
    int64_t length = sizes.window.places.back(), stride = sizes.window.strides.back(),
            step = sizes.window.windowElements() * places;
    for (int64_t c = 0; c < sizes.in; ++c, x += sizes.window.elements(), matrix += step)
      for (const WindowLine &line : lines) {
        T *row = matrix + line.w * places + line.to;
        std::fill_n(row, line.begin, T(0));
        for (int64_t t = line.begin; t < line.end; ++t)
          row[t] = x[line.from + t * stride];
        std::fill(row + line.end, row + length, T(0));
      }
  }
  void toOperand(const T *matrix, T *x) const {
    int64_t stride = sizes.window.strides.back(), step = sizes.window.windowElements() * places;
    std::fill_n(x, sizes.in * sizes.window.elements(), T(0));
    for (int64_t c = 0; c < sizes.in; ++c, x += sizes.window.elements(), matrix += step)
      for (const WindowLine &line : lines) {
        const T *row = matrix + line.w * places + line.to;
        for (int64_t t = line.begin; t < line.end; ++t)
          x[line.from + t * stride] += row[t];
      }
  }

  ConvolutionSide made;
  ConvolutionSizes sizes;
  int64_t places, rows;     // numbers of columns and rows of the im2col matrix
  bool isPointwise = false; // whether the operand itself is the im2col matrix
  std::vector<WindowLine> lines;
};

/// Convolutions of fewer multiplications do not use oneDNN, because a call with its reorders would cost about as much
/// as the convolution (10 us).
constexpr double kSmallConvolution = 65536;

/// Returns the shape with its channels, which are the last dimension, as second dimension.
Shape channelsSecond(Shape shape) {
  if (shape.size() > 2)
    std::rotate(shape.begin() + 1, shape.end() - 1, shape.end());
  return shape;
}

/// Checks the shapes of the three tensors of a convolution against each other and returns its sizes. Any of the three
/// may be the one that is computed.
ConvolutionSizes sizesOf(Checker &check, const TensorView &operand, const TensorView &kernel,
                         const TensorView &result) {
  ConvolutionSizes sizes;
  sizes.channelsLast = check.flag("channels_last");
  Shape x = operand.shape, k = kernel.shape, y = result.shape;
  if (sizes.channelsLast)
    x = channelsSecond(x), k = channelsSecond(k), y = channelsSecond(y);
  check.require(x.size() >= 3 && k.size() == x.size() && y.size() == x.size(),
                "operand, kernel and result have ranks {}, {} and {}, not one rank of 3 or more", x.size(), k.size(),
                y.size());
  if (check.failed())
    return sizes;
  check.require(k[1] > 0 && x[1] % k[1] == 0 && x[1] > 0, "{} channels of the kernel do not divide the operand's {}",
                k[1], x[1]);
  if (check.failed())
    return sizes;
  sizes.groups = x[1] / k[1];
  check.require(y[1] % sizes.groups == 0 && k[0] == y[1] && x[0] == y[0],
                "operand {}, kernel {} and result {} do not fit each other", typeText(operand), typeText(kernel),
                typeText(result));
  sizes.samples = x[0];
  sizes.in = k[1];
  sizes.out = y[1] / sizes.groups;
  sizes.window.size.assign(x.begin() + 2, x.end());
  sizes.window.window.assign(k.begin() + 2, k.end());
  sizes.window.places.assign(y.begin() + 2, y.end());
  readWindow(check, sizes.window);
  return sizes;
}

/// Copies each of `count` matrices [rows, columns] to its transpose.
template <typename T> void transposeEach(const T *from, T *to, int64_t count, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < count; ++i, from += rows * columns, to += rows * columns)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        to[c * rows + r] = from[r * columns + c];
}

/// One of the three tensors of a convolution with channels last: `outer` matrices [places, channels].
struct LastChannels {
  int64_t outer, places, channels;
  int64_t elements() const { return outer * places * channels; }
};

/// Plans our own convolution. With channels last, it computes on copies that have the channels as second dimension.
template <typename T>
PlannedKernel plannedOwn(const BindRequest &request, const ConvolutionSizes &sizes, ConvolutionSide made,
                         std::array<T *, 3> tensors) {
  OwnConvolution<T> own(sizes, made);
  ScratchLayout layout;
  T *matrix = scratchAt<T>(request.scratch, layout.take(own.matrixBytes()));
  void *scratch = scratchAt<std::byte>(request.scratch, layout.take(own.productBytes()));
  const Window &w = sizes.window;
  std::array<LastChannels, 3> last = {{{sizes.samples, w.elements(), sizes.groups * sizes.in},
                                       {sizes.groups * sizes.out, w.windowElements(), sizes.in},
                                       {sizes.samples, w.placeCount(), sizes.groups * sizes.out}}};
  std::array<T *, 3> used = tensors; // by ConvolutionSide
  if (sizes.channelsLast)
    for (size_t t = 0; t < 3; ++t)
      used[t] = scratchAt<T>(request.scratch, layout.take(last[t].elements() * int64_t(sizeof(T))));
  return PlannedKernel{[=, own = std::move(own)] {
                         for (size_t t = 0; t < 3; ++t)
                           if (sizes.channelsLast && t != size_t(made))
                             transposeEach(tensors[t], used[t], last[t].outer, last[t].places, last[t].channels);
                         own.run(used[0], used[1], used[2], matrix, scratch);
                         const LastChannels &l = last[size_t(made)];
                         if (sizes.channelsLast)
                           transposeEach(used[size_t(made)], tensors[size_t(made)], l.outer, l.channels, l.places);
                         return ok();
                       },
                       layout.bytes()};
}

/// The three tensors of a convolution, by ConvolutionSide.
std::array<TensorView, 3> tensorsOf(const BindRequest &request, ConvolutionSide made) {
  const TensorView &first = request.operands[0], &second = request.operands[1], &third = request.results[0];
  return {made == ConvolutionSide::Operand ? third : first, made == ConvolutionSide::Kernel ? third : second,
          made == ConvolutionSide::Result   ? third
          : made == ConvolutionSide::Kernel ? second
                                            : first};
}

/// Plans the convolution by oneDNN. Returns nothing if oneDNN does not support it, or if it is small.
std::optional<PlannedKernel> plannedByOneDnn(const BindRequest &request, const ConvolutionSizes &sizes,
                                             ConvolutionSide made) {
  std::array<TensorView, 3> t = tensorsOf(request, made);
  double products = double(t[2].elements()) * double(sizes.in) * double(sizes.window.windowElements());
  if (products <= kSmallConvolution)
    return std::nullopt;
  auto fast = OneDnnConvolution::make(sizes, made, {t[0].dtype, t[1].dtype, t[2].dtype});
  if (!fast)
    return std::nullopt;
  void *scratch = scratchAt<void>(request.scratch, 0);
  return PlannedKernel{[=, team = request.team] { return fast->run(team, t[0].data, t[1].data, t[2].data, scratch); },
                       fast->scratchBytes};
}

/// Plans a convolution of float32 or float64 numbers.
template <ConvolutionSide made> Result<PlannedKernel> plannedOfFloats(const BindRequest &request) {
  Checker check(request);
  if (!check.counts(2, 2, 1))
    return check.error();
  std::array<TensorView, 3> tensors = tensorsOf(request, made);
  const auto &[operand, kernel, result] = tensors;
  check.dtype(kernel, "the kernel", operand.dtype);
  check.dtype(result, "the result", operand.dtype);
  if (check.failed())
    return check.error();
  ConvolutionSizes sizes = sizesOf(check, operand, kernel, result);
  if (check.failed())
    return check.error();
  if (operand.dtype == DType::F32)
    if (std::optional<PlannedKernel> fast = plannedByOneDnn(request, sizes, made))
      return std::move(*fast);
  return withFloatType(request, operand.dtype, [&](auto type) -> Result<PlannedKernel> {
    using T = typename decltype(type)::type;
    return plannedOwn<T>(request, sizes, made,
                         {mutableDataOf<T>(tensors[0]), mutableDataOf<T>(tensors[1]), mutableDataOf<T>(tensors[2])});
  });
}

/// Plans a convolution of bf16 numbers, to bf16 or float32 numbers, for the processor's instructions for bf16. Returns
/// nothing if it is not of this kind, or wrong.
std::optional<PlannedKernel> plannedOfBf16(const BindRequest &request, ConvolutionSide made) {
  Checker check(request);
  if (!multipliesBf16() || !check.counts(2, 2, 1))
    return std::nullopt;
  const DType of = request.results[0].dtype;
  for (const TensorView &view : request.operands)
    if (view.dtype != DType::BF16)
      return std::nullopt;
  if (of != DType::BF16 && of != DType::F32)
    return std::nullopt;
  std::array<TensorView, 3> tensors = tensorsOf(request, made);
  ConvolutionSizes sizes = sizesOf(check, tensors[0], tensors[1], tensors[2]);
  return check.failed() ? std::nullopt : plannedByOneDnn(request, sizes, made);
}

template <ConvolutionSide made> Result<PlannedKernel> planned(const BindRequest &request) {
  if (!hasHalf(request))
    return plannedOfFloats<made>(request);
  if (std::optional<PlannedKernel> fast = plannedOfBf16(request, made))
    return std::move(*fast);
  return planThroughFloat(request, plannedOfFloats<made>);
}
} // namespace

Result<PlannedKernel> planConvolution(const BindRequest &request) { return planned<ConvolutionSide::Result>(request); }
Result<PlannedKernel> planConvolutionTranspose(const BindRequest &request) {
  return planned<ConvolutionSide::Operand>(request);
}
Result<PlannedKernel> planConvolutionKernel(const BindRequest &request) {
  return planned<ConvolutionSide::Kernel>(request);
}

} // namespace kerf::runtime::kernels
