// SPDX-License-Identifier: Apache-2.0
// Matrix products on NVIDIA GPUs: which ones cuBLASLt computes, with which algorithm, and that their numbers are right.
// The tests run where the variable KERF_KERNEL_DEVICE names a GPU. Where it is the stand-ins' GPU, they ask the
// stand-in of cuBLASLt how many products it has computed.
#include "../../../lib/Runtime/Cuda/Library.h"
#include "KernelTestSupport.h"
#include "kerf/Runtime/Device.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <dlfcn.h>
#include <numeric>
#include <thread>

namespace kerf::runtime::test {
namespace {

bool isOnGpu() {
  const char *device = std::getenv("KERF_KERNEL_DEVICE");
  return device && std::string_view(device).starts_with("cuda");
}

/// Returns how many products the algorithm of this number (all algorithms: -1) has computed on the stand-in of
/// cuBLASLt; nothing for the real library.
std::optional<int64_t> productsOfLibrary(int algorithm = -1) {
  static auto *count = [] {
    auto library = cuda::openLibrary("libcublasLt.so.13");
    void *found = library ? dlsym(library->handle, "kerfStandinProducts") : nullptr;
    return reinterpret_cast<uint64_t (*)(uint64_t)>(found);
  }();
  if (!count)
    return std::nullopt;
  int64_t all = 0;
  for (int i = 0; i < 8; ++i)
    if (algorithm < 0 || algorithm == i)
      all += int64_t(count(uint64_t(i)));
  return all;
}

/// A dot_general by the letters of its dimensions, as in "bik,bkj->bij". Letters of the result that both operands have
/// are batch dimensions.
struct Form {
  const char *left, *right;
  std::string batch, contracted;
};

/// The sizes of dimensions, by their letters.
struct Sizes {
  explicit Sizes(std::initializer_list<std::pair<char, int64_t>> sizes) {
    for (auto [letter, size] : sizes)
      of[size_t(letter)] = size;
  }
  Shape shape(std::string_view letters) const {
    Shape shape;
    for (char letter : letters)
      shape.push_back(of[size_t(letter)]);
    return shape;
  }
  std::array<int64_t, 128> of = {};
};

std::string freeOf(std::string_view letters, const Form &form) {
  std::string free;
  for (char letter : letters)
    if (form.batch.find(letter) == std::string::npos && form.contracted.find(letter) == std::string::npos)
      free += letter;
  return free;
}

Json attrsOf(const Form &form) {
  auto places = [](std::string_view letters, std::string_view of) {
    std::vector<int64_t> found;
    for (char letter : of)
      found.push_back(int64_t(letters.find(letter)));
    return found;
  };
  return {{"lhs_batching", places(form.left, form.batch)},
          {"rhs_batching", places(form.right, form.batch)},
          {"lhs_contracting", places(form.left, form.contracted)},
          {"rhs_contracting", places(form.right, form.contracted)}};
}

/// Computes the product in double.
std::vector<double> expectedOf(const Form &form, const Sizes &sizes, const HostTensor &x, const HostTensor &y) {
  std::string result = form.batch + freeOf(form.left, form) + freeOf(form.right, form);
  std::vector<double> z;
  std::array<int64_t, 128> at = {};
  auto placeOf = [&](std::string_view letters) {
    int64_t place = 0;
    for (char letter : letters)
      place = place * sizes.of[size_t(letter)] + at[size_t(letter)];
    return size_t(place);
  };
  forEachIndex(sizes.shape(result), [&](const std::vector<int64_t> &index) {
    for (size_t i = 0; i < index.size(); ++i)
      at[size_t(result[i])] = index[i];
    double sum = 0;
    forEachIndex(sizes.shape(form.contracted), [&](const std::vector<int64_t> &terms) {
      for (size_t i = 0; i < terms.size(); ++i)
        at[size_t(form.contracted[i])] = terms[i];
      sum += x.values[placeOf(form.left)] * y.values[placeOf(form.right)];
    });
    z.push_back(sum);
  });
  return z;
}

void checkProduct(const Form &form, const Sizes &sizes, DType type, DType resultType, int64_t products, int seed) {
  SCOPED_TRACE(::testing::Message() << form.left << "," << form.right << " batch " << form.batch << " contracted "
                                    << form.contracted << " in " << toString(type) << " seed " << seed);
  Random random(seed);
  HostTensor x = random.normals(type, sizes.shape(form.left)), y = random.normals(type, sizes.shape(form.right));
  auto before = productsOfLibrary();
  Shape shape = sizes.shape(form.batch + freeOf(form.left, form) + freeOf(form.right, form));
  HostTensor z = runKernel("dot_general", attrsOf(form), {x, y}, {{resultType, shape}})[0];
  double terms = 1;
  for (char letter : form.contracted)
    terms *= double(sizes.of[size_t(letter)]);
  DType rounded = resultType == DType::F32 ? DType::F32 : type; // 16-bit factors are exact in float32
  expectNear(z, expectedOf(form, sizes, x, y), std::sqrt(terms) * toleranceOf(rounded));
  if (before) {
    EXPECT_EQ(*productsOfLibrary() - *before, 2 * products) << "runKernel runs a kernel twice";
  }
}

TEST(CudaProducts, ReachTheLibraryInAllForms) {
  if (!isOnGpu())
    GTEST_SKIP() << "KERF_KERNEL_DEVICE names no GPU";
  const Sizes small{{'b', 3}, {'c', 2}, {'i', 5}, {'j', 7}, {'k', 4}, {'l', 6}, {'1', 1}};
  const Sizes large{{'b', 4}, {'c', 5}, {'i', 96}, {'j', 100}, {'k', 33}, {'l', 28}, {'1', 1}};
  struct Case {
    Form form;
    int64_t small, large; // products of the library; the others are Kerf's own kernel's
  };
  const Case cases[] = {
      {{"ik", "kj", "", "k"}, 1, 1},       // a linear layer
      {{"ki", "kj", "", "k"}, 1, 1},       // the gradient of its weight
      {{"ik", "jk", "", "k"}, 1, 1},       // the gradient of its input
      {{"ki", "jk", "", "k"}, 1, 1},       //
      {{"bcik", "bcjk", "bc", "k"}, 1, 1}, // scores of attention
      {{"bick", "bjck", "bc", "k"}, 0, 1}, // the same with the heads behind the positions: both sides are copied
      {{"ick", "jck", "c", "k"}, 1, 1},    // one batch dimension may lie anywhere but last
      {{"ikc", "kjc", "c", "k"}, 0, 1},    //
      {{"bik", "kj", "", "k"}, 1, 1},      // several free dimensions that are one
      {{"ikb", "kj", "", "k"}, 0, 1},      // several that are not
      {{"bil", "bjl", "", "bl"}, 0, 1},    // several contracted ones that are not
      {{"lbi", "blj", "", "bl"}, 0, 1},    // each side has them in another order
      {{"lbi", "lbj", "", "bl"}, 1, 1},    // both sides have them in one order, and the attributes in another
      {{"k", "kj", "", "k"}, 1, 1},        //
      {{"k", "k", "", "k"}, 1, 1},         //
      {{"i", "j", "", ""}, 1, 1},          //
      {{"b", "b", "b", ""}, 1, 1},         //
      {{"i1k", "k1j", "1", "k"}, 1, 1},    //
      {{"1i", "1j", "", "1"}, 1, 1},       //
  };
  int seed = 0;
  for (const Case &one : cases)
    for (DType type : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
      checkProduct(one.form, small, type, type, one.small, ++seed);
      checkProduct(one.form, large, type, type, one.large, ++seed);
      if (type == DType::BF16 || type == DType::F16) {
        checkProduct(one.form, small, type, DType::F32, one.small, ++seed);
        checkProduct(one.form, large, type, DType::F32, one.large, ++seed);
      }
    }
}

/// Runs x (m x k) times y (k x n) in float32 on a device, with a kernel that is bound to memory of its own.
class BoundProduct {
public:
  BoundProduct(Device &device, int64_t m, int64_t n, int64_t k) : device(device) {
    instruction.op = "dot_general";
    instruction.attrs = attrsOf({"ik", "kj", "", "k"});
    request.operands = {{nullptr, DType::F32, {m, k}}, {nullptr, DType::F32, {k, n}}};
    request.results = {{nullptr, DType::F32, {m, n}}};
    for (auto *views : {&request.operands, &request.results})
      for (TensorView &view : *views) {
        memory.push_back(*device.allocate(view.bytes()));
        view.data = memory.back().get();
      }
    memory.push_back(*device.allocate(*device.scratchBytes(request)));
    request.scratch = memory.back().get();
  }
  void put(const TensorView &view, const std::vector<float> &values) {
    EXPECT_TRUE(device.copyIn(view.data, values.data(), view.bytes()));
  }
  std::vector<float> get(const TensorView &view) {
    std::vector<float> values(size_t(view.elements()));
    EXPECT_TRUE(device.copyOut(values.data(), view.data, view.bytes()));
    return values;
  }
  void bind() {
    auto bound = device.bind(request);
    ASSERT_TRUE(bound) << bound.error().message;
    kernel = std::move(*bound);
  }
  void launch() {
    auto stream = std::move(*device.createStream(StreamKind::Compute));
    EXPECT_TRUE(kernel->launch(*stream));
    EXPECT_TRUE(stream->synchronize());
  }
  KernelRequest request{instruction, {}, {}, mesh, 0};

private:
  Device &device;
  package::Instruction instruction;
  Mesh mesh;
  std::vector<std::shared_ptr<std::byte>> memory;
  std::unique_ptr<BoundKernel> kernel;
};

/// How often an algorithm runs while the three of the stand-in are measured.
constexpr int64_t kLeastRuns = 2, kMostRuns = 7;

std::unique_ptr<Device> gpuWith(DeviceOptions options) {
  auto device = createDevice(std::getenv("KERF_KERNEL_DEVICE"), options);
  EXPECT_TRUE(device) << device.error().message;
  return std::move(*device);
}

TEST(CudaProducts, MeasureAlgorithmsOnceAndOutsideOfTheProgramsMemory) {
  if (!isOnGpu())
    GTEST_SKIP() << "KERF_KERNEL_DEVICE names no GPU";
  auto device = gpuWith({});
  constexpr int64_t kM = 256, kN = 512, kK = 512;
  std::vector<float> x(kM * kK), y(kK * kN), before(kM * kN, -7);
  std::iota(x.begin(), x.end(), -1000.0F);
  std::fill(y.begin(), y.end(), 0.5F);
  auto first = productsOfLibrary();
  int64_t measured = 0;
  for (int layer = 0; layer < 2; ++layer) {
    BoundProduct product(*device, kM, kN, kK);
    auto *operands = product.request.operands.data();
    const TensorView &result = product.request.results[0];
    product.put(operands[0], x);
    product.put(operands[1], y);
    product.put(result, before);
    product.bind();
    if (first && layer == 0) {
      measured = *productsOfLibrary() - *first;
      EXPECT_GE(measured, 3 * kLeastRuns);
      EXPECT_LE(measured, 3 * kMostRuns);
    } else if (first) {
      EXPECT_EQ(*productsOfLibrary() - *first, measured + 1) << "only the first layer is measured, and has run once";
    }
    EXPECT_EQ(product.get(operands[0]), x);
    EXPECT_EQ(product.get(operands[1]), y);
    EXPECT_EQ(product.get(result), before);
    auto fastest = productsOfLibrary(2);
    product.launch();
    if (first) {
      EXPECT_EQ(*productsOfLibrary(2) - *fastest, 1) << "algorithm 2 is the one of the stand-in that does not sleep";
    }
    for (float value : {product.get(result)[0], product.get(result).back()})
      EXPECT_NE(value, -7);
    double row = 0;
    for (int64_t k = 0; k < kK; ++k)
      row += x[size_t(k)] * 0.5;
    EXPECT_NEAR(product.get(result)[0], row, 1e-4 * std::abs(row));
  }
}

TEST(CudaProducts, AreMeasuredByOneOfTheRanksThatAreThreads) {
  if (!isOnGpu())
    GTEST_SKIP() << "KERF_KERNEL_DEVICE names no GPU";
  constexpr int64_t kSize = 512, kRows = 264;
  std::unique_ptr<Device> devices[] = {gpuWith({}), gpuWith({})};
  std::vector<std::unique_ptr<BoundProduct>> products;
  for (auto &device : devices) {
    products.push_back(std::make_unique<BoundProduct>(*device, kRows, kSize, kSize));
    products.back()->put(products.back()->request.operands[0], std::vector<float>(kRows * kSize, 0.3F));
    products.back()->put(products.back()->request.operands[1], std::vector<float>(kSize * kSize, 0.7F));
  }
  auto before = productsOfLibrary();
  std::vector<std::thread> ranks;
  for (auto &product : products)
    ranks.emplace_back([&] { product->bind(); });
  for (std::thread &rank : ranks)
    rank.join();
  if (before) {
    EXPECT_GE(*productsOfLibrary() - *before, 3 * kLeastRuns);
    EXPECT_LE(*productsOfLibrary() - *before, 3 * kMostRuns) << "only one of the ranks measures";
  }
  for (auto &product : products)
    product->launch();
  EXPECT_EQ(products[0]->get(products[0]->request.results[0]), products[1]->get(products[1]->request.results[0]));
}

TEST(CudaProducts, TakeTheFirstProposalWhereRunsMustBeEqual) {
  if (!isOnGpu())
    GTEST_SKIP() << "KERF_KERNEL_DEVICE names no GPU";
  auto device = gpuWith({.deterministic = true});
  BoundProduct product(*device, 256, 512, 512);
  auto all = productsOfLibrary();
  product.bind();
  if (!all)
    GTEST_SKIP() << "only the stand-in tells which algorithm runs";
  EXPECT_EQ(*productsOfLibrary(), *all);
  auto first = productsOfLibrary(1);
  product.launch();
  EXPECT_EQ(*productsOfLibrary(1) - *first, 1);
}

TEST(CudaProducts, RoundToTf32OnlyWhenAsked) {
  if (!isOnGpu())
    GTEST_SKIP() << "KERF_KERNEL_DEVICE names no GPU";
  // 1 + 2^-12 is 1 in TF32, whose mantissa has 10 bits.
  constexpr int64_t kSize = 64;
  for (bool tf32 : {false, true}) {
    auto device = gpuWith({.tf32 = tf32});
    BoundProduct product(*device, kSize, kSize, kSize);
    product.put(product.request.operands[0], std::vector<float>(kSize * kSize, 1 + 0x1p-12F));
    product.put(product.request.operands[1], std::vector<float>(kSize * kSize, 1));
    product.bind();
    product.launch();
    std::vector<float> all = product.get(product.request.results[0]);
    float exact = float(kSize) * (1 + 0x1p-12F);
    if (tf32 && !productsOfLibrary()) // the real library may round to TF32, and does so where that is faster
      EXPECT_TRUE(std::all_of(all.begin(), all.end(), [&](float one) { return one == exact || one == float(kSize); }));
    else
      EXPECT_EQ(all, std::vector<float>(kSize * kSize, tf32 ? float(kSize) : exact));
  }
}

TEST(CudaProducts, OtherDevicesRefuseTf32) {
  auto device = createDevice("cpu", {.tf32 = true});
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().message, "the device 'cpu' cannot round to TF32, the float32 of 10 bits that GPUs multiply "
                                    "fast; leave <tf32> out, or choose another device");
}

} // namespace
} // namespace kerf::runtime::test
