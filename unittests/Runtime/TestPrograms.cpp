// SPDX-License-Identifier: Apache-2.0
#include "TestPrograms.h"
#include "kerf/Package/Half.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <thread>

namespace kerf::runtime::test {

using Json = nlohmann::ordered_json;
using package::ArgKind;

int FunctionBuilder::value(DType dtype, Shape shape, bool pending) {
  function.values.push_back({dtype, std::move(shape), pending});
  return int(function.values.size()) - 1;
}

int FunctionBuilder::arg(DType dtype, Shape shape) {
  function.args.push_back(value(dtype, std::move(shape)));
  return function.args.back();
}

int FunctionBuilder::op(const std::string &op, std::vector<int> operands, DType dtype, Shape shape, Json attrs) {
  int result = value(dtype, std::move(shape));
  function.body.push_back(
      {op, std::move(operands), {result}, std::move(attrs), "node." + std::to_string(function.body.size())});
  return result;
}

std::pair<int, int> FunctionBuilder::sgd(int parameter, int velocity, int gradient, int rate,
                                         const std::optional<package::ProgramTask> &task) {
  auto [dtype, shape, pending] = function.values[size_t(parameter)];
  auto add = [&](const std::string &name, std::vector<int> operands, Json attrs = Json::object()) {
    int result = op(name, std::move(operands), dtype, shape, std::move(attrs));
    function.body.back().task = task;
    function.body.back().update = "w";
    return result;
  };
  auto number = [&](double value) { return add("constant", {}, {{"value", {value}}}); };
  int kept = add("multiply", {velocity, number(0.9)}), decay = add("multiply", {parameter, number(0.01)});
  int newVelocity = add("add", {add("add", {kept, decay}), gradient});
  int rates = add("broadcast_in_dim", {rate}, {{"broadcast_dimensions", Json::array()}});
  return {add("subtract", {parameter, add("multiply", {rates, newVelocity})}), newVelocity};
}

int FunctionBuilder::start(const std::string &op, int operand, Shape shape, Json attrs) {
  int result = value(function.values[size_t(operand)].dtype, std::move(shape), /*pending=*/true);
  attrs["stream"] = "collective";
  attrs["cause"] = "test";
  function.body.push_back({op, {operand}, {result}, std::move(attrs), "node." + std::to_string(function.body.size())});
  return result;
}

int FunctionBuilder::wait(int pending) {
  return op("wait", {pending}, function.values[size_t(pending)].dtype, function.values[size_t(pending)].shape);
}

int FunctionBuilder::allReduce(int operand, const std::vector<int64_t> &axes) {
  return wait(start("all_reduce", operand, function.values[size_t(operand)].shape, {{"axes", axes}, {"kind", "sum"}}));
}

package::Program withSteps(package::Program program, const steps::StepOptions &options) {
  if (auto made = steps::makeSteps(program, options); !made) {
    std::fprintf(stderr, "no steps: %s\n", made.error().message.c_str());
    std::abort();
  }
  return program;
}

package::Program classifier(int64_t ranks, int64_t rows, int64_t width, int64_t classes, DType dtype) {
  package::Program program;
  program.mesh.axes = {{"data", ranks}};
  std::vector<int64_t> axes = {0, 1, ranks};
  Shape weight = {width, classes};

  FunctionBuilder update; // (w, v, g, lr) -> (w', v')
  update.function.name = "update";
  int uw = update.arg(dtype, weight), uv = update.arg(dtype, weight), ug = update.arg(dtype, weight),
      ulr = update.arg(dtype, {});
  auto [w1, v1] = update.sgd(uw, uv, ug, ulr);
  update.function.results = {w1, v1};

  FunctionBuilder main;
  main.function.name = "main";
  int x = main.arg(dtype, {rows, width}), labels = main.arg(DType::I64, {rows}), lr = main.arg(dtype, {}),
      w = main.arg(dtype, weight), v = main.arg(dtype, weight);
  auto dot = [&](int a, int b, Shape shape, int64_t contractA, int64_t contractB) {
    return main.op("dot_general", {a, b}, dtype, std::move(shape),
                   {{"lhs_batching", Json::array()},
                    {"rhs_batching", Json::array()},
                    {"lhs_contracting", {contractA}},
                    {"rhs_contracting", {contractB}}});
  };
  int logits = dot(x, w, {rows, classes}, 1, 0);
  int nll = main.value(dtype, {rows}), lse = main.value(dtype, {rows});
  main.function.body.push_back({"cross_entropy", {logits, labels}, {nll, lse}, {{"ignore_index", -100}}, "loss"});
  int sum = main.op("reduce", {nll}, dtype, {}, {{"kind", "sum"}, {"dimensions", {0}}});
  int scale = main.op("constant", {}, dtype, {}, {{"value", {1.0 / double(rows * ranks)}}});
  int loss = main.op("multiply", {main.allReduce(sum, axes), scale}, dtype, {});
  // d nll / d logits = exp(logits - lse) - onehot, the one-hot as iota == label
  auto broadcast = [&](int value, DType type, std::vector<int64_t> dims) {
    return main.op("broadcast_in_dim", {value}, type, {rows, classes}, {{"broadcast_dimensions", dims}});
  };
  int probability =
      main.op("exponential", {main.op("subtract", {logits, broadcast(lse, dtype, {0})}, dtype, {rows, classes})}, dtype,
              {rows, classes});
  int index = main.op("iota", {}, DType::I64, {rows, classes}, {{"dimension", 1}});
  int hit = main.op("compare", {index, broadcast(labels, DType::I64, {0})}, DType::Bool, {rows, classes},
                    {{"direction", "EQ"}});
  int onehot = main.op("convert", {hit}, dtype, {rows, classes});
  int difference = main.op("subtract", {probability, onehot}, dtype, {rows, classes});
  int scaled = main.op("multiply", {difference, broadcast(scale, dtype, {})}, dtype, {rows, classes});
  int partial = dot(x, scaled, weight, 0, 0);
  // The collective is waited for only after other work, so it runs on its own stream.
  int pending = main.start("all_reduce", partial, weight, {{"axes", axes}, {"kind", "sum"}});
  int flat = main.op("reshape", {w}, dtype, {width * classes});
  int square = main.op("reduce", {main.op("multiply", {flat, flat}, dtype, {width * classes})}, dtype, {},
                       {{"kind", "sum"}, {"dimensions", {0}}});
  int gradient = main.wait(pending);
  int w2 = main.value(dtype, weight), v2 = main.value(dtype, weight);
  main.function.body.push_back({"call", {w, v, gradient, lr}, {w2, v2}, {{"callee", "update"}}, "update"});
  main.function.results = {loss, w2, v2, square};

  Sharding rows2 = Sharding::replicated(2), rows1 = Sharding::replicated(1), whole = Sharding::replicated(2),
           scalar = Sharding::replicated(0);
  for (Sharding *sharding : {&rows2, &rows1})
    if (ranks > 1) // axes of size 1 cut nothing
      sharding->dims[0] = {{{0, 1, ranks}}, rows};
  Shape all = {rows * ranks, width};
  program.args = {{ArgKind::Input, "x", dtype, all, all, rows2, -1, false},
                  {ArgKind::Input, "labels", DType::I64, {rows * ranks}, {rows * ranks}, rows1, -1, false},
                  {ArgKind::LearningRate, "learning_rate", dtype, {}, {}, scalar, -1, false},
                  {ArgKind::Parameter, "layer.weight", dtype, weight, weight, whole, 1, true},
                  {ArgKind::State, "velocity/layer.weight", dtype, weight, weight, whole, 2, false}};
  program.results = {{"loss", scalar, {}},
                     {"layer.weight", whole, weight},
                     {"velocity/layer.weight", whole, weight},
                     {"weight_squared", scalar, {}}};
  program.functions = {update.function, main.function};
  program.entry = "main";
  return withSteps(std::move(program));
}

TensorMap classifierData(int64_t ranks, int64_t rows, int64_t width, int64_t classes, int64_t steps, int64_t badStep,
                         int64_t badRank) {
  std::mt19937 random(7);
  std::vector<double> x(static_cast<size_t>(steps * rows * ranks * width));
  for (double &value : x)
    value = std::uniform_real_distribution<double>(-1, 1)(random);
  auto [labels, bytes] = allocateTensor(DType::I64, {steps, rows * ranks});
  for (int64_t i = 0; i < steps * rows * ranks; ++i) {
    int64_t label = int64_t(random() % uint32_t(classes));
    if (badStep >= 0 && i == (badStep * ranks + badRank) * rows)
      label = classes + 5;
    std::memcpy(bytes + i * 8, &label, 8);
  }
  return {{"x", makeTensor({steps, rows * ranks, width}, x)}, {"labels", labels}};
}

Tensor makeTensor(const Shape &shape, const std::vector<double> &values, DType dtype) {
  auto [tensor, bytes] = allocateTensor(DType::F64, shape);
  std::memcpy(bytes, values.data(), values.size() * sizeof(double));
  return *convertTensor(tensor, dtype);
}

std::vector<double> valuesOf(const Tensor &tensor) {
  Tensor wide = *convertTensor(tensor, DType::F64);
  std::vector<double> values(static_cast<size_t>(elementsOf(wide.shape)));
  std::memcpy(values.data(), wide.data, values.size() * sizeof(double));
  return values;
}

namespace {
std::vector<int64_t> triples(const std::vector<AxisRef> &refs) {
  std::vector<int64_t> numbers;
  for (const AxisRef &ref : refs)
    numbers.insert(numbers.end(), {int64_t(ref.axis), ref.before, ref.size});
  return numbers;
}
} // namespace

CollectiveCase randomCase(std::mt19937 &random, int64_t ranks) {
  auto below = [&](int64_t n) { return int64_t(random() % uint32_t(n)); };
  CollectiveCase test;
  test.seed = random();
  // A mesh of `ranks` ranks has one axis, or two if the number can be divided.
  for (int64_t size : {2, 3})
    if (test.mesh.axes.empty() && ranks % size == 0 && ranks > size && below(2))
      test.mesh.axes = {{"a", size}, {"b", ranks / size}};
  if (test.mesh.axes.empty())
    test.mesh.axes = {{"a", ranks}};
  // A process group consists of some axes in some order, sometimes of half an axis of size 4.
  std::vector<AxisRef> refs;
  for (int axis = 0; axis < int(test.mesh.axes.size()); ++axis)
    if (test.mesh.axes.size() == 1 || below(3))
      refs.push_back(wholeAxis(test.mesh, axis));
  std::shuffle(refs.begin(), refs.end(), random);
  if (!refs.empty() && refs[0].size == 4 && below(2))
    refs[0] = {refs[0].axis, 1 + below(2), 2};
  int64_t group = shardCount(refs);

  constexpr DType kTypes[] = {DType::F32, DType::F64, DType::I64, DType::I32, DType::BF16, DType::F16, DType::Bool};
  test.dtype = kTypes[below(7)];
  size_t rank = size_t(1 + below(3));
  for (size_t d = 0; d < rank; ++d)
    test.operand.push_back(1 + below(9));
  if (below(4) == 0)
    test.operand[0] *= 700; // too large for an all_reduce of one phase
  test.result = test.operand;
  size_t dim = size_t(below(int64_t(rank)));
  constexpr const char *kReductions[] = {"sum", "max", "min"};
  Json attrs = {{"axes", triples(refs)}, {"stream", "s"}, {"cause", "test"}};
  auto trimmed = [&](int64_t chunk) { return std::max<int64_t>(1, chunk * group - below(chunk * group)); };
  switch (below(7)) {
  case 5:
    test.instruction.op = "ring_shift";
    break;
  case 6:
    test.instruction.op = "ring_balance";
    attrs["dim"] = dim;
    test.operand[dim] += test.operand[dim] % 2;
    test.result = test.operand;
    if (below(2))
      attrs["inverse"] = true;
    break;
  case 0:
    test.instruction.op = "all_reduce";
    attrs["kind"] = kReductions[below(3)];
    break;
  case 1:
    test.instruction.op = "all_gather";
    attrs["dim"] = dim;
    test.result[dim] = trimmed(test.operand[dim]);
    break;
  case 2:
    test.instruction.op = "reduce_scatter";
    attrs["dim"] = dim;
    attrs["kind"] = kReductions[below(3)];
    test.operand[dim] = trimmed(test.result[dim]);
    break;
  case 3: {
    if (rank == 1)
      test.operand.push_back(1 + below(5)), test.result = test.operand;
    test.instruction.op = "all_to_all";
    size_t other = (dim + 1) % test.operand.size();
    attrs["dim"] = dim;
    attrs["other_dim"] = other;
    test.result[dim] = trimmed(test.operand[dim]);
    test.operand[other] = trimmed(test.result[other]);
    break;
  }
  default: {
    test.instruction.op = "collective_permute";
    // The tensor moves from one order of the axes in dimension 0 to another. Axes left out on either side replicate it.
    std::vector<AxisRef> before = refs, after = refs;
    std::shuffle(after.begin(), after.end(), random);
    auto layout = [&](const std::vector<AxisRef> &axes) {
      std::vector<int64_t> numbers = {2, int64_t(axes.size())};
      for (int64_t number : triples(axes))
        numbers.push_back(number);
      numbers.push_back(0);
      return numbers;
    };
    bool sameSize = refs.size() == 2 && refs[0].size == refs[1].size && below(2);
    if (sameSize) // cut by one axis before and by the other after
      before.pop_back(), after = {refs[1]};
    attrs["before"] = layout(before);
    attrs["after"] = layout(after);
    break;
  }
  }
  test.instruction.attrs = attrs;
  return test;
}

std::vector<std::byte> operandOf(const CollectiveCase &test, int64_t rank) {
  std::mt19937 random(test.seed + uint32_t(rank) * 977);
  int64_t elements = elementsOf(test.operand);
  std::vector<std::byte> bytes(static_cast<size_t>(elements * bytesOf(test.dtype)));
  auto put = [&](int64_t i, auto value) {
    std::memcpy(bytes.data() + i * int64_t(sizeof(value)), &value, sizeof(value));
  };
  for (int64_t i = 0; i < elements; ++i) {
    double value = std::uniform_real_distribution<double>(-3, 3)(random);
    switch (test.dtype) {
    case DType::F64:
      put(i, value);
      break;
    case DType::F32:
      put(i, float(value));
      break;
    case DType::BF16:
      put(i, bf16FromFloat(float(value)));
      break;
    case DType::F16:
      put(i, f16FromFloat(float(value)));
      break;
    case DType::I64:
      put(i, int64_t(value * 1000));
      break;
    case DType::I32:
      put(i, int32_t(value * 1000));
      break;
    default:
      put(i, uint8_t(value > 1.5));
      break;
    }
  }
  return bytes;
}

namespace {
void check(bool condition, const std::string &message) {
  if (condition)
    return;
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
}
} // namespace

std::vector<std::byte> runCase(const CollectiveCase &test, Communicator &communicator) {
  std::vector<std::byte> operand = operandOf(test, communicator.rank());
  std::vector<std::byte> result(static_cast<size_t>(elementsOf(test.result) * bytesOf(test.dtype)), std::byte{0x5a});
  CollectiveRequest request{{test.instruction,
                             {{operand.data(), test.dtype, test.operand}},
                             {{result.data(), test.dtype, test.result}},
                             test.mesh,
                             communicator.rank(),
                             nullptr},
                            kFirstCollectiveTag};
  auto bytes = collectiveScratchBytes(request);
  check(bool(bytes), bytes ? "" : bytes.error().message);
  std::vector<std::byte> scratch(static_cast<size_t>(*bytes));
  request.bind.scratch = scratch.data();
  auto kernel = bindCollective(request, communicator);
  check(bool(kernel), kernel ? "" : kernel.error().message);
  std::vector<std::byte> first;
  for (int time = 0; time < 2; ++time) {
    Status status = (*kernel)();
    check(bool(status), status ? "" : status.error().message);
    if (time == 0)
      first = result;
  }
  check(first == result, "the second run differs");
  return result;
}

std::vector<std::vector<std::byte>> runCaseOnThreads(const CollectiveCase &test) {
  auto communicators = createThreadCommunicators(test.mesh.ranks());
  std::vector<std::vector<std::byte>> results(communicators.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < communicators.size(); ++r)
    threads.emplace_back([&, r] { results[r] = runCase(test, *communicators[r]); });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

std::string missingDevices(std::string_view kind, int64_t ranks) {
  for (int64_t rank = 0; rank < ranks; ++rank)
    if (auto device = createDevice(kind, {.rank = rank}); !device)
      return fmt::format("the test needs {} devices: {}", ranks, device.error().message);
  return "";
}

} // namespace kerf::runtime::test
