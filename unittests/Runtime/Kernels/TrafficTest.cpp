// SPDX-License-Identifier: Apache-2.0
// Checks, on the stand-in of the driver, that the hot kernels for GPUs read each input once and write each result once,
// in whole sectors of 32 bytes. A warp's request of neighbouring elements touches each sector once; single elements at
// a distance, a tensor that is read twice, and accesses across sectors touch more. Kernels whose threads take 16 bytes
// at a time also have as few requests as that allows.
#include "KernelTestSupport.h"

#include <dlfcn.h>

namespace kerf::runtime::test {
namespace {

using Count = int (*)(uint64_t address, uint64_t bytes, int64_t *loaded, int64_t *stored);
/// The functions of the stand-in that count memory traffic; null on another driver.
struct Counter {
  int (*begin)() = nullptr;
  Count sectors = nullptr, requests = nullptr;
};
Counter counter() {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!library)
    return {};
  return {reinterpret_cast<int (*)()>(dlsym(library, "kerfStandinCountTraffic")),
          reinterpret_cast<Count>(dlsym(library, "kerfStandinSectors")),
          reinterpret_cast<Count>(dlsym(library, "kerfStandinRequests"))};
}

/// A hot instruction. Its small operands, such as the scale of a norm, may be read for every row.
struct HotKernel {
  std::string op;
  Json attrs;
  std::vector<ResultType> operands, results;
  int64_t readings = 1; // how often each operand is read at most
  /// Elements of each large tensor that a thread takes at a time; 0: requests are not counted.
  int64_t width = 0;
};

/// Runs an instruction once, on operands whose bytes are zero, and compares its traffic with its tensors.
void expectLeastTraffic(Device &device, const Counter &traffic, const HotKernel &kernel) {
  constexpr int64_t kLarge = 20000; // bytes of the smallest tensor that is looked at
  SCOPED_TRACE(kernel.op + " of " + std::string(toString(kernel.operands[0].dtype)));
  std::vector<std::shared_ptr<std::byte>> memory;
  auto viewsOf = [&](const std::vector<ResultType> &types) {
    std::vector<TensorView> views;
    for (const ResultType &type : types) {
      std::vector<std::byte> zeros(size_t(elementsOf(type.shape) * bytesOf(type.dtype)));
      memory.push_back(*device.allocate(int64_t(zeros.size())));
      EXPECT_TRUE(device.copyIn(memory.back().get(), zeros.data(), int64_t(zeros.size())));
      views.push_back({memory.back().get(), type.dtype, type.shape});
    }
    return views;
  };
  package::Instruction instruction;
  instruction.op = kernel.op, instruction.attrs = kernel.attrs;
  Mesh mesh;
  KernelRequest request{instruction, viewsOf(kernel.operands), viewsOf(kernel.results), mesh, 0};
  auto scratch = device.scratchBytes(request);
  ASSERT_TRUE(scratch) << scratch.error().message;
  auto scratchMemory = device.allocate(*scratch);
  request.scratch = scratchMemory->get();
  auto bound = device.bind(request);
  ASSERT_TRUE(bound) << bound.error().message;
  auto stream = device.createStream(StreamKind::Compute);
  ASSERT_EQ(traffic.begin(), 0);
  ASSERT_TRUE((*bound)->launch(**stream));
  ASSERT_TRUE((*stream)->synchronize());
  auto check = [&](const std::vector<TensorView> &views, bool isResult) {
    for (size_t i = 0; i < views.size(); ++i) {
      if (views[i].bytes() < kLarge)
        continue;
      int64_t loaded = 0, stored = 0;
      ASSERT_EQ(
          traffic.sectors(reinterpret_cast<uint64_t>(views[i].data), uint64_t(views[i].bytes()), &loaded, &stored), 0);
      double least = double(views[i].bytes()) / 32;
      EXPECT_LE(double(isResult ? stored : loaded), 1.1 * least * double(isResult ? 1 : kernel.readings))
          << (isResult ? "result " : "operand ") << i;
      EXPECT_GE(double(isResult ? stored : loaded), least - 1) << (isResult ? "result " : "operand ") << i;
      EXPECT_EQ(isResult ? loaded : stored, 0) << (isResult ? "result " : "operand ") << i;
      if (kernel.width == 0)
        continue;
      ASSERT_EQ(
          traffic.requests(reinterpret_cast<uint64_t>(views[i].data), uint64_t(views[i].bytes()), &loaded, &stored), 0);
      EXPECT_LE(double(isResult ? stored : loaded), 1.1 * double(views[i].elements()) / double(32 * kernel.width))
          << (isResult ? "result " : "operand ") << i;
    }
  };
  check(request.operands, false);
  check(request.results, true);
}

std::vector<HotKernel> hotKernels(DType type) {
  constexpr int64_t kRows = 40, kWidth = 768, kClasses = 5027; // rows of classes begin at odd addresses
  const ResultType table{type, {kRows, kWidth}}, columns{F32, {kWidth}}, rows{F32, {kRows}};
  const ResultType logits{type, {6, kClasses}}, few{F32, {6}}, labels{DType::I32, {6}};
  const Json loss = {{"ignore_index", -100}};
  auto sum = [](std::vector<int64_t> dimensions) { return Json{{"kind", "sum"}, {"dimensions", dimensions}}; };
  return {
      {"layer_norm", {{"epsilon", 1e-5}}, {table, columns, columns}, {table, rows, rows}},
      {"layer_norm",
       {{"epsilon", 1e-5}},
       {{type, {8, 4096}}, {F32, {4096}}, {F32, {4096}}},
       {{type, {8, 4096}}, {F32, {8}}, {F32, {8}}}},
      {"rms_norm", {{"epsilon", 1e-5}}, {table, columns}, {table, rows}},
      {"layer_norm_backward", Json::object(), {table, columns, rows, rows, table}, {table, columns, columns}},
      {"rms_norm_backward", Json::object(), {table, columns, rows, table}, {table, columns}},
      {"cross_entropy", loss, {logits, labels}, {few, few}},
      {"cross_entropy_backward", loss, {logits, labels, few, few}, {logits}},
      {"softmax", {{"dimension", 1}}, {logits}, {logits}, 2},
      {"reduce", sum({0}), {table}, {{type, {kWidth}}}},
      {"reduce", sum({1}), {table}, {{type, {kRows}}}},
      {"reduce", sum({0, 2}), {{type, {6, 8, 900}}}, {{type, {8}}}},
      {"reduce", sum({0, 1}), {table}, {{type, {}}}},
      {"transpose", {{"permutation", {1, 0}}}, {{type, {64, kWidth}}}, {{type, {kWidth, 64}}}},
      {"transpose", {{"permutation", {0, 2, 1, 3}}}, {{type, {2, 20, 4, 64}}}, {{type, {2, 4, 20, 64}}}},
      {"count_nonfinite", Json::object(), {table}, {{DType::I64, {}}}},
  };
}

/// Returns instructions whose threads take 16 bytes of the widest tensor at a time.
std::vector<HotKernel> packedKernels(DType type) {
  constexpr int64_t kRows = 40, kWidth = 768;
  auto table = [&](DType dtype) { return ResultType{dtype, {kRows, kWidth}}; };
  const ResultType x = table(type), flags = table(DType::Bool), other = table(type == F32 ? DType::BF16 : F32);
  const ResultType one{DType::I64, {}}, tokens{DType::I32, {kRows}};
  const int64_t width = 16 / bytesOf(type), ofBoth = 4;
  const Json sumOfRows = {{"kind", "sum"}, {"dimensions", {0}}};
  return {
      {"tanh", Json::object(), {x}, {x}, 1, width},
      {"multiply", Json::object(), {x, x}, {x}, 1, width},
      {"compare", {{"direction", "LT"}}, {x, x}, {flags}, 1, width},
      {"select", Json::object(), {flags, x, x}, {x}, 1, width},
      {"convert", Json::object(), {x}, {other}, 1, ofBoth},
      {"accumulate", Json::object(), {table(F32), x}, {table(F32)}, 1, ofBoth},
      {"reduce_precision", {{"mantissa_bits", 3}, {"min_exponent", -6}}, {x}, {x}, 1, width},
      {"is_nan", Json::object(), {x}, {flags}, 1, width},
      {"dropout", {{"rate", 0.1}}, {x, one, one, one}, {x}, 1, width},
      {"reduce", sumOfRows, {{type, {1024, 64}}}, {{type, {64}}}, 1, width}, // a warp reads several rows at a time
      {"reduce", sumOfRows, {{type, {2048, 16}}}, {{type, {16}}}, 1, width},
      {"broadcast_in_dim", {{"broadcast_dimensions", Json::array()}}, {{type, {}}}, {x}, 1, width},
      {"embedding_backward", {{"rows", kRows}}, {tokens, x}, {x}, 1, width},
      {"scatter_add", {{"axis", 1}}, {tokens, {type, {3, kRows, 256}}}, {{type, {3, kRows, 256}}}, 1, width},
  };
}

TEST(Traffic, HotKernelsReadAndWriteEachSectorOnce) {
  const char *name = std::getenv("KERF_KERNEL_DEVICE");
  auto device = name ? createDevice(name) : Result<std::unique_ptr<Device>>(std::unique_ptr<Device>());
  ASSERT_TRUE(device) << device.error().message;
  Counter traffic = counter();
  if (!*device || !traffic.begin || !traffic.sectors || !traffic.requests)
    GTEST_SKIP() << "only the stand-in of NVIDIA's driver counts sectors";
  for (DType type : {F32, DType::BF16})
    for (const auto &kernels : {hotKernels(type), packedKernels(type)})
      for (const HotKernel &kernel : kernels)
        expectLeastTraffic(**device, traffic, kernel);
}

} // namespace
} // namespace kerf::runtime::test
