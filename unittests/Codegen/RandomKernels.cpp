// SPDX-License-Identifier: Apache-2.0
#include "RandomKernels.h"
#include "kerf/Package/Half.h"
#include "kerf/Runtime/Executor.h"
#include "kerf/Steps/Steps.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace kerf::codegen {

using Json = nlohmann::ordered_json;
using package::Function;
using package::Program;

int addValue(Function &function, DType dtype, const Shape &shape) {
  function.values.push_back({dtype, shape});
  return int(function.values.size()) - 1;
}
int addArg(Function &function, DType dtype, const Shape &shape) {
  function.args.push_back(addValue(function, dtype, shape));
  return function.args.back();
}
int addOp(Function &function, const std::string &op, std::vector<int> operands, DType dtype, const Shape &shape,
          Json attrs) {
  int result = addValue(function, dtype, shape);
  function.body.push_back({op, std::move(operands), {result}, std::move(attrs), op});
  return result;
}

Program stepOf(const Function &kernel) {
  Function main{"main", {}, {}, {}, {}};
  Program program;
  package::Instruction call{"call", {}, {}, {{"callee", kernel.name}}, "the call"};
  for (int arg : kernel.args) {
    const package::Value &value = kernel.values[size_t(arg)];
    call.operands.push_back(addArg(main, value.dtype, value.shape));
    program.args.push_back({package::ArgKind::State, "x" + std::to_string(program.args.size()), value.dtype,
                            value.shape, value.shape, Sharding::replicated(value.shape.size())});
  }
  for (int result : kernel.results) {
    const package::Value &value = kernel.values[size_t(result)];
    call.results.push_back(addValue(main, value.dtype, value.shape));
    std::string name = "y" + std::to_string(program.results.size());
    for (package::Arg &arg : program.args)
      if (program.results.empty() && arg.dtype == value.dtype && arg.shape == value.shape && arg.updatedBy < 0) {
        arg.updatedBy = 0;
        name = arg.name;
        break;
      }
    program.results.push_back({name, Sharding::replicated(value.shape.size()), value.shape});
  }
  main.results = call.results;
  main.body.push_back(std::move(call));
  program.functions = {kernel, main};
  program.entry = "main";
  EXPECT_TRUE(steps::makeSteps(program));
  return program;
}

namespace {
/// Returns random bytes of a tensor, with special numbers among them.
std::string randomBytes(const runtime::TensorView &view, std::mt19937 &random) {
  std::string bytes(size_t(view.bytes()), '\0');
  constexpr double kSpecial[] = {0.0, -0.0, 1.0, 3e38, -3e38, 1e-40, 65519.9, 6e-8, 0.5, -1.5};
  for (int64_t i = 0; i < view.elements(); ++i) {
    double value = std::normal_distribution<double>(0, 2)(random);
    if (random() % 16 == 0)
      value = kSpecial[random() % std::size(kSpecial)];
    if (random() % 64 == 0)
      value = random() % 2 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
    auto put = [&](auto stored) { std::memcpy(bytes.data() + i * int64_t(sizeof stored), &stored, sizeof stored); };
    switch (view.dtype) {
    case DType::F64:
      put(value);
      break;
    case DType::BF16:
      put(bf16FromFloat(float(value)));
      break;
    case DType::F16:
      put(f16FromFloat(float(value)));
      break;
    case DType::Bool:
      put(uint8_t(random() % 3)); // true is any byte but 0
      break;
    default:
      put(float(value));
    }
  }
  return bytes;
}

/// Returns the bytes of a tensor on the host, with all NaNs replaced by the same one.
std::string textOf(const runtime::TensorView &view, const std::string &content) {
  std::string bytes;
  for (int64_t i = 0; i < view.elements(); ++i) {
    const char *at = content.data() + i * bytesOf(view.dtype);
    double value = 0;
    uint16_t half = 0;
    float single = 0;
    std::memcpy(&half, at, view.dtype == DType::BF16 || view.dtype == DType::F16 ? 2 : 0);
    std::memcpy(&single, at, view.dtype == DType::F32 ? 4 : 0);
    if (view.dtype == DType::F64)
      std::memcpy(&value, at, 8);
    else if (view.dtype == DType::F32)
      value = double(single);
    else if (view.dtype != DType::Bool)
      value = double(view.dtype == DType::BF16 ? floatFromBf16(half) : floatFromF16(half));
    bytes += std::isnan(value) ? std::string("NaN") : std::string(at, size_t(bytesOf(view.dtype)));
  }
  return bytes;
}

} // namespace

std::vector<std::string> outcome(const Program &program, uint32_t seed, const Where &where, bool &ranAsOne) {
  auto communicators = runtime::createThreadCommunicators(1);
  auto created = runtime::createDevice(where.device, {.threads = where.threads});
  EXPECT_TRUE(created) << created.error().message;
  auto device = std::move(*created);
  runtime::ExecutorOptions options;
  options.useNative = where.useNative;
  auto executor = runtime::Executor::create(program, *device, *communicators[0], options);
  EXPECT_TRUE(executor) << executor.error().message;
  std::mt19937 random(seed);
  auto textOfTensor = [&](const runtime::TensorView &view) {
    std::string content(size_t(view.bytes()), '\0');
    if (view.data) {
      EXPECT_TRUE(device->copyOut(content.data(), view.data, view.bytes()));
    }
    return textOf(view, content);
  };
  for (const runtime::ArgumentPiece &piece : (*executor)->arguments()) {
    std::string bytes = randomBytes(piece.tensor, random);
    if (piece.tensor.data) {
      EXPECT_TRUE(device->copyIn(piece.tensor.data, bytes.data(), int64_t(bytes.size())));
    }
  }
  std::vector<std::string> texts;
  for (int step = 0; step < 2; ++step) {
    Status done = (*executor)->step();
    EXPECT_TRUE(done) << done.error().message;
    for (size_t r = 0; r < program.results.size(); ++r)
      texts.push_back(textOfTensor(*(*executor)->result(r)));
  }
  for (const runtime::ArgumentPiece &piece : (*executor)->arguments())
    texts.push_back(textOfTensor(piece.tensor));
  ranAsOne = (*executor)->times().kernels.size() == 1 && (*executor)->times().kernels[0].op == "kernel";
  return texts;
}

namespace {
class RandomKernel {
public:
  explicit RandomKernel(uint32_t seed) : random(seed) {
    kernel.name = "kernel";
    kernel.kernel = true;
  }

  Function make() {
    const Shape shapes[] = {
        {},         {1},     {15},      {16},       {2500},       {3, 40},       {2, 3, 61}, {4, 1, 6, 5, 5},
        {2, 40000}, {0, 20}, {130, 33}, {6, 5, 48}, {3, 100, 20}, {70, 3, 4, 4}, {5, 0, 16}, {3, 5000}};
    shape = shapes[below(std::size(shapes))];
    for (size_t i = 0, count = 1 + below(3); i < count; ++i)
      full.push_back(addArg(kernel, anyFloat(), shape));
    if (below(3) == 0)
      full.push_back(addArg(kernel, DType::Bool, shape));
    for (size_t i = 0, count = 1 + below(24); i < count; ++i)
      full.push_back(step());
    kernel.results = {full.back()};
    for (size_t i = 0, count = below(3); i < count; ++i)
      if (int value = any([&](int v) { return !isArg(v) && v != kernel.results.back(); }); value >= 0)
        kernel.results.push_back(value);
    if (below(2))
      reduce();
    return kernel;
  }

private:
  size_t below(size_t n) { return random() % n; }
  DType anyFloat() {
    constexpr DType kFloats[] = {DType::F32, DType::F32, DType::F64, DType::BF16, DType::F16};
    return kFloats[below(std::size(kFloats))];
  }
  DType dtypeOf(int value) const { return kernel.values[size_t(value)].dtype; }
  bool isArg(int value) const { return std::count(kernel.args.begin(), kernel.args.end(), value) > 0; }
  template <typename F> int any(F fits) {
    std::vector<int> fitting;
    for (int value : full)
      if (fits(value))
        fitting.push_back(value);
    return fitting.empty() ? -1 : fitting[below(fitting.size())];
  }
  int anyOf(DType dtype) {
    return any([&](int value) { return dtypeOf(value) == dtype; });
  }
  int anyFloatValue() {
    return any([&](int value) { return dtypeOf(value) != DType::Bool; });
  }
  int op(const std::string &name, std::vector<int> operands, DType dtype, Json attrs = Json::object()) {
    return addOp(kernel, name, std::move(operands), dtype, shape, std::move(attrs));
  }

  int broadcast(DType dtype) {
    if (below(2)) {
      int one = addOp(kernel, "constant", {}, dtype, {}, {{"value", {0.7}}});
      return op("broadcast_in_dim", {one}, dtype, {{"broadcast_dimensions", Json::array()}});
    }
    // Broadcast along some of the dimensions, if kernels can read such a broadcast.
    package::BroadcastView along;
    for (size_t d = 0; d < shape.size(); ++d)
      if (below(2)) {
        along.shape.push_back(below(4) ? shape[d] : 1);
        along.dimensions.push_back(int64_t(d));
      }
    broadcasts.push_back(along);
    if (!package::kernelSpace(shape, broadcasts)) {
      broadcasts.pop_back();
      return anyOf(dtype);
    }
    return op("broadcast_in_dim", {addArg(kernel, dtype, along.shape)}, dtype,
              {{"broadcast_dimensions", along.dimensions}});
  }

  /// Reduces up to three values over some of the dimensions, if kernels can compute such a reduction.
  void reduce() {
    package::BroadcastView kept;
    std::vector<int64_t> gone;
    for (size_t d = 0; d < shape.size(); ++d)
      if (below(2)) {
        kept.shape.push_back(shape[d]);
        kept.dimensions.push_back(int64_t(d));
      } else {
        gone.push_back(int64_t(d));
      }
    if (!package::kernelSpace(shape, broadcasts, kept))
      return;
    for (size_t i = 0, count = 1 + below(3); i < count; ++i) {
      int value = anyFloatValue();
      if (value < 0)
        return;
      DType from = dtypeOf(value);
      DType to = bytesOf(from) == 2 && below(2) ? DType::F32 : from;
      constexpr const char *kKinds[] = {"sum", "sum", "max", "min"};
      int made = addOp(kernel, "reduce", {value}, to, kept.shape, {{"dimensions", gone}, {"kind", kKinds[below(4)]}});
      if (below(4) == 0 && kernel.results.size() == 1)
        kernel.results.clear();
      kernel.results.insert(kernel.results.begin() + int64_t(below(kernel.results.size() + 1)), made);
    }
  }

  int step() {
    constexpr const char *kUnary[] = {
        "negate", "abs",      "sign", "sqrt", "rsqrt",  "floor",       "ceil", "round_nearest_even", "log",
        "tanh",   "logistic", "erf",  "sine", "cosine", "exponential", "atan", "stop_gradient"};
    constexpr const char *kBinary[] = {"add", "subtract", "multiply", "divide", "maximum", "minimum", "power"};
    constexpr const char *kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
    int x = anyFloatValue(), flag = anyOf(DType::Bool);
    if (x < 0)
      return op("convert", {flag}, DType::F32);
    DType dtype = dtypeOf(x);
    int y = anyOf(dtype);
    switch (below(flag < 0 ? 9 : 12)) {
    case 0:
    case 1:
      if (below(8) == 0)
        return op("reduce_precision", {x}, dtype,
                  {{"mantissa_bits", int64_t(below(24))}, {"min_exponent", -int64_t(below(40))}});
      return op(kUnary[below(std::size(kUnary))], {x}, dtype);
    case 2:
    case 3:
      return op(kBinary[below(std::size(kBinary))], {x, y}, dtype);
    case 4:
      return op("compare", {x, y}, DType::Bool, {{"direction", kDirections[below(6)]}});
    case 5:
      return below(2) ? op("is_nan", {x}, DType::Bool) : op("convert", {x}, below(4) ? anyFloat() : DType::Bool);
    case 6:
      return op("gelu", {x}, dtype, below(2) ? Json{{"approximate", true}} : Json::object());
    case 7:
      return op("gelu_backward", {x, y}, dtype, below(2) ? Json{{"approximate", true}} : Json::object());
    case 8:
      return op(kBinary[below(4)], {x, broadcast(dtype)}, dtype);
    case 9:
      return op("select", {flag, x, y}, dtype);
    case 10:
      return below(2) ? op("not", {flag}, DType::Bool) : op("convert", {flag}, anyFloat());
    default:
      return op(below(2) ? "and" : "or", {flag, anyOf(DType::Bool)}, DType::Bool);
    }
  }

  std::mt19937 random;
  Function kernel;
  Shape shape;
  std::vector<int> full; // values of the kernel's shape
  std::vector<package::BroadcastView> broadcasts;
};

} // namespace

Function randomKernel(uint32_t seed) { return RandomKernel(seed).make(); }

} // namespace kerf::codegen
