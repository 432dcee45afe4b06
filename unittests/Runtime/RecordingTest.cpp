// SPDX-License-Identifier: Apache-2.0
// Tests of Device::record on every device of this build: a device either records nothing, or each launch of a recording
// does all of its work, in the order of the streams and events.
#include "TestPrograms.h"

#include <gtest/gtest.h>
#include <numeric>

namespace kerf::runtime::test {
namespace {

constexpr int64_t kElements = 1000, kBytes = kElements * int64_t(sizeof(float));

struct RecordingTest : testing::TestWithParam<const DeviceKind *> {
  std::string chosen = *resolveDevice(GetParam()->kind);
  std::unique_ptr<Device> device = std::move(*createDevice(chosen));
  std::unique_ptr<Stream> compute = std::move(*device->createStream(StreamKind::Compute)),
                          beside = std::move(*device->createStream(StreamKind::Auxiliary));
  std::unique_ptr<Event> forked = std::move(*device->createEvent()), joined = std::move(*device->createEvent());
  std::shared_ptr<std::byte> in = std::move(*device->allocateHost(kBytes)), a = std::move(*device->allocate(kBytes)),
                             b = std::move(*device->allocate(kBytes)), c = std::move(*device->allocate(kBytes));

  void SetUp() override {
    compute->reserve(100);
    beside->reserve(100);
    std::vector<float> zeros(kElements);
    for (auto &memory : {a, b, c})
      ASSERT_TRUE(device->copyIn(memory.get(), zeros.data(), kBytes));
  }
  /// Copies the host's numbers to a on the compute stream, a to b on the other stream, and b to c on the compute
  /// stream.
  Status copyThrough() {
    Status status = compute->copy(a.get(), in.get(), kBytes, CopyKind::ToDevice);
    status = status ? compute->record(*forked) : status;
    status = status ? beside->wait(*forked) : status;
    status = status ? beside->copy(b.get(), a.get(), kBytes, CopyKind::OnDevice) : status;
    status = status ? beside->record(*joined) : status;
    status = status ? compute->wait(*joined) : status;
    return status ? compute->copy(c.get(), b.get(), kBytes, CopyKind::OnDevice) : status;
  }
  std::vector<float> numbersFrom(float first) const {
    std::vector<float> numbers(kElements);
    std::iota(numbers.begin(), numbers.end(), first);
    std::copy(numbers.begin(), numbers.end(), reinterpret_cast<float *>(in.get()));
    return numbers;
  }
  std::vector<float> contentOf(const std::shared_ptr<std::byte> &memory) const {
    std::vector<float> numbers(kElements);
    EXPECT_TRUE(device->copyOut(numbers.data(), memory.get(), kBytes));
    return numbers;
  }
  /// Checks that the streams work instruction by instruction, from the number `first` on.
  void expectWorkingStreams(float first) {
    std::vector<float> numbers = numbersFrom(first);
    ASSERT_TRUE(copyThrough());
    ASSERT_TRUE(compute->synchronize());
    ASSERT_TRUE(beside->synchronize());
    EXPECT_EQ(contentOf(c), numbers);
  }
};

TEST_P(RecordingTest, EachLaunchDoesAllOfTheWork) {
  expectWorkingStreams(5);
  std::vector<float> before = contentOf(c);
  numbersFrom(7);
  bool isCalled = false;
  auto recorded = device->record(*compute, [&] { return isCalled = true, copyThrough(); });
  ASSERT_TRUE(recorded) << recorded.error().message;
  EXPECT_EQ(isCalled, *recorded != nullptr);
  ASSERT_TRUE(compute->synchronize());
  EXPECT_EQ(contentOf(c), before) << "recording did the work";
  if (!*recorded)
    return;
  for (float first : {20.0F, 30.0F, 40.0F}) {
    std::vector<float> numbers = numbersFrom(first);
    ASSERT_TRUE((*recorded)->launch(*compute));
    ASSERT_TRUE(compute->synchronize());
    EXPECT_EQ(contentOf(c), numbers);
  }
  expectWorkingStreams(50);
}

TEST_P(RecordingTest, WorkThatCannotBeRecordedIsRefusedAndTheStreamsWorkOn) {
  struct Refused {
    std::function<Status()> enqueue;
    const char *text, *ofNpu = text; // what the message has on a GPU and on an NPU
  };
  const Refused cases[] = {
      {[&] { return compute->synchronize(); }, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "107030"},
      {[&] {
         auto memory = device->allocate(64);
         return memory ? ok() : Status(memory.error());
       },
       "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "107030"},
      {[&] { // the compute stream does not wait for the copy
         Status status = compute->record(*forked);
         status = status ? beside->wait(*forked) : status;
         return status ? beside->copy(b.get(), a.get(), kBytes, CopyKind::OnDevice) : status;
       },
       "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "107024"},
      {[&] { return (void)copyThrough(), Status(Error{"a reason of its own"}); }, "a reason of its own"},
  };
  for (const Refused &refused : cases) {
    auto recorded = device->record(*compute, refused.enqueue);
    if (recorded) {
      EXPECT_EQ(*recorded, nullptr) << refused.text;
      continue;
    }
    const char *text = GetParam()->kind == "ascend" ? refused.ofNpu : refused.text;
    EXPECT_NE(recorded.error().message.find(text), std::string::npos) << recorded.error().message;
    expectWorkingStreams(60);
  }
}

std::string kindName(const testing::TestParamInfo<const DeviceKind *> &info) { return std::string(info.param->kind); }
INSTANTIATE_TEST_SUITE_P(Kinds, RecordingTest, testing::ValuesIn(deviceKinds().begin(), deviceKinds().end()), kindName);

TEST(Recording, AFaultInARecordedStepHasTheSameMessage) {
  constexpr int64_t kRanks = 3, kSteps = 6, kBadStep = 4, kBadRank = 1;
  if (std::string missing = missingDevices("cuda", kRanks); !missing.empty())
    GTEST_SKIP() << missing;
  auto program = classifier(kRanks, 3, 5, 7, DType::F32);
  TensorMap data = classifierData(kRanks, 3, 5, 7, kSteps, kBadStep, kBadRank);
  std::string expected;
  for (const char *device : {"cpu", "cuda"}) {
    RunOptions options;
    options.steps = kSteps;
    options.device = device;
    int64_t done = 0;
    options.onStep = [&](const StepResult &) { return ++done, ok(); };
    auto report = run(program, {}, data, options);
    ASSERT_FALSE(bool(report)) << device;
    EXPECT_GE(done, kBadStep - 1) << device; // the message may come before rank 0 has told the step before
    std::string message = report.error().message;
    EXPECT_NE(message.find("rank 1: "), std::string::npos) << message;
    EXPECT_TRUE(expected.empty() || message == expected) << message << " instead of " << expected;
    expected = message;
  }
}

TEST(Recording, TheFirstStepsAreMeasuredAndATraceMeasuresAll) {
  if (std::string missing = missingDevices("cuda", 2); !missing.empty())
    GTEST_SKIP() << missing;
  auto program = classifier(2, 3, 5, 7, DType::F32);
  for (bool traced : {false, true}) {
    RunOptions options;
    options.steps = 6;
    options.device = "cuda";
    options.executor.deterministic = true;
    if (traced)
      options.tracePath = testing::TempDir() + "kerf-recording-trace.json";
    auto report = run(program, {}, classifierData(2, 3, 5, 7, 6), options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->times.steps, 6);
    EXPECT_EQ(report->times.measuredSteps, traced ? 6 : 2);
    EXPECT_EQ(report->times.notRecorded, "");
    for (const CollectiveTime &time : report->times.collectives)
      EXPECT_EQ(time.calls, report->times.measuredSteps);
  }
}

/// Trains on batches that all differ, with evaluations after steps 1 and 3 and after the last one.
Result<RunReport> evaluatedRun(const char *device, int64_t ranks, const DataSet &data, const DataSet &heldOut) {
  RunOptions options;
  options.steps = 9;
  options.device = device;
  options.learningRate = [](int64_t) { return 0.5; };
  options.evaluation = {&heldOut, false, 2, 3};
  return run(classifier(ranks, 6 / ranks, 5, 7, DType::F32), {}, data, options);
}

TEST(Recording, BatchesThatAreCopiedAheadComeInOrder) {
  if (std::string missing = missingDevices("cuda", 2); !missing.empty())
    GTEST_SKIP() << missing;
  DataSet data = dataOf(classifierData(1, 6, 5, 7, 9)), heldOut = dataOf(classifierData(1, 6, 5, 7, 4));
  for (int64_t ranks : {1, 2}) {
    auto expected = evaluatedRun("cpu", ranks, data, heldOut), found = evaluatedRun("cuda", ranks, data, heldOut);
    ASSERT_TRUE(expected && found);
    EXPECT_EQ(found->times.measuredSteps, 2) << "the others are recorded";
    for (size_t step = 0; step < 9; ++step)
      EXPECT_NEAR(found->steps[step].loss, expected->steps[step].loss, 1e-5) << step;
    ASSERT_EQ(found->evaluations.size(), expected->evaluations.size());
    for (size_t i = 0; i < found->evaluations.size(); ++i)
      EXPECT_NEAR(found->evaluations[i].means[0].second, expected->evaluations[i].means[0].second, 1e-5) << i;
  }
}

TEST(Recording, AnErrorOfABatchThatIsReadAheadNamesItsOwnStep) {
  if (std::string missing = missingDevices("cuda", 1); !missing.empty())
    GTEST_SKIP() << missing;
  DataSet data = dataOf(classifierData(1, 6, 5, 7, 4));
  for (auto &[name, array] : data.arrays) { // rows 4 and 5 are in a file that is not there
    DataPiece gone;
    gone.firstRow = 4, gone.rows = 2;
    gone.file = testing::TempDir() + "kerf-no-such-file.npy";
    gone.stored.dtype = array.dtype;
    array.pieces.push_back(gone);
  }
  for (const char *device : {"cpu", "cuda"}) {
    RunOptions options;
    options.steps = 6;
    options.device = device;
    int64_t done = 0;
    options.onStep = [&](const StepResult &) { return ++done, ok(); };
    auto report = run(classifier(1, 6, 5, 7, DType::F32), {}, data, options);
    ASSERT_FALSE(bool(report)) << device;
    EXPECT_EQ(done, 4) << device;
    EXPECT_NE(report.error().message.find("step 4: "), std::string::npos) << report.error().message;
    EXPECT_NE(report.error().message.find("kerf-no-such-file.npy"), std::string::npos) << report.error().message;
  }
}

} // namespace
} // namespace kerf::runtime::test
