// SPDX-License-Identifier: Apache-2.0
// Guarded memory around kernels, and conversion between doubles and stored elements.
#include "KernelTestSupport.h"
#include "../../../lib/Runtime/Cuda/Cudnn.h"

#include "kerf/Runtime/Cpu/ThreadTeam.h"
#include "kerf/Runtime/Cuda/Properties.h"

#include "kerf/Package/Float8.h"
#include "kerf/Package/Half.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>

namespace kerf::runtime::test {

namespace {
constexpr int64_t kGuardBytes = 64;
constexpr int kGuard = 0xa5, kUnwritten = 0xff; // all ones is NaN in every float

/// Memory aligned to 64 bytes, with guard bytes before and behind it.
class Memory {
public:
  explicit Memory(int64_t bytes) : bytes(bytes), all(static_cast<std::byte *>(std::aligned_alloc(64, total()))) {
    std::memset(all, kGuard, total());
    std::memset(data(), kUnwritten, bytes);
  }
  ~Memory() { std::free(all); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;
  std::byte *data() const { return all + kGuardBytes; }
  bool guardsHold() const {
    auto holds = [](std::byte b) { return b == std::byte(kGuard); };
    return std::all_of(all, all + kGuardBytes, holds) && std::all_of(data() + bytes, all + total(), holds);
  }
  int64_t bytes;

private:
  int64_t total() const { return (bytes + 63) / 64 * 64 + 2 * kGuardBytes; }
  std::byte *all;
};

template <typename T> void put(std::byte *at, T value) { std::memcpy(at, &value, sizeof(T)); }
template <typename T> T get(const std::byte *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

void store(DType dtype, double value, std::byte *at) {
  switch (dtype) {
  case DType::F64:
    return put(at, value);
  case DType::F32:
    return put(at, float(value));
  case DType::BF16:
    return put(at, bf16FromFloat(float(value)));
  case DType::F16:
    return put(at, f16FromFloat(float(value)));
  case DType::I64:
    return put(at, int64_t(value));
  case DType::I32:
    return put(at, int32_t(value));
  case DType::I16:
    return put(at, int16_t(value));
  case DType::I8:
    return put(at, int8_t(value));
  case DType::U64:
    return put(at, uint64_t(value));
  case DType::U32:
    return put(at, uint32_t(value));
  case DType::U16:
    return put(at, uint16_t(value));
  case DType::U8:
    return put(at, uint8_t(value));
  case DType::Bool:
    return put(at, uint8_t(value != 0));
  case DType::F8E4M3FN:
    return put(at, float8FromFloat(float(value), kE4M3FN));
  case DType::F8E5M2:
    return put(at, float8FromFloat(float(value), kE5M2));
  }
}

double load(DType dtype, const std::byte *at) {
  switch (dtype) {
  case DType::F64:
    return get<double>(at);
  case DType::F32:
    return get<float>(at);
  case DType::BF16:
    return floatFromBf16(get<uint16_t>(at));
  case DType::F16:
    return floatFromF16(get<uint16_t>(at));
  case DType::I64:
    return double(get<int64_t>(at));
  case DType::I32:
    return get<int32_t>(at);
  case DType::I16:
    return get<int16_t>(at);
  case DType::I8:
    return get<int8_t>(at);
  case DType::U64:
    return double(get<uint64_t>(at));
  case DType::U32:
    return get<uint32_t>(at);
  case DType::U16:
    return get<uint16_t>(at);
  case DType::U8:
  case DType::Bool:
    return get<uint8_t>(at);
  case DType::F8E4M3FN:
    return floatFromFloat8(get<uint8_t>(at), kE4M3FN);
  case DType::F8E5M2:
    return floatFromFloat8(get<uint8_t>(at), kE5M2);
  }
  return 0;
}

using Memories = std::vector<std::shared_ptr<Memory>>;

void fill(const std::vector<HostTensor> &tensors, const Memories &memories) {
  for (size_t i = 0; i < tensors.size(); ++i)
    for (int64_t e = 0; e < tensors[i].elements(); ++e)
      store(tensors[i].dtype, tensors[i].values[e], memories[i]->data() + e * bytesOf(tensors[i].dtype));
}

struct Bound {
  package::Instruction instruction;
  Memories operands, results;
  std::shared_ptr<Memory> scratch;

  bool guardsHold() const {
    auto holds = [](const std::shared_ptr<Memory> &m) { return m->guardsHold(); };
    return std::all_of(operands.begin(), operands.end(), holds) && std::all_of(results.begin(), results.end(), holds) &&
           scratch->guardsHold();
  }
};

std::vector<TensorView> viewsOf(const std::vector<ResultType> &types, const Memories &memories) {
  std::vector<TensorView> views;
  for (size_t i = 0; i < types.size(); ++i)
    views.push_back({memories[i]->data(), types[i].dtype, types[i].shape});
  return views;
}

std::vector<ResultType> typesOf(const std::vector<HostTensor> &tensors) {
  std::vector<ResultType> types;
  for (const HostTensor &t : tensors)
    types.push_back({t.dtype, t.shape});
  return types;
}

Status bindAndRun(const Bound &bound, const std::vector<ResultType> &operandTypes,
                  const std::vector<ResultType> &resultTypes, const RunOptions &options, ThreadTeam *team = nullptr) {
  BindRequest request{bound.instruction,
                      viewsOf(operandTypes, bound.operands),
                      viewsOf(resultTypes, bound.results),
                      options.mesh,
                      options.rank,
                      bound.scratch->data(),
                      team};
  Result<Kernel> kernel = bindKernel(request);
  if (!kernel)
    return kernel.error();
  return (*kernel)();
}

std::vector<std::vector<std::byte>> bytesOfAll(const Memories &memories) {
  std::vector<std::vector<std::byte>> all;
  for (const auto &m : memories)
    all.emplace_back(m->data(), m->data() + m->bytes);
  return all;
}

std::vector<HostTensor> tensorsOf(const std::vector<ResultType> &types,
                                  const std::vector<std::vector<std::byte>> &bytes) {
  std::vector<HostTensor> out;
  for (size_t i = 0; i < types.size(); ++i) {
    HostTensor tensor{types[i].dtype, types[i].shape, {}};
    for (int64_t e = 0; e < tensor.elements(); ++e)
      tensor.values.push_back(load(tensor.dtype, bytes[i].data() + e * bytesOf(tensor.dtype)));
    out.push_back(std::move(tensor));
  }
  return out;
}

/// Whether kernels run on the CPU, whatever KERF_KERNEL_DEVICE says: where only values are needed to compare with.
bool onlyOnCpu = false;

/// The device that the kernels of this process run on instead of the CPU, from the variable KERF_KERNEL_DEVICE; null if
/// it is not set.
Device *otherDevice() {
  if (onlyOnCpu)
    return nullptr;
  static const std::unique_ptr<Device> device = [] {
    const char *chosen = std::getenv("KERF_KERNEL_DEVICE");
    std::unique_ptr<Device> opened;
    if (chosen) {
      auto created = createDevice(chosen);
      if (created)
        opened = std::move(*created);
      else
        ADD_FAILURE() << created.error().message;
    }
    return opened;
  }();
  return device.get();
}

/// Returns whether a device may compute the op with a library that sums in an order that changes, as GPUs do with cuDNN
/// where runs need not be deterministic.
bool maySumInAnyOrder(const std::string &op) {
  return op == "attention_backward" || op == "convolution" || op == "convolution_transpose" ||
         op == "convolution_kernel";
}

/// Memory of the device with the bytes of some tensors.
std::vector<std::shared_ptr<std::byte>> onDevice(Device &device, const std::vector<std::vector<std::byte>> &bytes) {
  std::vector<std::shared_ptr<std::byte>> all;
  for (const auto &one : bytes) {
    auto memory = device.allocate(int64_t(one.size()));
    EXPECT_TRUE(memory);
    all.push_back(*memory);
    EXPECT_TRUE(device.copyIn(all.back().get(), one.data(), int64_t(one.size())));
  }
  return all;
}

/// Runs a bound instruction on a device and returns the bytes of its results.
Result<std::vector<std::vector<std::byte>>> runOn(Device &device, KernelRequest request) {
  auto scratch = device.scratchBytes(request);
  if (!scratch)
    return scratch.error();
  auto memory = device.allocate(*scratch);
  if (!memory)
    return memory.error();
  request.scratch = memory->get();
  auto kernel = device.bind(request);
  if (!kernel)
    return kernel.error();
  auto stream = device.createStream(StreamKind::Compute);
  if (!stream)
    return stream.error();
  Status status = (*kernel)->launch(**stream);
  Status ended = (*stream)->synchronize();
  if (auto fault = device.takeFault())
    return fault->error;
  if (!status || !ended)
    return status ? ended.error() : status.error();
  std::vector<std::vector<std::byte>> results;
  for (const TensorView &view : request.results) {
    results.emplace_back(size_t(view.bytes()));
    if (Status copied = device.copyOut(results.back().data(), view.data, view.bytes()); !copied)
      return copied.error();
  }
  return results;
}

/// Does what tryKernel does, on another device than the CPU.
Result<std::vector<HostTensor>> tryOn(Device &device, const package::Instruction &instruction,
                                      const std::vector<HostTensor> &operands, const std::vector<ResultType> &results,
                                      const RunOptions &options) {
  std::vector<std::vector<std::byte>> given, fresh;
  for (const HostTensor &operand : operands) {
    given.emplace_back(size_t(operand.elements() * bytesOf(operand.dtype)));
    for (int64_t e = 0; e < operand.elements(); ++e)
      store(operand.dtype, operand.values[size_t(e)], given.back().data() + e * bytesOf(operand.dtype));
  }
  for (const ResultType &type : results)
    fresh.emplace_back(size_t(elementsOf(type.shape) * bytesOf(type.dtype)), std::byte(kUnwritten));
  auto inputs = onDevice(device, given), outputs = onDevice(device, fresh);
  KernelRequest request{instruction, {}, {}, options.mesh, options.rank};
  for (size_t i = 0; i < operands.size(); ++i)
    request.operands.push_back({inputs[i].get(), operands[i].dtype, operands[i].shape});
  for (size_t i = 0; i < results.size(); ++i)
    request.results.push_back({outputs[i].get(), results[i].dtype, results[i].shape});
  auto first = runOn(device, request);
  if (!first)
    return first.error();
  for (size_t i = 0; i < operands.size(); ++i) {
    std::vector<std::byte> now(given[i].size());
    EXPECT_TRUE(device.copyOut(now.data(), inputs[i].get(), int64_t(now.size())));
    EXPECT_TRUE(now == given[i]) << instruction.op << " changed operand " << i;
  }
  auto again = runOn(device, request);
  EXPECT_TRUE(again && (*again == *first || maySumInAnyOrder(instruction.op)))
      << instruction.op << " gave other bits the second time";
  for (size_t o = 0; o < operands.size(); ++o)
    for (size_t r = 0; r < results.size(); ++r) {
      if (!device.mayOverwrite(instruction, nullptr, int(o), int(r)) || given[o].size() != fresh[r].size())
        continue;
      KernelRequest inPlace = request;
      auto copies = onDevice(device, given);
      for (size_t i = 0; i < copies.size(); ++i)
        inPlace.operands[i].data = copies[i].get();
      inPlace.results[r].data = copies[o].get();
      auto over = runOn(device, inPlace);
      EXPECT_TRUE(over && *over == *first)
          << instruction.op << " gave other bits with result " << r << " over operand " << o;
    }
  return tensorsOf(results, *first);
}
} // namespace

Result<std::vector<HostTensor>> tryKernel(const std::string &op, const Json &attrs,
                                          const std::vector<HostTensor> &operands,
                                          const std::vector<ResultType> &results, const RunOptions &options) {
  std::vector<ResultType> operandTypes = typesOf(operands);
  Bound bound;
  bound.instruction.op = op;
  bound.instruction.attrs = attrs;
  if (Device *device = otherDevice())
    return tryOn(*device, bound.instruction, operands, results, options);
  BindRequest sizing{bound.instruction, {}, {}, options.mesh, options.rank, nullptr};
  for (const ResultType &type : operandTypes)
    sizing.operands.push_back({nullptr, type.dtype, type.shape});
  for (const ResultType &type : results)
    sizing.results.push_back({nullptr, type.dtype, type.shape});
  Result<int64_t> scratch = scratchBytes(sizing);
  if (!scratch)
    return scratch.error();
  auto allocate = [](const std::vector<ResultType> &types) {
    Memories memories;
    for (const ResultType &type : types)
      memories.push_back(std::make_shared<Memory>(elementsOf(type.shape) * bytesOf(type.dtype)));
    return memories;
  };
  bound.operands = allocate(operandTypes);
  bound.results = allocate(results);
  bound.scratch = std::make_shared<Memory>(*scratch);
  fill(operands, bound.operands);
  std::vector<std::vector<std::byte>> given = bytesOfAll(bound.operands);
  if (Status status = bindAndRun(bound, operandTypes, results, options); !status)
    return status.error();
  std::vector<std::vector<std::byte>> first = bytesOfAll(bound.results);
  EXPECT_TRUE(bound.guardsHold()) << op << " wrote outside of its memory";
  EXPECT_TRUE(given == bytesOfAll(bound.operands)) << op << " changed an operand";
  EXPECT_TRUE(bool(bindAndRun(bound, operandTypes, results, options)));
  EXPECT_TRUE(first == bytesOfAll(bound.results)) << op << " gave other bits the second time";

  static ThreadTeam team(3);
  sizing.team = &team;
  Result<int64_t> scratchOfTeam = scratchBytes(sizing);
  if (!scratchOfTeam)
    return scratchOfTeam.error();
  Bound shared = bound;
  shared.results = allocate(results);
  shared.scratch = std::make_shared<Memory>(*scratchOfTeam);
  EXPECT_TRUE(bool(bindAndRun(shared, operandTypes, results, options, &team)));
  EXPECT_TRUE(shared.guardsHold()) << op << " wrote outside of its memory with three threads";
  EXPECT_TRUE(first == bytesOfAll(shared.results)) << op << " gave other bits with three threads";

  for (size_t o = 0; o < operands.size(); ++o)
    for (size_t r = 0; r < results.size(); ++r) {
      if (!mayOverwrite(bound.instruction, int(o), int(r)) || bound.operands[o]->bytes != bound.results[r]->bytes)
        continue;
      Bound inPlace = bound;
      inPlace.operands = allocate(operandTypes);
      inPlace.results[r] = inPlace.operands[o];
      fill(operands, inPlace.operands);
      EXPECT_TRUE(bool(bindAndRun(inPlace, operandTypes, results, options)));
      EXPECT_TRUE(first == bytesOfAll(inPlace.results))
          << op << " gave other bits with result " << r << " over operand " << o;
    }

  return tensorsOf(results, first);
}

std::vector<HostTensor> runKernel(const std::string &op, const Json &attrs, const std::vector<HostTensor> &operands,
                                  const std::vector<ResultType> &results, const RunOptions &options) {
  Result<std::vector<HostTensor>> run = tryKernel(op, attrs, operands, results, options);
  if (run)
    return *run;
  ADD_FAILURE() << op << ": " << run.error().message;
  std::vector<HostTensor> zeros;
  for (const ResultType &type : results)
    zeros.push_back({type.dtype, type.shape, std::vector<double>(elementsOf(type.shape))});
  return zeros;
}

std::string errorOf(const std::string &op, const Json &attrs, const std::vector<HostTensor> &operands,
                    const std::vector<ResultType> &results, const RunOptions &options) {
  Result<std::vector<HostTensor>> run = tryKernel(op, attrs, operands, results, options);
  if (!run)
    return run.error().message;
  ADD_FAILURE() << op << " ran, but an error was expected";
  return "";
}

HostTensor Random::normals(DType dtype, Shape shape, double scale) {
  HostTensor tensor{dtype, std::move(shape), {}};
  for (int64_t i = 0; i < tensor.elements(); ++i)
    tensor.values.push_back(normal() * scale);
  return rounded(std::move(tensor));
}

HostTensor Random::integers(DType dtype, Shape shape, int64_t low, int64_t high) {
  HostTensor tensor{dtype, std::move(shape), {}};
  for (int64_t i = 0; i < tensor.elements(); ++i)
    tensor.values.push_back(double(integer(low, high)));
  return tensor;
}

Shape Random::shape(size_t rank, int64_t largest) {
  Shape shape;
  for (size_t d = 0; d < rank; ++d)
    shape.push_back(integer(1, largest));
  return shape;
}

std::vector<int64_t> Random::permutation(int64_t n) {
  std::vector<int64_t> order(n);
  for (int64_t i = 0; i < n; ++i)
    order[i] = i;
  std::shuffle(order.begin(), order.end(), engine);
  return order;
}

HostTensor rounded(HostTensor tensor) {
  std::byte element[8];
  for (double &value : tensor.values) {
    store(tensor.dtype, value, element);
    value = load(tensor.dtype, element);
  }
  return tensor;
}

HostTensor scalar(DType dtype, double value) { return rounded({dtype, {}, {value}}); }

void expectNear(const HostTensor &actual, const std::vector<double> &expected, double tolerance,
                const std::string &what) {
  ASSERT_EQ(actual.values.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    double a = actual.values[i], e = expected[i];
    bool same =
        (std::isnan(a) && std::isnan(e)) || a == e || std::fabs(a - e) <= tolerance * std::max(1.0, std::fabs(e));
    ASSERT_TRUE(same) << what << " element " << i << ": " << a << ", expected " << e;
  }
}

double toleranceOf(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return 1e-12;
  case DType::F32:
    return 2e-5;
  case DType::BF16:
    return 2e-2;
  case DType::F16:
    return 4e-3;
  default:
    return 0;
  }
}

int64_t flatIndex(const Shape &shape, const std::vector<int64_t> &index) {
  int64_t flat = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    flat = flat * shape[d] + index[d];
  return flat;
}

void expectGradient(const std::function<std::vector<double>(const std::vector<HostTensor> &)> &f,
                    std::vector<HostTensor> operands, size_t operand, const std::vector<double> &weights,
                    const HostTensor &gradient, double tolerance) {
  constexpr double kStep = 1e-5; // central differences: error near step^2 and 1e-16 / step
  auto weighted = [&] {
    std::vector<double> y = f(operands);
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i)
      sum += y[i] * weights[i];
    return sum;
  };
  std::vector<double> expected;
  onlyOnCpu = true;
  for (double &value : operands[operand].values) {
    double before = value;
    value = before + kStep;
    double above = weighted();
    value = before - kStep;
    double below = weighted();
    value = before;
    expected.push_back((above - below) / (2 * kStep));
  }
  onlyOnCpu = false;
  expectNear(gradient, expected, tolerance, "gradient of operand " + std::to_string(operand));
}

bool isOnRealGpu() {
  const char *device = std::getenv("KERF_KERNEL_DEVICE");
  if (!device || !std::string_view(device).starts_with("cuda"))
    return false;
  auto gpu = gpuProperties(0);
  EXPECT_TRUE(gpu) << gpu.error().message;
  return gpu && gpu->name.find("stand-in") == std::string::npos;
}

int64_t cudnnExecutions() {
  const char *device = std::getenv("KERF_KERNEL_DEVICE");
  if (!device || !std::string_view(device).starts_with("cuda"))
    return -1;
  auto cudnn = cuda::loadCudnn();
  EXPECT_TRUE(cudnn) << cudnn.error().message;
  void *library = dlopen("libcudnn_graph.so.9", RTLD_NOW | RTLD_NOLOAD);
  auto count = reinterpret_cast<int64_t (*)()>(library ? dlsym(library, "kerfStandinCudnnExecutions") : nullptr);
  return count ? count() : -1;
}

} // namespace kerf::runtime::test
