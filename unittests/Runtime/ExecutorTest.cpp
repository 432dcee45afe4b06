// SPDX-License-Identifier: Apache-2.0
// Random programs of element-wise ops, views, calls, in-place updates and collectives with late waits, on 1 to 3 ranks.
// Sharing memory between values must not change any bit of any result or argument over several steps.
#include "TestPrograms.h"

#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <thread>

namespace kerf::runtime::test {
namespace {

using Json = nlohmann::ordered_json;

/// A value, and its pending value as long as it has not been waited for.
struct Node {
  int value = 0;
  Shape shape;
};

package::Program randomProgram(std::mt19937 &random, int64_t ranks) {
  auto below = [&](size_t n) { return size_t(random() % uint32_t(n)); };
  const std::vector<Shape> shapes = {{6, 4}, {24}, {2, 3, 4}, {300}};
  package::Program program;
  program.mesh.axes = {{"a", ranks}};
  FunctionBuilder callee;
  callee.function.name = "layer";
  {
    int x = callee.arg(DType::F64, {24}), y = callee.arg(DType::F64, {24});
    int sum = callee.op("add", {x, y}, DType::F64, {24});
    int view = callee.op("reshape", {sum}, DType::F64, {4, 6});
    int tanh = callee.op("tanh", {view}, DType::F64, {4, 6});
    callee.function.results = {callee.op("reshape", {tanh}, DType::F64, {24}), y};
  }
  FunctionBuilder main;
  main.function.name = "main";
  std::vector<Node> nodes, pending;
  size_t args = 2 + below(3);
  for (size_t i = 0; i < args; ++i) {
    Shape shape = i == 0 ? Shape{24} : shapes[below(shapes.size())];
    nodes.push_back({main.arg(DType::F64, shape), shape});
  }
  auto anyOf = [&](const Shape &shape) {
    std::vector<int> fitting;
    for (const Node &node : nodes)
      if (node.shape == shape)
        fitting.push_back(node.value);
    return fitting[below(fitting.size())];
  };
  for (size_t i = 0, count = 5 + below(25); i < count; ++i) {
    Node from = nodes[below(nodes.size())];
    switch (below(7)) {
    case 0:
      nodes.push_back({main.op("tanh", {from.value}, DType::F64, from.shape), from.shape});
      break;
    case 1:
      nodes.push_back({main.op(below(2) ? "add" : "subtract", {from.value, anyOf(from.shape)}, DType::F64, from.shape),
                       from.shape});
      break;
    case 2: {
      Shape to = elementsOf(from.shape) == 24 ? shapes[below(3)] : from.shape;
      nodes.push_back({main.op("reshape", {from.value}, DType::F64, to), to});
      break;
    }
    case 3: {
      std::vector<int64_t> permutation(from.shape.size());
      Shape to;
      for (size_t d = 0; d < permutation.size(); ++d)
        permutation[d] = int64_t(permutation.size() - 1 - d), to.push_back(from.shape[permutation.size() - 1 - d]);
      nodes.push_back({main.op("transpose", {from.value}, DType::F64, to, {{"permutation", permutation}}), to});
      break;
    }
    case 4:
      pending.push_back({main.start("all_reduce", from.value, from.shape,
                                    {{"axes", {0, 1, ranks}}, {"kind", below(2) ? "sum" : "max"}}),
                         from.shape});
      main.function.body.back().attrs["stream"] = below(2) ? "one" : "gradients";
      break;
    case 5: {
      if (pending.empty())
        break;
      size_t which = below(pending.size());
      nodes.push_back({main.wait(pending[which].value), pending[which].shape});
      pending.erase(pending.begin() + std::ptrdiff_t(which));
      break;
    }
    default: {
      int a = anyOf({24}), b = anyOf({24}), r0 = main.value(DType::F64, {24}), r1 = main.value(DType::F64, {24});
      main.function.body.push_back({"call", {a, b}, {r0, r1}, {{"callee", "layer"}}, "call"});
      nodes.push_back({r0, {24}});
      nodes.push_back({r1, {24}});
      break;
    }
    }
  }
  // The results are the arguments' updates and some other values. One value may update two arguments, and an argument
  // may update another one.
  for (size_t i = 0; i < args; ++i) {
    const package::Value &type = main.function.values[size_t(main.function.args[i])];
    package::Arg arg{package::ArgKind::State,
                     "arg" + std::to_string(i),
                     DType::F64,
                     type.shape,
                     type.shape,
                     Sharding::replicated(type.shape.size()),
                     -1,
                     false};
    if (below(4)) {
      arg.updatedBy = int(main.function.results.size());
      main.function.results.push_back(anyOf(type.shape));
      program.results.push_back({arg.name, arg.sharding, type.shape});
    }
    program.args.push_back(arg);
  }
  for (size_t i = 0; i < 3; ++i) {
    Node node = nodes[below(nodes.size())];
    main.function.results.push_back(node.value);
    program.results.push_back({"extra" + std::to_string(i), Sharding::replicated(node.shape.size()), node.shape});
  }
  program.functions = {callee.function, main.function};
  program.entry = "main";
  return program;
}

/// Runs `steps` steps, and returns for each rank the bytes of all arguments and results after each step.
std::vector<std::vector<std::byte>> trace(const package::Program &program, const ExecutorOptions &options, int steps,
                                          std::string_view kind = kDefaultDevice) {
  auto communicators = createThreadCommunicators(program.mesh.ranks());
  std::vector<std::vector<std::byte>> traces(communicators.size());
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Executor>> executors;
  for (auto &communicator : communicators) {
    devices.push_back(std::move(*createDevice(kind, {.rank = communicator->rank()})));
    auto executor = Executor::create(program, *devices.back(), *communicator, options);
    EXPECT_TRUE(executor) << executor.error().message;
    executors.push_back(std::move(*executor));
  }
  std::vector<std::thread> threads;
  for (size_t r = 0; r < communicators.size(); ++r)
    threads.emplace_back([&, r] {
      Executor &executor = *executors[r];
      std::vector<ArgumentPiece> args = executor.arguments();
      for (size_t i = 0; i < args.size(); ++i) {
        const TensorView &view = args[i].tensor;
        std::vector<double> content(size_t(view.elements()));
        for (int64_t e = 0; e < view.elements(); ++e)
          content[size_t(e)] = 0.01 * double(e + 1) + double(i) - 0.3 * double(r);
        EXPECT_TRUE(devices[r]->copyIn(view.data, content.data(), view.bytes()));
      }
      for (int step = 0; step < steps; ++step) {
        Status status = executor.step();
        EXPECT_TRUE(status);
        for (size_t i = 0; i < program.args.size() + program.results.size(); ++i) {
          TensorView view = i < args.size() ? args[i].tensor : *executor.result(i - args.size());
          std::vector<std::byte> bytes(size_t(view.bytes()));
          EXPECT_TRUE(devices[r]->copyOut(bytes.data(), view.data, view.bytes()));
          traces[r].insert(traces[r].end(), bytes.begin(), bytes.end());
        }
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const auto &executor : executors) {
    TimeReport times = executor->times();
    bool records = (devices[0]->kind() == "cuda" || devices[0]->kind() == "ascend") && options.record;
    EXPECT_EQ(times.steps, steps);
    EXPECT_EQ(times.measuredSteps, records ? std::min(steps, 2) : steps);
    EXPECT_EQ(times.notRecorded, "");
  }
  return traces;
}

TEST(Executor, SharingMemoryAndBucketsChangeNoBit) {
  constexpr uint32_t kSeed = 31;
  std::mt19937 random(kSeed);
  for (int trial = 0; trial < 150; ++trial) {
    auto program = randomProgram(random, 1 + trial % 3);
    Status status = package::checkProgram(program);
    ASSERT_TRUE(status) << "trial " << trial << ": " << status.error().message;
    ASSERT_EQ(package::writeProgram(*package::readProgram(package::writeProgram(program))),
              package::writeProgram(program));
    steps::StepOptions buckets{/*bucketBytes=*/trial % 3 ? 1000 * (trial % 3 - 1) : steps::kBucketBytes};
    auto shared = trace(withSteps(program, buckets), {/*reuseMemory=*/true}, 3),
         apart = trace(withSteps(program, {std::nullopt}), {/*reuseMemory=*/false}, 3);
    for (size_t r = 0; r < shared.size(); ++r)
      ASSERT_TRUE(shared[r] == apart[r]) << "seed " << kSeed << ", trial " << trial << ", rank " << r;
  }
}

/// Returns whether a device's bytes, which are float64 numbers, are those of the CPU. NPUs compute them with operators
/// of their own, whose results are the same up to rounding.
bool areAlike(std::string_view kind, const std::vector<std::byte> &actual, const std::vector<std::byte> &expected) {
  constexpr double kTolerance = 1e-12;
  if (kind != "ascend" || actual.size() != expected.size())
    return actual == expected;
  for (size_t at = 0; at + sizeof(double) <= actual.size(); at += sizeof(double)) {
    double a = 0, b = 0;
    std::memcpy(&a, actual.data() + at, sizeof a);
    std::memcpy(&b, expected.data() + at, sizeof b);
    if (a != b && !(std::abs(a - b) <= kTolerance * (1 + std::abs(b))))
      return false;
  }
  return true;
}

TEST(Executor, EveryDeviceGivesTheSameBits) {
  constexpr uint32_t kSeed = 57;
  constexpr int kMostRanks = 3;
  std::mt19937 random(kSeed);
  std::map<const DeviceKind *, std::string> missing; // why a kind has not a device for each rank
  for (const DeviceKind *kind : deviceKinds())
    missing[kind] = missingDevices(*resolveDevice(kind->kind), kMostRanks);
  for (int trial = 0; trial < 60; ++trial) {
    const int ranks = 1 + trial % kMostRanks;
    auto program = withSteps(randomProgram(random, ranks));
    ExecutorOptions options;
    options.deterministic = true;
    constexpr int kSteps = 4; // a device that records steps launches the recording twice
    auto expected = trace(program, options, kSteps);
    for (const DeviceKind *kind : deviceKinds()) {
      std::string chosen = *resolveDevice(kind->kind);
      if (ranks > 1 && !missing.at(kind).empty())
        continue;
      auto actual = trace(program, options, kSteps, chosen);
      for (size_t r = 0; r < expected.size(); ++r)
        ASSERT_TRUE(areAlike(kind->kind, actual[r], expected[r]))
            << chosen << ", seed " << kSeed << ", trial " << trial << ", rank " << r;
    }
  }
  for (const auto &[kind, why] : missing)
    if (!why.empty())
      GTEST_SKIP() << "programs of one rank, and other devices, give the same bits; " << why;
}

TEST(Executor, AWaitedValueMayBeUsedWhileOthersAreUnderWay) {
  // Two collectives on two streams are waited for in the reverse order.
  package::Program program;
  program.mesh.axes = {{"a", 3}};
  FunctionBuilder main;
  main.function.name = "main";
  int x = main.arg(DType::F64, {2000});
  Json attrs = {{"axes", {0, 1, 3}}, {"kind", "sum"}};
  int first = main.start("all_reduce", x, {2000}, attrs), doubled = main.op("add", {x, x}, DType::F64, {2000});
  int second = main.start("all_reduce", doubled, {2000}, attrs);
  main.function.body.back().attrs["stream"] = "other";
  int b = main.wait(second), a = main.wait(first);
  main.function.results = {main.op("subtract", {b, a}, DType::F64, {2000})};
  program.functions = {main.function};
  program.entry = "main";
  program.args = {{package::ArgKind::State, "x", DType::F64, {2000}, {2000}, Sharding::replicated(1), -1, false}};
  program.results = {{"y", Sharding::replicated(1), {2000}}};
  ASSERT_TRUE(package::checkProgram(program));
  for (const auto &bytes : trace(withSteps(program), {}, 2)) {
    const double *values = reinterpret_cast<const double *>(bytes.data()) + 2000;
    for (int e = 0; e < 2000; ++e) // sum over r of 0.01 (e + 1) - 0.3 r
      EXPECT_NEAR(values[e], 3 * 0.01 * (e + 1) - 0.9, 1e-12);
  }
}

TEST(Executor, LoadErrorsNameTheNode) {
  package::Program program;
  program.mesh.axes = {{"a", 1}};
  FunctionBuilder main;
  main.function.name = "main";
  int x = main.arg(DType::F64, {4});
  main.function.results = {main.op("no_such_op", {x}, DType::F64, {4})};
  program.functions = {main.function};
  program.entry = "main";
  program.args = {{package::ArgKind::State, "x", DType::F64, {4}, {4}, Sharding::replicated(1), -1, false}};
  program.results = {{"y", Sharding::replicated(1), {4}}};
  auto communicators = createThreadCommunicators(1);
  auto device = std::move(*createDevice());
  auto executor = Executor::create(program, *device, *communicators[0]);
  ASSERT_FALSE(bool(executor));
  EXPECT_NE(executor.error().message.find("compile the model again"), std::string::npos) << executor.error().message;
  program = withSteps(std::move(program));
  executor = Executor::create(program, *device, *communicators[0]);
  ASSERT_FALSE(bool(executor));
  EXPECT_NE(executor.error().message.find("node.0 (no_such_op)"), std::string::npos) << executor.error().message;
  program.functions[0].body[0] = {"reshape", {0}, {1}, Json::object(), "view"};
  program.functions[0].values[1].shape = {5};
  program.results[0].shape = {5};
  executor = Executor::create(program, *device, *communicators[0]);
  ASSERT_FALSE(bool(executor));
  EXPECT_NE(executor.error().message.find("view"), std::string::npos) << executor.error().message;
}

/// Only a prefetch may read a value in host memory: an accelerator's kernels cannot use its address.
TEST(Executor, CopiesInTheHostsMemoryAreReadByPrefetchAlone) {
  for (bool fetched : {true, false}) {
    package::Program program;
    program.mesh.axes = {{"a", 1}};
    FunctionBuilder main;
    main.function.name = "main";
    int x = main.arg(DType::F64, {4});
    int copy = main.wait(main.start("offload", main.op("add", {x, x}, DType::F64, {4}), {4}, {{"stream", "offload"}}));
    if (fetched)
      copy = main.wait(main.start("prefetch", copy, {4}, {{"stream", "prefetch"}}));
    main.function.results = {main.op("multiply", {copy, x}, DType::F64, {4})};
    program.functions = {main.function};
    program.entry = "main";
    program.args = {{package::ArgKind::State, "x", DType::F64, {4}, {4}, Sharding::replicated(1), -1, false}};
    program.results = {{"y", Sharding::replicated(1), {4}}};
    program = withSteps(std::move(program));
    auto communicators = createThreadCommunicators(1);
    auto device = std::move(*createDevice());
    auto executor = Executor::create(program, *device, *communicators[0]);
    ASSERT_EQ(bool(executor), fetched) << (executor ? "" : executor.error().message);
    if (!fetched) {
      EXPECT_NE(executor.error().message.find("(multiply): reads a copy in the host's memory"), std::string::npos)
          << executor.error().message;
    }
  }
}

} // namespace
} // namespace kerf::runtime::test
