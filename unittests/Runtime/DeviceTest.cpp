// SPDX-License-Identifier: Apache-2.0
// Tests the duties of every device, for each kind of device in this build. The host code here accesses device memory
// only through copies.
#include "TestPrograms.h"
#include "kerf/Runtime/CollectiveBackend.h"
#include "kerf/Runtime/Communicator.h"

#include <gtest/gtest.h>
#include <thread>

namespace kerf::runtime::test {
namespace {
using Json = nlohmann::ordered_json;

struct DeviceTest : testing::TestWithParam<const DeviceKind *> {
  std::string chosen = *resolveDevice(GetParam()->kind);
  testing::ScopedTrace trace{__FILE__, __LINE__, chosen}; // a failure prints the seed
  std::unique_ptr<Device> open(int64_t rank = 0) {
    auto device = createDevice(chosen, {.rank = rank});
    EXPECT_TRUE(device) << device.error().message;
    return std::move(*device);
  }
};

/// A tensor in a device's memory.
template <typename T> struct OnDevice {
  Device &device;
  std::shared_ptr<std::byte> memory;
  TensorView view;

  OnDevice(Device &device, DType dtype, const Shape &shape, const std::vector<T> &values = {}) : device(device) {
    view = {nullptr, dtype, shape};
    memory = std::move(*device.allocate(view.bytes()));
    view.data = memory.get();
    if (!values.empty()) {
      EXPECT_TRUE(device.copyIn(view.data, values.data(), view.bytes()));
    }
  }
  std::vector<T> values() const {
    std::vector<T> copy(size_t(view.elements()));
    EXPECT_TRUE(device.copyOut(copy.data(), view.data, view.bytes()));
    return copy;
  }
};

package::Instruction instructionOf(const std::string &op, const Json &attrs = Json::object()) {
  return {op, {}, {}, attrs, "node"};
}

/// A bound kernel with its scratch memory.
struct BoundOnDevice {
  std::shared_ptr<std::byte> scratch;
  std::unique_ptr<BoundKernel> kernel;
};

BoundOnDevice bind(Device &device, KernelRequest request) {
  BoundOnDevice bound;
  auto bytes = device.scratchBytes(request);
  EXPECT_TRUE(bytes) << bytes.error().message;
  bound.scratch = std::move(*device.allocate(*bytes));
  request.scratch = bound.scratch.get();
  auto kernel = device.bind(request);
  EXPECT_TRUE(kernel) << kernel.error().message;
  bound.kernel = std::move(*kernel);
  return bound;
}

std::unique_ptr<Stream> streamOf(Device &device, StreamKind kind) { return std::move(*device.createStream(kind)); }

TEST_P(DeviceTest, MemoryIsAlignedAndCopied) {
  auto device = open();
  EXPECT_GE(device->alignment(), 16);
  for (int64_t bytes : {int64_t(0), int64_t(1), int64_t(4096), int64_t(5) << 20}) {
    auto memory = device->allocate(bytes);
    ASSERT_TRUE(memory) << memory.error().message;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->get()) % uintptr_t(device->alignment()), 0U);
    std::vector<std::byte> in(static_cast<size_t>(bytes)), out(in);
    for (size_t i = 0; i < in.size(); ++i)
      in[i] = std::byte(i * 7);
    ASSERT_TRUE(device->copyIn(memory->get(), in.data(), bytes));
    ASSERT_TRUE(device->copyOut(out.data(), memory->get(), bytes));
    EXPECT_TRUE(in == out);
    if (bytes > 16) { // also in the middle
      ASSERT_TRUE(device->copyOut(out.data(), memory->get() + 16, 8));
      EXPECT_TRUE(std::equal(out.begin(), out.begin() + 8, in.begin() + 16));
    }
  }
  EXPECT_EQ(device->kind(), GetParam()->kind);
}

TEST_P(DeviceTest, MoreMemoryThanThereIsIsRefused) {
  auto device = open();
  auto memory = device->allocate(int64_t(1) << 60);
  ASSERT_FALSE(bool(memory));
  EXPECT_EQ(memory.error().status, ExitStatus::Infeasible);
  EXPECT_NE(memory.error().message.find("bytes"), std::string::npos) << memory.error().message;
  EXPECT_TRUE(device->allocate(1024));
}

TEST_P(DeviceTest, WorkOfAStreamIsDoneInOrder) {
  auto device = open();
  Mesh mesh;
  constexpr int64_t kElements = 1000;
  OnDevice<float> x(*device, DType::F32, {kElements}, std::vector<float>(kElements, 1)),
      y(*device, DType::F32, {kElements}, std::vector<float>(kElements, 3));
  package::Instruction add = instructionOf("add"), multiply = instructionOf("multiply");
  auto sum = bind(*device, {add, {x.view, y.view}, {x.view}, mesh}), // x = (x + 3) * 3, ten times
      product = bind(*device, {multiply, {x.view, y.view}, {x.view}, mesh});
  for (StreamKind kind : {StreamKind::Compute, StreamKind::Auxiliary}) {
    auto stream = streamOf(*device, kind);
    stream->reserve(20);
    ASSERT_TRUE(device->copyIn(x.view.data, std::vector<float>(kElements, 1).data(), x.view.bytes()));
    float expected = 1;
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(sum.kernel->launch(*stream));
      ASSERT_TRUE(product.kernel->launch(*stream));
      expected = (expected + 3) * 3;
    }
    ASSERT_TRUE(stream->synchronize());
    EXPECT_EQ(x.values(), std::vector<float>(kElements, expected));
  }
}

TEST_P(DeviceTest, StreamsWaitForEvents) {
  auto device = open();
  constexpr int64_t kElements = 1 << 16;
  constexpr int64_t kBytes = kElements * int64_t(sizeof(float));
  Mesh mesh;
  OnDevice<float> x(*device, DType::F32, {kElements}), y(*device, DType::F32, {kElements});
  package::Instruction add = instructionOf("add");
  auto twice = bind(*device, {add, {x.view, x.view}, {y.view}, mesh});
  auto in = std::move(*device->allocateHost(kBytes)), out = std::move(*device->allocateHost(kBytes));
  auto compute = streamOf(*device, StreamKind::Compute), beside = streamOf(*device, StreamKind::Auxiliary);
  auto computed = std::move(*device->createEvent()), copied = std::move(*device->createEvent());
  for (int step = 0; step < 20; ++step) {
    for (int64_t i = 0; i < kElements; ++i)
      reinterpret_cast<float *>(in.get())[i] = float(i + step);
    ASSERT_TRUE(beside->copy(x.view.data, in.get(), kBytes, CopyKind::ToDevice));
    ASSERT_TRUE(beside->record(*copied));
    ASSERT_TRUE(compute->wait(*copied));
    ASSERT_TRUE(twice.kernel->launch(*compute));
    ASSERT_TRUE(compute->copy(x.view.data, y.view.data, kBytes, CopyKind::OnDevice));
    ASSERT_TRUE(compute->record(*computed));
    ASSERT_TRUE(beside->wait(*computed));
    ASSERT_TRUE(beside->copy(out.get(), x.view.data, kBytes, CopyKind::ToHost));
    ASSERT_TRUE(compute->synchronize());
    ASSERT_TRUE(beside->synchronize());
    auto before = copied->seconds(), after = computed->seconds();
    ASSERT_TRUE(before && after);
    EXPECT_GE(*after, *before);
    EXPECT_LT(*after - *before, 60);
    for (int64_t i = 0; i < kElements; i += 97)
      ASSERT_EQ(reinterpret_cast<float *>(out.get())[i], float(2 * (i + step)));
  }
}

TEST_P(DeviceTest, AnInputsFaultIsToldWithTheInstructionAndForgotten) {
  auto device = open();
  Mesh mesh;
  OnDevice<float> logits(*device, DType::F32, {2, 4}, std::vector<float>(8, 0.5F)), nll(*device, DType::F32, {2}),
      lse(*device, DType::F32, {2});
  OnDevice<int64_t> labels(*device, DType::I64, {2}, {1, 4});
  package::Instruction loss = instructionOf("cross_entropy", {{"ignore_index", -100}});
  auto bound = bind(*device, {.instruction = loss,
                              .operands = {logits.view, labels.view},
                              .results = {nll.view, lse.view},
                              .mesh = mesh,
                              .number = 17});
  EXPECT_FALSE(device->takeFault());
  auto compute = streamOf(*device, StreamKind::Compute), beside = streamOf(*device, StreamKind::Auxiliary);
  auto event = std::move(*device->createEvent());
  // Calls after the fault may or may not fail, but no stream waits forever.
  Status launched = bound.kernel->launch(*compute), recorded = compute->record(*event), waits = beside->wait(*event);
  Status first = compute->synchronize(), second = beside->synchronize();
  auto fault = device->takeFault();
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->number, 17);
  EXPECT_NE(fault->error.message.find("label 4 of row 1 is outside of [0, 4)"), std::string::npos)
      << fault->error.message;
  EXPECT_FALSE(device->takeFault());
  // The streams work again with correct input.
  ASSERT_TRUE(device->copyIn(labels.view.data, std::vector<int64_t>{1, 3}.data(), 16));
  ASSERT_TRUE(bound.kernel->launch(*compute));
  ASSERT_TRUE(compute->record(*event));
  ASSERT_TRUE(beside->wait(*event));
  ASSERT_TRUE(compute->synchronize());
  ASSERT_TRUE(beside->synchronize());
  EXPECT_FALSE(device->takeFault());
  EXPECT_NEAR(nll.values()[1], std::log(4.0), 1e-6);
}

TEST_P(DeviceTest, ScratchNeedNotKeepItsContent) {
  auto device = open();
  Mesh mesh;
  constexpr int64_t kSize = 96;
  std::vector<float> ones(kSize * kSize, 1);
  OnDevice<float> a(*device, DType::F32, {kSize, kSize}, ones), sum(*device, DType::F32, {kSize});
  package::Instruction reduce = instructionOf("reduce", {{"kind", "sum"}, {"dimensions", {0}}});
  auto bound = bind(*device, {reduce, {a.view}, {sum.view}, mesh});
  auto compute = streamOf(*device, StreamKind::Compute);
  for (int time = 0; time < 3; ++time) {
    ASSERT_TRUE(bound.kernel->launch(*compute));
    ASSERT_TRUE(compute->synchronize());
    EXPECT_EQ(sum.values(), std::vector<float>(kSize, kSize));
  }
}

TEST_P(DeviceTest, WhatItCannotBindIsRefused) {
  auto device = open();
  Mesh mesh;
  OnDevice<float> x(*device, DType::F32, {4});
  package::Instruction unknown = instructionOf("no_such_op");
  auto bound = device->bind({unknown, {x.view}, {x.view}, mesh});
  ASSERT_FALSE(bool(bound));
  EXPECT_NE(bound.error().message.find("no_such_op"), std::string::npos) << bound.error().message;
  package::Instruction add = instructionOf("add");
  EXPECT_FALSE(bool(device->scratchBytes({add, {x.view}, {x.view}, mesh})));
}

/// Runs an all_reduce over `ranks` ranks, each on its own device and streams, and returns the bytes of
/// each rank's result.
std::vector<std::vector<float>> sums(const std::string &chosen, int64_t ranks, bool ordered) {
  constexpr int64_t kElements = 2000;
  Mesh mesh{{{"data", ranks}}};
  package::Instruction reduce = instructionOf("all_reduce", {{"axes", {0, 1, ranks}}, {"kind", "sum"}});
  auto communicators = createThreadCommunicators(ranks);
  std::vector<std::vector<float>> results(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto device = std::move(*createDevice(chosen, {.rank = rank}));
      std::vector<float> values(kElements);
      for (int64_t i = 0; i < kElements; ++i)
        values[size_t(i)] = std::ldexp(1.0F + float(i), int(5 * rank % 7)) / 3;
      OnDevice<float> from(*device, DType::F32, {kElements}, values), to(*device, DType::F32, {kElements});
      auto backend = device->createCollectives(*communicators[size_t(rank)], {ordered});
      ASSERT_TRUE(backend) << backend.error().message;
      EXPECT_TRUE((*backend)->ordered() || !ordered);
      CollectiveRequest request{{reduce, {from.view}, {to.view}, mesh, rank}, kFirstCollectiveTag};
      auto scratch = std::move(*device->allocate(*device->collectiveScratchBytes(request, {ordered})));
      request.bind.scratch = scratch.get();
      auto bound = (*backend)->bind(request);
      ASSERT_TRUE(bound) << bound.error().message;
      auto stream = streamOf(*device, StreamKind::Auxiliary);
      ASSERT_TRUE((*bound)->launch(*stream));
      ASSERT_TRUE(stream->synchronize());
      results[size_t(rank)] = to.values();
    });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

TEST_P(DeviceTest, OrderedSumsAreThoseInOrderOfTheRanks) {
  for (int64_t ranks : {1, 3, 4}) {
    if (std::string missing = missingDevices(chosen, ranks); !missing.empty())
      GTEST_SKIP() << "sums of fewer ranks are right; " << missing;
    auto results = sums(chosen, ranks, true), others = sums(chosen, ranks, false);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(others[size_t(rank)], others[0]) << "ranks have different bits";
      for (size_t i = 0; i < results[0].size(); ++i) {
        float sum = 0;
        for (int64_t r = 0; r < ranks; ++r) {
          float next = std::ldexp(1.0F + float(i), int(5 * r % 7)) / 3;
          sum = r == 0 ? next : sum + next;
        }
        ASSERT_EQ(results[size_t(rank)][i], sum) << "element " << i << " of rank " << rank;
        ASSERT_NEAR(others[size_t(rank)][i], sum, 1e-5 * double(sum));
      }
    }
  }
}

TEST_P(DeviceTest, MessagesArriveInOrder) {
  constexpr int64_t kElements = 5000, kMessages = 8;
  if (std::string missing = missingDevices(chosen, 2); !missing.empty())
    GTEST_SKIP() << missing;
  auto communicators = createThreadCommunicators(2);
  package::Instruction transfer = instructionOf("transfer");
  std::thread sender([&] {
    auto device = open(0);
    auto backend = std::move(*device->createCollectives(*communicators[0], {}));
    backend->reserve(kMessages);
    auto stream = streamOf(*device, StreamKind::Compute);
    std::vector<std::unique_ptr<OnDevice<int64_t>>> tensors;
    std::vector<std::unique_ptr<BoundKernel>> bound;
    for (int64_t m = 0; m < kMessages; ++m) {
      tensors.push_back(std::make_unique<OnDevice<int64_t>>(*device, DType::I64, Shape{kElements},
                                                            std::vector<int64_t>(kElements, m)));
      bound.push_back(std::move(*backend->bindSend({tensors.back()->view, 1, kFirstCollectiveTag, m, &transfer})));
      ASSERT_TRUE(bound.back()->launch(*stream));
    }
    bound.push_back(std::move(*backend->bindSent({tensors.back()->view, 1, kFirstCollectiveTag, 0, &transfer})));
    ASSERT_TRUE(bound.back()->launch(*stream));
    ASSERT_TRUE(stream->synchronize());
  });
  auto device = open(1);
  auto backend = std::move(*device->createCollectives(*communicators[1], {}));
  backend->reserve(kMessages);
  auto stream = streamOf(*device, StreamKind::Auxiliary);
  OnDevice<int64_t> tensor(*device, DType::I64, {kElements});
  auto bound = std::move(*backend->bindReceive({tensor.view, 0, kFirstCollectiveTag, 0, &transfer}));
  for (int64_t m = 0; m < kMessages; ++m) {
    ASSERT_TRUE(bound->launch(*stream));
    ASSERT_TRUE(stream->synchronize());
    EXPECT_EQ(tensor.values(), std::vector<int64_t>(kElements, m));
  }
  sender.join();
}

std::string nameOfKind(const testing::TestParamInfo<const DeviceKind *> &info) { return std::string(info.param->kind); }
INSTANTIATE_TEST_SUITE_P(Kinds, DeviceTest, testing::ValuesIn(deviceKinds().begin(), deviceKinds().end()), nameOfKind);

TEST(Devices, AnUnknownOneIsRefusedWithThoseThereAre) {
  auto unknown = createDevice("abacus");
  ASSERT_FALSE(bool(unknown));
  EXPECT_NE(unknown.error().message.find("there is no device 'abacus'; this build has 'cpu' ("), std::string::npos)
      << unknown.error().message;
  EXPECT_EQ(createDevice("cpu:4").error().message,
            "the device 'cpu' takes no parameter, but '4' is given; write 'cpu'");
  EXPECT_EQ(*resolveDevice(""), "cpu");
  EXPECT_EQ(*resolveDevice("check:12"), "check:12");
  EXPECT_TRUE(resolveDevice("check")->starts_with("check:"));
  auto wrong = createDevice("check:x");
  ASSERT_FALSE(bool(wrong));
  EXPECT_NE(wrong.error().message.find("'x' is given"), std::string::npos) << wrong.error().message;
}

TEST(CheckDeviceDeathTest, ItsMemoryIsOutOfTheHostsReach) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto device = std::move(*createDevice("check:1"));
  auto memory = std::move(*device->allocate(64));
  EXPECT_DEATH(*reinterpret_cast<volatile char *>(memory.get()) = 1, "");
  EXPECT_FALSE(device->copyIn(memory.get() + 60, "01234567", 8)); // past its end
  auto stream = streamOf(*device, StreamKind::Compute);
  std::vector<std::byte> pageable(64);
  EXPECT_FALSE(stream->copy(memory.get(), pageable.data(), 64, CopyKind::ToDevice)); // not of allocateHost
}

TEST(CheckDevice, FreshMemoryHoldsNoNumbers) {
  auto device = std::move(*createDevice("check:1"));
  OnDevice<float> fresh(*device, DType::F32, {1000});
  for (float value : fresh.values())
    ASSERT_TRUE(std::isnan(value));
}

} // namespace
} // namespace kerf::runtime::test
