// SPDX-License-Identifier: Apache-2.0
// Compares convolutions and poolings of random shapes with loops in double, and tests the errors of wrong instructions.
#include "KernelTestSupport.h"

#include <algorithm>

namespace kerf::runtime::test {
namespace {

struct Steps {
  Shape size, window, strides, dilations, low, high, places;

  Steps(Random &random, size_t dims, int64_t largest, bool isEven = false) {
    for (size_t d = 0; d < dims; ++d) {
      window.push_back(random.integer(1, 3));
      strides.push_back(random.integer(1, 3));
      dilations.push_back(random.integer(1, 2));
      low.push_back(random.integer(0, 3));
      high.push_back(random.integer(0, 3));
      if (isEven)
        high[d] = low[d];
      int64_t reach = (window[d] - 1) * dilations[d] + 1;
      size.push_back(std::max<int64_t>(random.integer(1, largest), reach - low[d] - high[d]));
    }
    setPlaces();
  }
  /// Sets the numbers of places, which follow from the other lists.
  void setPlaces() {
    places.clear();
    for (size_t d = 0; d < size.size(); ++d)
      places.push_back((low[d] + size[d] + high[d] - (window[d] - 1) * dilations[d] - 1) / strides[d] + 1);
  }
  /// Makes a dimension one that the window does not move along.
  void pass(size_t d) {
    window[d] = strides[d] = dilations[d] = 1;
    low[d] = high[d] = 0;
  }
  Json attributes() const { return {{"strides", strides}, {"dilations", dilations}, {"low", low}, {"high", high}}; }
  /// Calls visit(w, t, s) for each element w of the window and place t that lie over an element s of the tensor,
  /// not over padding.
  template <typename Visit> void meetings(Visit visit) const {
    forEachIndex(places, [&](const std::vector<int64_t> &t) {
      forEachIndex(window, [&](const std::vector<int64_t> &w) {
        Shape s;
        for (size_t d = 0; d < size.size(); ++d)
          s.push_back(t[d] * strides[d] + w[d] * dilations[d] - low[d]);
        for (size_t d = 0; d < size.size(); ++d)
          if (s[d] < 0 || s[d] >= size[d])
            return;
        visit(flatIndex(window, w), flatIndex(places, t), flatIndex(size, s));
      });
    });
  }
};

Shape joined(std::initializer_list<int64_t> first, const Shape &rest) {
  Shape all(first);
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

/// Returns the values of a tensor whose channels move from dimension 1 to the last one, which gives it `shape`.
std::vector<double> channelsLast(const std::vector<double> &values, const Shape &shape) {
  int64_t channels = shape.back(), places = elementsOf({shape.begin() + 1, shape.end() - 1});
  std::vector<double> moved(values.size());
  for (size_t i = 0; i < moved.size(); ++i) {
    int64_t outer = int64_t(i) / (channels * places), place = int64_t(i) / channels % places;
    moved[i] = values[size_t((outer * channels + int64_t(i) % channels) * places + place)];
  }
  return moved;
}
HostTensor channelsLast(HostTensor tensor) {
  std::rotate(tensor.shape.begin() + 1, tensor.shape.begin() + 2, tensor.shape.end());
  tensor.values = channelsLast(tensor.values, tensor.shape);
  return tensor;
}

struct Channels {
  int64_t samples, groups, in, out; // of a group
};

void expectAllThree(Random &random, DType dtype, const Steps &steps, const Channels &c) {
  HostTensor x = random.normals(dtype, joined({c.samples, c.groups * c.in}, steps.size)),
             k = random.normals(dtype, joined({c.groups * c.out, c.in}, steps.window)),
             y = random.normals(dtype, joined({c.samples, c.groups * c.out}, steps.places));
  int64_t s = elementsOf(steps.size), w = elementsOf(steps.window), t = elementsOf(steps.places);
  std::vector<double> result(y.elements()), operand(x.elements()), kernel(k.elements());
  steps.meetings([&](int64_t atW, int64_t atT, int64_t atS) {
    for (int64_t n = 0; n < c.samples; ++n)
      for (int64_t o = 0; o < c.groups * c.out; ++o)
        for (int64_t i = 0; i < c.in; ++i) {
          int64_t xi = ((n * c.groups + o / c.out) * c.in + i) * s + atS, ki = (o * c.in + i) * w + atW,
                  yi = (n * c.groups * c.out + o) * t + atT;
          result[yi] += x.values[xi] * k.values[ki];
          operand[xi] += y.values[yi] * k.values[ki];
          kernel[ki] += x.values[xi] * y.values[yi];
        }
  });
  // The tolerance is for sums of up to a thousand products of normal numbers.
  double tolerance = dtype == F32 ? 1e-4 : 10 * toleranceOf(dtype);
  for (bool last : {false, true}) {
    SCOPED_TRACE(last ? "channels last" : "channels second");
    Json attrs = steps.attributes();
    if (last) {
      attrs["channels_last"] = true;
      for (HostTensor *tensor : {&x, &k, &y})
        *tensor = channelsLast(std::move(*tensor));
      for (auto [values, tensor] : {std::pair(&result, &y), {&operand, &x}, {&kernel, &k}})
        *values = channelsLast(*values, tensor->shape);
    }
    expectNear(runKernel("convolution", attrs, {x, k}, {{dtype, y.shape}})[0], result, tolerance);
    expectNear(runKernel("convolution_transpose", attrs, {y, k}, {{dtype, x.shape}})[0], operand, tolerance);
    expectNear(runKernel("convolution_kernel", attrs, {x, y}, {{dtype, k.shape}})[0], kernel, tolerance);
  }
}

TEST(Convolution, MakesEachOfTheThreeFromTheOthers) {
  for (int seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    DType dtype = seed % 3 == 0 ? F64 : seed % 3 == 1 ? F32 : DType::BF16;
    // Small convolutions use our own code in float32, too. Large ones use oneDNN if it supports them (up
    // to three dimensions).
    bool isLarge = seed % 2;
    Steps steps(random, random.integer(1, seed % 20 == 0 ? 4 : 3), isLarge ? 14 : 5);
    int64_t samples = random.integer(1, 3), groups = random.integer(1, 3);
    int64_t in = random.integer(1, isLarge ? 20 : 3), out = random.integer(1, isLarge ? 20 : 3);
    expectAllThree(random, dtype, steps, {samples, groups, in, out});
  }
}

// On NVIDIA GPUs, cuDNN computes convolutions of up to three dimensions in these types. Its engines differ in the
// padding that they take: half of the convolutions have the same padding before and after a dimension.
TEST(Convolution, OfThreeTypesAgreeWithTheDefinition) {
  int64_t before = cudnnExecutions(), instructions = 0;
  for (int seed = 0; seed < 54; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    DType dtype = seed % 3 == 0 ? DType::F16 : seed % 3 == 1 ? F32 : DType::BF16;
    Steps steps(random, size_t(1 + seed / 3 % 3), 6, seed >= 27);
    int64_t samples = random.integer(1, 2), groups = random.integer(1, 3), in = random.integer(1, 3);
    expectAllThree(random, dtype, steps, {samples, groups, in, random.integer(1, 3)});
    instructions += 6;
  }
  if (before >= 0) {
    EXPECT_GE(cudnnExecutions() - before, instructions);
  }
}

/// Numbers of channels that fill oneDNN's blocks and others that do not. The convolutions are cut along different
/// dimensions or not at all.
TEST(Convolution, LargeOnesAreDoneInPieces) {
  int64_t seed = 0;
  for (Channels channels : {Channels{8, 1, 16, 32},
                            {3, 1, 24, 24},
                            {1, 1, 64, 96},
                            {2, 1, 96, 48},
                            {6, 1, 3, 40},
                            {2, 1, 12, 48},
                            {1, 1, 24, 56},
                            {5, 2, 16, 16},
                            {3, 6, 8, 20},
                            {4, 64, 1, 1},
                            {2, 12, 1, 3}}) {
    SCOPED_TRACE(++seed);
    Random random(seed);
    Steps steps(random, 2, 14);
    steps.size = {15, 14};
    steps.window = {3, 2};
    steps.strides = {seed % 2 + 1, 1};
    steps.dilations = {1, seed % 3 == 0 ? 2 : 1};
    steps.low = steps.high = {1, 1};
    steps.setPlaces();
    expectAllThree(random, F32, steps, channels);
  }
}

TEST(Convolution, NoSampleGivesNoGradient) {
  Json attrs = {{"strides", {1}}, {"dilations", {1}}, {"low", {0}}, {"high", {0}}};
  EXPECT_EQ(runKernel("convolution_kernel", attrs, {{F32, {0, 2, 4}, {}}, {F32, {0, 3, 3}, {}}}, {{F32, {3, 2, 2}}})[0]
                .values,
            std::vector<double>(12, 0.0));
}

TEST(Convolution, RefusesShapesThatDoNotFit) {
  Random random(1);
  Json attrs = {{"strides", {2}}, {"dilations", {1}}, {"low", {1}}, {"high", {0}}};
  HostTensor x = random.normals(F64, {2, 4, 7}), k = random.normals(F64, {6, 2, 3});
  EXPECT_EQ(errorOf("convolution", attrs, {x, k}, {{F64, {2, 6, 4}}}),
            "convolution: dimension 0 of the window has 3 places, the result 4; compile the package again");
  EXPECT_EQ(errorOf("convolution", attrs, {x, random.normals(F64, {6, 3, 3})}, {{F64, {2, 6, 3}}}),
            "convolution: 3 channels of the kernel do not divide the operand's 4; compile the package again");
  EXPECT_EQ(errorOf("convolution", attrs, {x, k}, {{F64, {2, 5, 3}}}),
            "convolution: operand f64[2, 4, 7], kernel f64[6, 2, 3] and result f64[2, 5, 3] do not fit each other; "
            "compile the package again");
  attrs["strides"] = {0};
  EXPECT_EQ(errorOf("convolution", attrs, {x, k}, {{F64, {2, 6, 3}}}),
            "convolution: attribute 'strides' has the entry 0, below 1; compile the package again");
  attrs["strides"] = {1, 1};
  EXPECT_EQ(errorOf("convolution", attrs, {x, k}, {{F64, {2, 6, 3}}}),
            "convolution: attribute 'strides' has 2 entries, not 1; compile the package again");
}

void expectPools(Random &random, DType dtype, const Steps &steps) {
  HostTensor x = random.integers(F64, steps.size, -3, 3), dy = random.normals(dtype, steps.places); // many are equal
  x.dtype = dtype;
  for (const char *kind : {"sum", "max", "min"}) {
    bool isSum = kind == std::string("sum"), isMax = kind == std::string("max");
    double neutral = isSum ? 0 : isMax ? -INFINITY : INFINITY;
    std::vector<double> pooled(dy.elements(), neutral), gradient(x.elements());
    std::vector<int64_t> chosen(dy.elements(), -1);
    steps.meetings([&](int64_t, int64_t t, int64_t s) {
      double value = x.values[s];
      pooled[t] = isSum ? pooled[t] + value : isMax ? std::max(pooled[t], value) : std::min(pooled[t], value);
      if (chosen[t] < 0 || (isMax ? value > x.values[chosen[t]] : value < x.values[chosen[t]]))
        chosen[t] = s;
    });
    for (size_t t = 0; t < chosen.size(); ++t)
      if (chosen[t] >= 0)
        gradient[chosen[t]] += dy.values[t];
    Json attrs = steps.attributes();
    attrs["kind"] = kind;
    attrs["window"] = steps.window;
    EXPECT_EQ(runKernel("reduce_window", attrs, {x}, {{dtype, dy.shape}})[0].values, pooled);
    if (!isSum)
      expectNear(runKernel("select_and_scatter", attrs, {x, dy}, {{dtype, x.shape}})[0], gradient, toleranceOf(dtype));
  }
}

TEST(Pool, CombinesWindowsAndSendsGradientsToTheFirstExtreme) {
  for (int seed = 0; seed < 90; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    DType dtype = seed % 3 == 0 ? F64 : seed % 3 == 1 ? F32 : DType::BF16;
    Steps steps(random, random.integer(1, 3), 6);
    if (seed % 2) { // samples before and channels behind, which the window does not move along
      steps.pass(0);
      steps.pass(steps.size.size() - 1);
      steps.setPlaces();
    }
    expectPools(random, dtype, steps);
  }
}

// GPUs read 16 bytes of channels at a time, and have other kernels for windows of 255 elements and more.
TEST(Pool, OfManyChannelsOfFourDimensionsAndOfLargeWindows) {
  for (int seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    DType dtype = seed % 3 == 0 ? DType::F16 : seed % 3 == 1 ? F32 : DType::BF16;
    Steps steps(random, seed % 4 == 3 ? 5 : 4, 4);
    steps.size.back() = seed % 8 < 4 ? 16 : 12; // 12 bf16 are no whole numbers of 16 bytes
    steps.pass(steps.size.size() - 1);
    if (seed % 4 < 2)
      steps.pass(0);
    if (seed % 4 == 1) {
      steps.window[1] = 290;
      steps.size[1] = 300;
      steps.dilations[1] = 1;
      steps.pass(2);
    }
    steps.setPlaces();
    expectPools(random, dtype, steps);
  }
}

TEST(Pool, CountsIntegersAndRefusesOtherShapes) {
  Json attrs = {{"kind", "sum"},       {"window", {1, 2}}, {"strides", {1, 1}},
                {"dilations", {1, 1}}, {"low", {0, 1}},    {"high", {0, 0}}};
  HostTensor x{DType::I64, {1, 3}, {1, 2, 4}};
  EXPECT_EQ(runKernel("reduce_window", attrs, {x}, {{DType::I64, {1, 3}}})[0].values, (std::vector<double>{1, 3, 6}));
  EXPECT_EQ(errorOf("reduce_window", attrs, {x}, {{DType::I64, {1, 2}}}),
            "reduce_window: dimension 1 of the window has 3 places, the result 2; compile the package again");
  EXPECT_EQ(errorOf("select_and_scatter", attrs, {x, x}, {{DType::I64, {1, 3}}}),
            "select_and_scatter: attribute 'kind' is \"sum\", not one of max, min; compile the package again");
}

} // namespace
} // namespace kerf::runtime::test
