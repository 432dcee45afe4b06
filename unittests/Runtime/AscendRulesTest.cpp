// SPDX-License-Identifier: Apache-2.0
// The stand-ins of CANN's libraries are strict (test/standins/cann): whoever breaks a rule of CANN gets an error that
// begins with the rule's name, or the process ends where CANN would hang or damage memory.
#include "../../lib/Runtime/Ascend/Hccl.h"

#include <array>
#include <cstring>
#include <dlfcn.h>
#include <future>
#include <gtest/gtest.h>
#include <thread>

namespace kerf::runtime::ascend {
namespace {

/// A tensor in the test's memory of the NPU.
struct Form {
  Shape sizes;
  DType dtype = DType::F32;
  std::vector<int64_t> strides = {}; // empty: row-major
  int format = kFormatNd;
  Shape storage = {}; // empty: `sizes`
  int64_t at = 0;     // bytes from the beginning of the memory
};

Handle number(int64_t value) {
  Handle handle{nullptr};
  handle.integer = value;
  return handle;
}

/// NPU 0 with a stream and some memory, and what a test makes on it.
class AscendRules : public testing::Test {
protected:
  static constexpr size_t kBytes = 1 << 16;

  void SetUp() override {
    setenv("KERF_ASCEND_LIBRARIES", KERF_CANN_STANDINS, 0);
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    auto loaded = loadAcl();
    ASSERT_TRUE(loaded) << loaded.error().message;
    acl = *loaded;
    ASSERT_EQ(acl->setDevice(0), 0);
    ASSERT_EQ(acl->createStream(&stream, 0, kFastLaunch | kFastSynchronize), 0);
    ASSERT_EQ(acl->malloc(&memory, kBytes, kHugePagesFirst), 0);
  }
  void TearDown() override {
    if (executor && isRepeatable) {
      EXPECT_EQ(acl->destroyExecutor(executor), 0) << text();
    }
    for (AclTensor *one : tensors)
      EXPECT_EQ(acl->destroyTensor(one), 0) << text();
    if (stream) {
      EXPECT_EQ(acl->destroyStream(stream), 0) << text();
    }
    EXPECT_EQ(acl->free(memory), 0) << text();
    EXPECT_EQ(acl->resetDevice(0), 0) << text(); // an error if memory is left
  }

  std::string text() const { return acl->getRecentErrMsg(); }
  /// Expects that a call has failed because of a rule.
  void expectRule(const char *rule, AclResult result) const {
    const std::string said = text();
    EXPECT_NE(result, 0) << "the rule '" << rule << "' was broken";
    EXPECT_TRUE(said.starts_with("rule " + std::string(rule) + ": ")) << said;
  }

  AclTensor *tryTensor(const Form &form) {
    std::vector<int64_t> strides = form.strides.empty() ? rowMajorStrides(form.sizes) : form.strides;
    const Shape &storage = form.storage.empty() ? form.sizes : form.storage;
    return acl->createTensor(form.sizes.data(), form.sizes.size(), aclTypeOf(form.dtype), strides.data(), 0,
                             form.format, storage.data(), storage.size(), static_cast<std::byte *>(memory) + form.at);
  }
  AclTensor *tensor(const Form &form) {
    AclTensor *made = tryTensor(form);
    EXPECT_NE(made, nullptr) << text();
    tensors.push_back(made);
    return made;
  }
  void destroy(AclTensor *one) {
    EXPECT_EQ(acl->destroyTensor(one), 0);
    std::erase(tensors, one);
  }

  /// The first call of an operator.
  AclResult prepare(const Operator &one, std::vector<Handle> arguments) {
    auto found = findOperator(*acl, one);
    EXPECT_TRUE(found) << found.error().message;
    functions = *found;
    executor = nullptr;
    isRepeatable = false;
    return one.first(functions.first, arguments, &workspaceBytes, &executor);
  }
  /// The second one.
  AclResult launch(void *workspace = nullptr) { return functions.second(workspace, workspaceBytes, executor, stream); }
  void makeRepeatable() {
    EXPECT_EQ(acl->setRepeatable(executor), 0) << text();
    isRepeatable = true;
  }
  /// Prepares y = exp(x) of 4 x 4 numbers.
  void prepareExp() {
    ASSERT_EQ(prepare(op::Exp, {Handle{tensor({{4, 4}})}, Handle{tensor({.sizes = {4, 4}, .at = 512})}}), 0) << text();
  }

  const Acl *acl = nullptr;
  AclStream stream = nullptr;
  void *memory = nullptr;
  std::vector<AclTensor *> tensors;
  OperatorFunctions functions;
  void *executor = nullptr;
  uint64_t workspaceBytes = 0;
  bool isRepeatable = false;
};
using AscendRulesDeath = AscendRules;

TEST_F(AscendRules, AnOperatorTakesItsElementTypesOnly) {
  AclTensor *integers = tensor({.sizes = {4, 4}, .dtype = DType::I32}), *floats = tensor({{4, 4}}),
            *halves = tensor({.sizes = {4, 4}, .dtype = DType::F16}), *to = tensor({.sizes = {4, 4}, .at = 512});
  expectRule("dtype", prepare(op::Exp, {Handle{integers}, Handle{integers}}));
  expectRule("dtype", prepare(op::Exp, {Handle{floats}, Handle{halves}}));
  expectRule("dtype", prepare(op::Mul, {Handle{floats}, Handle{halves}, Handle{to}}));
  expectRule("dtype", prepare(op::Matmul, {Handle{integers}, Handle{integers}, Handle{integers}, number(0)}));
  expectRule("dtype", prepare(op::Cast, {Handle{floats}, number(aclTypeOf(DType::F16)), Handle{to}}));
}

TEST_F(AscendRules, AViewStaysInItsStorageAndHasStridesThatCannGives) {
  EXPECT_EQ(tryTensor({.sizes = {4, 4}, .strides = {8, 1}, .storage = {16}}), nullptr);
  expectRule("storage", 1);
  EXPECT_EQ(tryTensor({.sizes = {4}, .strides = {-1}, .storage = {16}}), nullptr);
  expectRule("stride", 1);
  EXPECT_EQ(tryTensor({.sizes = {4}, .at = 2}), nullptr);
  expectRule("alignment", 1);
  EXPECT_EQ(tryTensor({.sizes = {int64_t(kBytes)}}), nullptr);
  expectRule("memory", 1);
  EXPECT_EQ(tryTensor({.sizes = {1, 1, 1, 1, 1, 1, 1, 1, 1}}), nullptr);
  expectRule("dimensions", 1);
}

TEST_F(AscendRules, AResultHasAPlaceForEachElement) {
  AclTensor *x = tensor({{4, 4}});
  for (const std::vector<int64_t> &strides : {std::vector<int64_t>{0, 1}, {1, 1}, {2, 1}})
    expectRule("stride", prepare(op::Exp, {Handle{x}, Handle{tensor({.sizes = {4, 4}, .strides = strides})}}));
  // An operand may repeat elements, and a result may be transposed or have gaps.
  AclTensor *repeated = tensor({.sizes = {4, 4}, .strides = {0, 1}});
  for (const std::vector<int64_t> &strides : {std::vector<int64_t>{1, 4}, {8, 2}})
    EXPECT_EQ(prepare(op::Exp, {Handle{repeated},
                                Handle{tensor({.sizes = {4, 4}, .strides = strides, .storage = {64}, .at = 512})}}),
              0)
        << text();
}

TEST_F(AscendRules, SizesAndObjectsAreTheRightOnes) {
  AclTensor *x = tensor({{4, 4}}), *wide = tensor({{4, 5}}), *none = tensor({.sizes = {0, 4}});
  expectRule("shape", prepare(op::Exp, {Handle{x}, Handle{wide}}));
  expectRule("shape", prepare(op::Matmul, {Handle{wide}, Handle{x}, Handle{x}, number(0)}));
  expectRule("null", prepare(op::Exp, {Handle{x}, Handle{nullptr}}));
  expectRule("empty", prepare(op::Exp, {Handle{none}, Handle{none}}));
}

TEST_F(AscendRules, FormatsAreThoseOfTheOperator) {
  constexpr int kFractalNz = 29;
  AclTensor *x = tensor({{4, 4}});
  expectRule("format", prepare(op::Exp, {Handle{tensor({.sizes = {4, 4}, .format = kFractalNz})}, Handle{x}}));
  // A convolution of images takes NCHW.
  const std::array<int64_t, 2> ones{1, 1}, zeros{0, 0};
  void *one = acl->createIntArray(ones.data(), 2), *zero = acl->createIntArray(zeros.data(), 2);
  auto convolve = [&](int format) {
    Handle image{tensor({.sizes = {1, 1, 4, 4}, .format = format})},
        kernel{tensor({.sizes = {1, 1, 1, 1}, .format = format})};
    return prepare(op::Convolution, {image, kernel, Handle{nullptr}, Handle{one}, Handle{zero}, Handle{one}, number(0),
                                     Handle{zero}, number(1), image, number(0)});
  };
  EXPECT_EQ(convolve(kFormatNchw), 0) << text();
  expectRule("format", convolve(kFormatNd));
  acl->destroyIntArray(one);
  acl->destroyIntArray(zero);
}

TEST_F(AscendRules, AnExecutorIsUsedUpByOneLaunch) {
  prepareExp();
  EXPECT_EQ(launch(), 0) << text();
  expectRule("executor", launch());
  expectRule("executor", acl->setRepeatable(executor));
  expectRule("executor", acl->destroyExecutor(executor));
}

TEST_F(AscendRules, ARepeatableExecutorIsUsedUntilItIsDestroyed) {
  prepareExp();
  makeRepeatable();
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(launch(), 0) << text();
  EXPECT_EQ(acl->synchronizeStream(stream), 0) << text();
  EXPECT_EQ(acl->destroyExecutor(executor), 0) << text();
  isRepeatable = false;
  expectRule("executor", launch());
  expectRule("executor", acl->destroyExecutor(executor));
}

TEST_F(AscendRules, AnExecutorBelongsToOneOperator) {
  prepareExp();
  makeRepeatable();
  functions = *findOperator(*acl, op::Log);
  expectRule("executor", launch());
}

TEST_F(AscendRules, TensorsLiveAsLongAsTheirExecutor) {
  prepareExp();
  makeRepeatable();
  EXPECT_EQ(launch(), 0) << text();
  AclTensor *x = tensors.front();
  destroy(x);
  expectRule("lifetime", launch());
  expectRule("lifetime", acl->destroyTensor(x));
  expectRule("lifetime", prepare(op::Exp, {Handle{x}, Handle{tensors.back()}}));
}

TEST_F(AscendRules, AnOperatorGetsTheWorkspaceThatItAskedFor) {
  AclTensor *x = tensor({{4, 4}}), *y = tensor({.sizes = {4, 4}, .at = 512});
  ASSERT_EQ(prepare(op::Matmul, {Handle{x}, Handle{x}, Handle{y}, number(0)}), 0) << text();
  makeRepeatable();
  ASSERT_GT(workspaceBytes, 0u);
  expectRule("workspace", launch());
  workspaceBytes -= 1;
  expectRule("workspace", launch(static_cast<std::byte *>(memory) + 4096));
}

TEST_F(AscendRules, EveryCallNeedsAContext) {
  std::thread([this] {
    AclStream other = nullptr;
    expectRule("context", acl->createStream(&other, 0, 0));
    expectRule("context", acl->recordEvent(nullptr, stream));
  }).join();
}

TEST_F(AscendRules, CopiesStayInTheirMemory) {
  std::array<std::byte, 64> host{};
  expectRule("size", acl->memcpyAsync(memory, 32, host.data(), 64, kHostToDevice, stream));
  expectRule("memory", acl->memcpyAsync(static_cast<std::byte *>(memory) + kBytes - 32, 64, host.data(), 64,
                                        kHostToDevice, stream));
  expectRule("memory", acl->memcpyAsync(host.data(), 64, host.data(), 64, kDeviceToHost, stream));
  expectRule("memory", acl->memsetAsync(static_cast<std::byte *>(memory) + kBytes - 32, 64, 0, 64, stream));
  expectRule("memory", acl->free(host.data()));
}

TEST_F(AscendRules, AStreamExists) {
  AclStream other = nullptr;
  ASSERT_EQ(acl->createStream(&other, 0, 0), 0);
  ASSERT_EQ(acl->destroyStream(other), 0);
  int state = 0;
  expectRule("stream", acl->streamQuery(other, &state));
  prepareExp();
  std::swap(stream, other);
  expectRule("stream", launch());
  std::swap(stream, other);
}

TEST_F(AscendRules, TimesAreThoseOfEventsThatWereReached) {
  AclEvent first = nullptr, second = nullptr;
  ASSERT_EQ(acl->createEvent(&first, kWaitedEvent | kTimedEvent), 0);
  ASSERT_EQ(acl->createEvent(&second, kWaitedEvent | kTimedEvent), 0);
  float milliseconds = 0;
  expectRule("event", acl->eventElapsedTime(&milliseconds, first, second));
  std::promise<void> gate;
  std::function<void()> wait = [&] { gate.get_future().wait(); };
  ASSERT_EQ(acl->launchHostFunc(stream, [](void *f) { (*static_cast<std::function<void()> *>(f))(); }, &wait), 0);
  ASSERT_EQ(acl->recordEvent(first, stream), 0);
  ASSERT_EQ(acl->recordEvent(second, stream), 0);
  expectRule("event", acl->eventElapsedTime(&milliseconds, first, second));
  gate.set_value();
  ASSERT_EQ(acl->synchronizeStream(stream), 0);
  EXPECT_EQ(acl->eventElapsedTime(&milliseconds, first, second), 0) << text();
  EXPECT_GE(milliseconds, 0);
  acl->destroyEvent(first);
  acl->destroyEvent(second);
}

TEST_F(AscendRules, WorkIsDoneAfterItsCallAndInOrder) {
  void *host = nullptr;
  ASSERT_EQ(acl->mallocHost(&host, 64), 0);
  std::memset(host, 1, 64);
  std::promise<void> gate;
  std::function<void()> wait = [&] { gate.get_future().wait(); };
  ASSERT_EQ(acl->launchHostFunc(stream, [](void *f) { (*static_cast<std::function<void()> *>(f))(); }, &wait), 0);
  ASSERT_EQ(prepare(op::InplaceZero, {Handle{tensor({{16}})}}), 0) << text();
  ASSERT_EQ(launch(), 0);
  ASSERT_EQ(acl->memcpyAsync(host, 64, memory, 64, kDeviceToHost, stream), 0);
  int state = kStreamComplete;
  ASSERT_EQ(acl->streamQuery(stream, &state), 0);
  EXPECT_NE(state, kStreamComplete);
  EXPECT_EQ(*static_cast<char *>(host), 1) << "the stream still waits";
  gate.set_value();
  ASSERT_EQ(acl->synchronizeStream(stream), 0);
  EXPECT_EQ(*static_cast<char *>(host), 0);
  acl->freeHost(host);
}

TEST_F(AscendRules, ACaptureTakesWorkOnly) {
  auto begin = [this] { ASSERT_EQ(acl->captureBegin(stream, kThreadLocalCapture), 0) << text(); };
  auto isRefused = [this] {
    AclModel model = nullptr;
    expectRule("capture", acl->captureEnd(stream, &model));
    EXPECT_EQ(model, nullptr);
  };
  begin();
  expectRule("capture", acl->synchronizeStream(stream));
  isRefused();
  begin();
  void *more = nullptr;
  expectRule("capture", acl->malloc(&more, 64, kHugePagesFirst));
  std::array<std::byte, 64> pageable{};
  expectRule("capture", acl->memcpyAsync(memory, 64, pageable.data(), 64, kHostToDevice, stream));
  expectRule("capture", acl->launchHostFunc(stream, [](void *) {}, nullptr));
  isRefused();
  // Work of another stream has to be waited for.
  AclStream other = nullptr;
  AclEvent forked = nullptr, joined = nullptr;
  ASSERT_EQ(acl->createStream(&other, 0, 0), 0);
  ASSERT_EQ(acl->createEvent(&forked, kWaitedEvent | kTimedEvent), 0);
  ASSERT_EQ(acl->createEvent(&joined, kWaitedEvent | kTimedEvent), 0);
  for (bool joins : {false, true}) {
    begin();
    ASSERT_EQ(acl->recordEvent(forked, stream), 0);
    ASSERT_EQ(acl->streamWaitEvent(other, forked), 0);
    ASSERT_EQ(acl->memsetAsync(memory, 64, 0, 64, other), 0);
    if (joins) {
      ASSERT_EQ(acl->recordEvent(joined, other), 0);
      ASSERT_EQ(acl->streamWaitEvent(stream, joined), 0);
      AclModel model = nullptr;
      EXPECT_EQ(acl->captureEnd(stream, &model), 0) << text();
      EXPECT_EQ(acl->executeAsync(model, stream), 0) << text();
      EXPECT_EQ(acl->synchronizeStream(stream), 0) << text();
      EXPECT_EQ(acl->destroyModel(model), 0) << text();
    } else {
      isRefused();
    }
  }
  acl->destroyEvent(forked);
  acl->destroyEvent(joined);
  acl->destroyStream(other);
}

TEST_F(AscendRulesDeath, TheHostDoesNotReadMemoryOfTheDevice) { EXPECT_DEATH(std::memset(memory, 0, 1), ""); }

TEST_F(AscendRulesDeath, TheOldLibraryIsNotLoadedBesideTheNewOnes) {
  EXPECT_DEATH(dlopen(KERF_CANN_STANDINS "/libopapi.so", RTLD_NOW), "rule libraries");
}

TEST_F(AscendRulesDeath, IndicesAreInTheTable) {
  EXPECT_DEATH(
      {
        AclTensor *indices = tensor({.sizes = {2}, .dtype = DType::I64, .at = 4096});
        acl->memsetAsync(static_cast<std::byte *>(memory) + 4096, 16, 0x7f, 16, stream);
        prepare(op::Embedding,
                {Handle{tensor({{3, 4}})}, Handle{indices}, Handle{tensor({.sizes = {2, 4}, .at = 512})}});
        launch();
        acl->synchronizeStream(stream);
      },
      "rule index");
}

/// Two ranks as threads, each on its NPU with a stream, memory and a communicator of both.
class AscendHcclRules : public AscendRules {
protected:
  struct Rank {
    int number = 0;
    AclStream stream = nullptr, beside = nullptr;
    void *memory = nullptr;
    HcclCommunicator communicator = nullptr;
  };
  void SetUp() override {
    AscendRules::SetUp();
    auto loaded = loadHccl();
    ASSERT_TRUE(loaded) << loaded.error().message;
    hccl = *loaded;
  }
  void onTwoRanks(const std::function<void(Rank &)> &body) {
    HcclRootInfo root;
    ASSERT_EQ(hccl->getRootInfo(&root), 0) << text();
    auto run = [&](int number) {
      Rank rank{number};
      EXPECT_EQ(acl->setDevice(number), 0);
      EXPECT_EQ(acl->createStream(&rank.stream, 0, 0), 0);
      EXPECT_EQ(acl->createStream(&rank.beside, 0, 0), 0);
      EXPECT_EQ(acl->malloc(&rank.memory, kBytes, kHugePagesFirst), 0);
      EXPECT_EQ(hccl->commInitRootInfo(2, &root, uint32_t(number), &rank.communicator), 0) << text();
      body(rank);
      EXPECT_EQ(hccl->commDestroy(rank.communicator), 0);
      EXPECT_EQ(acl->free(rank.memory), 0);
      EXPECT_EQ(acl->destroyStream(rank.beside), 0);
      EXPECT_EQ(acl->destroyStream(rank.stream), 0);
      EXPECT_EQ(acl->resetDevice(number), 0) << text();
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    EXPECT_EQ(acl->setDevice(0), 0); // of TearDown
    EXPECT_EQ(acl->resetDevice(0), 0);
  }
  AclResult allReduce(const Rank &rank, uint64_t count, int type = 4, int combine = 0) const {
    return hccl->allReduce(rank.memory, rank.memory, count, type, combine, rank.communicator, rank.stream);
  }
  const Hccl *hccl = nullptr;
};
using AscendHcclRulesDeath = AscendHcclRules;

TEST_F(AscendHcclRules, ArgumentsAreThoseOfHccl) {
  onTwoRanks([this](Rank &rank) {
    constexpr int kDoubles = 10, kProduct = 1;
    expectRule("dtype", allReduce(rank, 4, kDoubles));
    expectRule("dtype", allReduce(rank, 4, 4, kProduct));
    expectRule("memory", allReduce(rank, kBytes));
    expectRule("peer", hccl->send(rank.memory, 4, 0, uint32_t(rank.number), rank.communicator, rank.stream));
    expectRule("peer", hccl->recv(rank.memory, 4, 0, 2, rank.communicator, rank.stream));
    expectRule("option", hccl->setConfig(1, {1}));
    acl->setDevice(1 - rank.number);
    expectRule("device", allReduce(rank, 4));
    acl->resetDevice(1 - rank.number);
    acl->setDevice(rank.number);
    acl->resetDevice(rank.number);
  });
}

TEST_F(AscendHcclRules, CallsOfACommunicatorRunOneAfterTheOther) {
  onTwoRanks([this](Rank &rank) {
    if (rank.number != 0)
      return;
    // A receive that never ends, and a send on another stream.
    ASSERT_EQ(hccl->recv(rank.memory, 4, 0, 1, rank.communicator, rank.stream), 0) << text();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_EQ(hccl->send(rank.memory, 4, 0, 1, rank.communicator, rank.beside), 0) << text();
    const AclResult result = acl->synchronizeStream(rank.beside);
    EXPECT_NE(result, 0);
    EXPECT_NE(text().find("rule order"), std::string::npos);
    EXPECT_EQ(acl->streamAbort(rank.stream), 0);
    acl->synchronizeStream(rank.stream);
  });
}

TEST_F(AscendHcclRulesDeath, RanksRunTheSameCollective) {
  EXPECT_DEATH(onTwoRanks([this](Rank &rank) {
                 allReduce(rank, rank.number == 0 ? 4 : 8);
                 acl->synchronizeStream(rank.stream);
               }),
               "rule order");
}

TEST_F(AscendHcclRulesDeath, AMessageIsReceivedAsItWasSent) {
  EXPECT_DEATH(onTwoRanks([this](Rank &rank) {
                 if (rank.number == 0)
                   hccl->send(rank.memory, 8, 0, 1, rank.communicator, rank.stream);
                 else
                   hccl->recv(rank.memory, 16, 0, 0, rank.communicator, rank.stream);
                 acl->synchronizeStream(rank.stream);
               }),
               "rule size");
}

} // namespace
} // namespace kerf::runtime::ascend
