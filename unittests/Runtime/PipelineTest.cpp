// SPDX-License-Identifier: Apache-2.0
// Training steps with microbatches and pipeline stages have the same results as the same steps on one
// rank without them.
#include "TestPipelines.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

namespace kerf::runtime::test {
namespace {

struct Trained {
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> tensors; // parameters and states after the last step
  RunReport report;
};

RunOptions optionsFor(int64_t steps) {
  RunOptions options;
  options.steps = steps;
  options.learningRate = [](int64_t) { return 0.1; };
  return options;
}

Result<Trained> train(const package::Program &program, const PipelineCase &test, bool reuseMemory = true) {
  if (Status status = package::checkProgram(program); !status)
    return status.error();
  // The program goes through a file, as the runtime gets it.
  auto read = package::readProgram(package::writeProgram(program));
  if (!read)
    return read.error();
  RunOptions options = optionsFor(3);
  std::string path = "/tmp/kerf-pipeline-" + std::to_string(getpid()) + ".safetensors";
  options.savePath = path;
  options.saveStates = true;
  options.executor.reuseMemory = reuseMemory;
  auto report = run(*read, pipelineWeights(test), pipelineData(test, 2), options);
  if (!report)
    return report.error();
  Trained trained;
  for (const StepResult &step : report->steps)
    trained.losses.push_back(step.loss);
  auto saved = readTensors(path);
  if (!saved)
    return saved.error();
  for (const auto &[name, tensor] : *saved)
    trained.tensors[name] = valuesOf(tensor);
  trained.report = std::move(*report);
  std::filesystem::remove(path);
  return trained;
}

void expectNear(const Trained &got, const Trained &expected, double tolerance) {
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (size_t i = 0; i < got.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], expected.losses[i], tolerance) << "step " << i;
  ASSERT_EQ(got.tensors.size(), expected.tensors.size());
  for (const auto &[name, values] : expected.tensors) {
    auto found = got.tensors.find(name);
    ASSERT_NE(found, got.tensors.end()) << name;
    ASSERT_EQ(found->second.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(found->second[i], values[i], tolerance) << name << " " << i;
  }
}

bool sameBits(const Trained &a, const Trained &b) { return a.losses == b.losses && a.tensors == b.tensors; }

struct ScheduleRow {
  const char *name, *variant;
  int64_t chunks;
};
constexpr ScheduleRow kSchedules[] = {
    {"gpipe", "", 1}, {"1f1b", "", 1}, {"interleaved", "", 2}, {"zero-bubble", "h1", 1}, {"zero-bubble", "2p", 1}};

PipelineCase caseOf(const ScheduleRow &row, int64_t stages, int64_t microbatches, int64_t data) {
  PipelineCase test;
  test.schedule = {row.name, row.variant, row.chunks};
  test.stages = stages;
  test.microbatches = microbatches;
  test.data = data;
  test.parts = stages * row.chunks;
  test.rows = 2 * microbatches * data;
  return test;
}

TEST(Pipeline, TrainsAsThePlainStepDoes) {
  for (const ScheduleRow &row : kSchedules)
    for (int64_t stages = 1; stages <= 4; ++stages)
      for (int64_t microbatches : {1, 3, 4, 6})
        for (int64_t data : {1, 2}) {
          if (data == 2 && (stages == 3 || microbatches == 6))
            continue; // enough threads as it is
          PipelineCase test = caseOf(row, stages, microbatches, data);
          test.skip = stages % 2 == 0;
          test.tied = microbatches % 2 == 1;
          test.norm = data == 2 || microbatches == 4;
          test.firstAxis = (stages + microbatches) % 3;
          SCOPED_TRACE(toString(test));
          auto plain = train(plainProgram(test), test), pipelined = train(pipelineProgram(test), test);
          ASSERT_TRUE(plain) << plain.error().message;
          ASSERT_TRUE(pipelined) << pipelined.error().message;
          EXPECT_NE(plain->losses[0], plain->losses[2]);
          expectNear(*pipelined, *plain, 1e-12);
          EXPECT_EQ(pipelined->report.firstResults.count("loss"), 1u);
          EXPECT_EQ(pipelined->report.firstResults.count("norm"), test.norm ? 1u : 0u);
        }
}

TEST(Pipeline, OneMicrobatchOnOneRankIsThePlainStepBitForBit) {
  PipelineCase test = caseOf(kSchedules[1], 1, 1, 1);
  test.parts = 3;
  test.skip = test.tied = test.norm = true;
  auto plain = train(plainProgram(test), test), scheduled = train(pipelineProgram(test), test);
  ASSERT_TRUE(plain && scheduled) << (scheduled ? "" : scheduled.error().message);
  EXPECT_TRUE(sameBits(*plain, *scheduled));
}

TEST(Pipeline, SumsInAWiderType) {
  PipelineCase test = caseOf(kSchedules[1], 2, 4, 2);
  test.skip = test.tied = test.norm = true;
  test.sumType = DType::F64;
  auto plain = train(plainProgram(test), test);
  test.dtype = DType::F32;
  auto wide = train(pipelineProgram(test), test);
  test.dtype = DType::BF16;
  test.sumType = DType::F32;
  auto half = train(pipelineProgram(test), test);
  ASSERT_TRUE(plain && wide && half) << (half ? "" : half.error().message);
  expectNear(*wide, *plain, 1e-5);
  expectNear(*half, *plain, 0.05);
  // In bf16, 256 + 1 is 256. Seven microbatches of 1 after one of 256 therefore count only in a wider sum.
  for (DType sum : {DType::BF16, DType::F32}) {
    package::Program program;
    program.entry = "main";
    program.mesh.axes = {{"microbatch", 8}};
    program.schedule = package::ScheduleChoice{"1f1b", ""};
    FunctionBuilder main;
    main.function.name = "main";
    int x = main.arg(DType::BF16, {1}), total = main.op("accumulate", {x}, sum, {1});
    main.function.body[0].task = package::ProgramTask{package::Phase::Forward, 0, 0};
    int loss = main.op("reshape", {total}, sum, {});
    main.function.body[1].task = package::ProgramTask{package::Phase::Update, 0, 0};
    main.function.results = {loss};
    Sharding cut = Sharding::replicated(1);
    cut.dims[0] = {{{0, 1, 8}}, 1};
    program.functions = {main.function};
    program.args = {{package::ArgKind::Input, "x", DType::BF16, {8}, {8}, cut, -1, false}};
    program.results = {{"loss", Sharding::replicated(0), {}}};
    ASSERT_TRUE(package::checkProgram(program)) << package::checkProgram(program).error().message;
    auto report = run(withSteps(program), {}, {{"x", makeTensor({1, 8}, {256, 1, 1, 1, 1, 1, 1, 1})}}, optionsFor(1));
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->steps[0].loss, sum == DType::F32 ? 263 : 256);
  }
}

TEST(Pipeline, MicrobatchesOfAnInnerDimensionMayBePadded) {
  // Eleven columns, two in each of three microbatches on two ranks. The last piece has one column and padding, of which
  // exp is 1 and must not count.
  package::Program program;
  program.entry = "main";
  program.mesh.axes = {{"data", 2}, {"microbatch", 3}};
  program.schedule = package::ScheduleChoice{"1f1b", ""};
  FunctionBuilder main;
  main.function.name = "main";
  package::ProgramTask forward{package::Phase::Forward, 0, 0}, update{package::Phase::Update, 0, 0};
  int x = main.arg(DType::F64, {2, 2});
  int exponential = main.op("exponential", {x}, DType::F64, {2, 2});
  int masked = main.op("mask_padding", {exponential}, DType::F64, {2, 2},
                       {{"dim", 1}, {"axes", {0, 1, 2, 1, 1, 3}}, {"size", 11}, {"fill", "sum"}});
  int sum = main.op("reduce", {masked}, DType::F64, {}, {{"kind", "sum"}, {"dimensions", {0, 1}}});
  int total = main.op("accumulate", {sum}, DType::F64, {});
  for (package::Instruction &instruction : main.function.body)
    instruction.task = forward;
  main.function.results = {main.allReduce(total, {0, 1, 2})};
  for (size_t i = 4; i < main.function.body.size(); ++i)
    main.function.body[i].task = update;
  Sharding cut = Sharding::replicated(2);
  cut.dims[1] = {{{0, 1, 2}, {1, 1, 3}}, 2};
  program.functions = {main.function};
  program.args = {{package::ArgKind::Input, "x", DType::F64, {2, 11}, {22}, cut, -1, false}};
  program.results = {{"loss", Sharding::replicated(0), {}}};
  ASSERT_TRUE(package::checkProgram(program)) << package::checkProgram(program).error().message;
  std::vector<double> values;
  double expected = 0;
  for (int i = 0; i < 22; ++i) {
    values.push_back(std::sin(double(i)));
    expected += std::exp(values.back());
  }
  auto report = run(withSteps(program), {}, {{"x", makeTensor({1, 22}, values)}}, optionsFor(1));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_NEAR(report->steps[0].loss, expected, 1e-12);
}

TEST(Pipeline, SharingMemoryChangesNoBit) {
  for (const ScheduleRow &row : kSchedules) {
    PipelineCase test = caseOf(row, 3, 4, 1);
    test.skip = test.tied = test.norm = true;
    SCOPED_TRACE(toString(test));
    auto shared = train(pipelineProgram(test), test), apart = train(pipelineProgram(test), test, false);
    ASSERT_TRUE(shared && apart);
    EXPECT_TRUE(sameBits(*shared, *apart));
  }
}

/// A communicator that pauses at random before each message, so that other ranks get ahead.
class HesitantCommunicator : public Communicator {
public:
  HesitantCommunicator(Communicator &inner, uint32_t seed) : inner(inner), random(seed) {}
  int64_t rank() const override { return inner.rank(); }
  int64_t size() const override { return inner.size(); }
  void reserve(size_t messages) override { inner.reserve(messages); }
  Status startSend(std::span<const std::byte> bytes, int64_t to, int64_t tag) override {
    pause();
    return inner.startSend(bytes, to, tag);
  }
  Status finishSends(int64_t tag) override {
    pause();
    return inner.finishSends(tag);
  }
  Status receive(std::span<std::byte> bytes, int64_t from, int64_t tag) override {
    pause();
    return inner.receive(bytes, from, tag);
  }
  void abort(const Error &error) override { inner.abort(error); }
  std::optional<Error> failure() const override { return inner.failure(); }
  int64_t maxTag() const override { return inner.maxTag(); }

private:
  void pause() {
    std::unique_lock lock(mutex);
    uint32_t microseconds = random() % 4 ? 0 : random() % 300;
    lock.unlock();
    if (microseconds)
      std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
  }
  Communicator &inner;
  std::mutex mutex;
  std::mt19937 random;
};

std::vector<double> hesitantLosses(const package::Program &program, const PipelineCase &test, uint32_t seed) {
  auto communicators = createThreadCommunicators(package::ranksOf(program));
  std::vector<std::unique_ptr<HesitantCommunicator>> hesitant;
  for (auto &communicator : communicators)
    hesitant.push_back(std::make_unique<HesitantCommunicator>(*communicator, seed + uint32_t(hesitant.size())));
  std::vector<std::vector<double>> losses(hesitant.size());
  std::vector<std::thread> threads;
  TensorMap weights = pipelineWeights(test), data = pipelineData(test, 2);
  for (size_t r = 0; r < hesitant.size(); ++r)
    threads.emplace_back([&, r] {
      RunOptions options = optionsFor(3);
      options.communicator = hesitant[r].get();
      auto report = run(program, weights, data, options);
      ASSERT_TRUE(report) << report.error().message;
      for (const StepResult &step : report->steps)
        losses[r].push_back(step.loss);
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::vector<double> &other : losses)
    EXPECT_EQ(other, losses[0]); // every rank is told
  return losses[0];
}

TEST(Pipeline, BitsDoNotDependOnWhoIsAhead) {
  for (const ScheduleRow &row : kSchedules) {
    PipelineCase test = caseOf(row, 2, 5, 2);
    test.skip = test.tied = test.norm = true;
    test.dtype = test.sumType = DType::F32;
    SCOPED_TRACE(toString(test));
    package::Program program = pipelineProgram(test);
    auto first = hesitantLosses(program, test, 1);
    for (uint32_t seed : {100, 200})
      EXPECT_EQ(hesitantLosses(program, test, seed), first);
  }
}

/// Returns element e of an argument of the random programs, in a microbatch.
double contentOf(size_t arg, int64_t microbatch, int64_t e) {
  return 0.3 * double(e) - 0.2 * double(arg) + 0.1 * double(microbatch);
}

/// Computes the arguments of a random program after a step by definition: the preparation, then each microbatch in the
/// order of the body, then the update. A message between stages is the value itself.
std::vector<std::vector<double>> stepByDefinition(const package::Program &program) {
  const package::Function &entry = program.functions[0];
  int64_t microbatches = package::microbatchesOf(program);
  std::vector<std::vector<double>> values(entry.values.size(), std::vector<double>(3, 0.0));
  auto setArgs = [&](int64_t microbatch) {
    for (size_t a = 0; a < program.args.size(); ++a)
      for (size_t e = 0; e < 3; ++e)
        values[size_t(entry.args[a])][e] = contentOf(a, a == 0 ? microbatch : 0, int64_t(e));
  };
  auto runPhases = [&](auto runs) {
    for (const package::Instruction &instruction : entry.body)
      for (size_t e = 0; e < 3 && runs(instruction.task->phase); ++e) {
        double first = values[size_t(instruction.operands[0])][e];
        double &result = values[size_t(instruction.results[0])][e];
        if (instruction.op == "add")
          result = first + values[size_t(instruction.operands[1])][e];
        else
          result = instruction.op == "tanh"         ? std::tanh(first)
                   : instruction.op == "accumulate" ? result + first
                                                    : first;
      }
  };
  setArgs(0);
  runPhases([](package::Phase phase) { return phase == package::Phase::Prepare; });
  for (int64_t m = 0; m < microbatches; ++m) {
    setArgs(m);
    runPhases([](package::Phase phase) { return !package::isOncePerStep(phase); });
  }
  runPhases([](package::Phase phase) { return phase == package::Phase::Update; });
  std::vector<std::vector<double>> after;
  for (size_t a = 0; a < program.args.size(); ++a) {
    int result = program.args[a].updatedBy;
    after.push_back(values[size_t(result < 0 ? entry.args[a] : entry.results[size_t(result)])]);
  }
  return after;
}

TEST(Pipeline, RandomProgramsComputeWhatTheySay) {
  constexpr uint32_t kSeed = 13;
  std::mt19937 random(kSeed);
  for (int trial = 0; trial < 120; ++trial) {
    package::Program program = withSteps(randomPipeline(random));
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", trial " + std::to_string(trial));
    auto expected = stepByDefinition(program);
    for (auto [kind, reuseMemory] : {std::pair("cpu", true), {"cpu", false}, {"check", true}}) {
      if (kind != std::string("cpu") && trial % 3 != 0) // it is slow
        continue;
      std::string chosen = *resolveDevice(kind);
      SCOPED_TRACE(chosen);
      auto communicators = createThreadCommunicators(package::ranksOf(program));
      std::vector<std::unique_ptr<Device>> devices;
      std::vector<std::unique_ptr<Executor>> executors;
      std::vector<std::thread> threads;
      for (auto &communicator : communicators) {
        devices.push_back(std::move(*createDevice(chosen, {.rank = communicator->rank()})));
        auto executor = Executor::create(program, *devices.back(), *communicator, {reuseMemory});
        ASSERT_TRUE(executor) << executor.error().message;
        for (const ArgumentPiece &piece : (*executor)->arguments()) {
          double content[3];
          for (int64_t e = 0; e < 3; ++e)
            content[e] = contentOf(piece.arg, piece.microbatch, e);
          ASSERT_TRUE(devices.back()->copyIn(piece.tensor.data, content, sizeof(content)));
        }
        executors.push_back(std::move(*executor));
      }
      for (auto &executor : executors)
        threads.emplace_back([&] { EXPECT_TRUE(executor->step()); });
      for (std::thread &thread : threads)
        thread.join();
      for (size_t r = 0; r < executors.size(); ++r)
        for (const ArgumentPiece &piece : executors[r]->arguments()) {
          double content[3];
          ASSERT_TRUE(devices[r]->copyOut(content, piece.tensor.data, sizeof(content)));
          for (size_t e = 0; e < 3 && piece.arg > 0; ++e)
            EXPECT_NEAR(content[e], expected[piece.arg][e], 1e-12);
        }
    }
  }
}

TEST(Pipeline, MemoryIsPlannedByStage) {
  auto memoryOf = [](const PipelineCase &test) {
    auto program = pipelineProgram(test);
    auto trained = train(program, test);
    EXPECT_TRUE(trained) << trained.error().message;
    const std::vector<MemoryReport> &measured = trained->report.stageMemory;
    EXPECT_EQ(int64_t(measured.size()), test.stages);
    for (int64_t s = 0; s < test.stages; ++s) {
      auto planned = planMemory(program, s);
      EXPECT_TRUE(planned);
      EXPECT_EQ(planned->arenaBytes, measured[size_t(s)].arenaBytes);
      EXPECT_EQ(planned->persistentBytes, measured[size_t(s)].persistentBytes);
      EXPECT_EQ(planned->peakLiveBytes, measured[size_t(s)].peakLiveBytes);
      EXPECT_EQ(planned->totalBytes(), measured[size_t(s)].totalBytes());
      EXPECT_GE(planned->arenaBytes, planned->peakLiveBytes);
      EXPECT_LE(double(planned->arenaBytes), 1.1 * double(planned->peakLiveBytes));
    }
    return measured;
  };
  PipelineCase test = caseOf(kSchedules[1], 3, 4, 1);
  auto few = memoryOf(test);
  test.microbatches = 12, test.rows = 24;
  auto many = memoryOf(test);
  test.schedule->name = "gpipe";
  auto gpipe = memoryOf(test);
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(few[s].peakLiveBytes, many[s].peakLiveBytes) << s; // 1F1B: as many microbatches as stages
    EXPECT_GT(gpipe[s].peakLiveBytes, many[s].peakLiveBytes) << s;
    EXPECT_EQ(few[s].parametersBytes, kPipelineWidth * kPipelineWidth * 8) << s; // its own layer's alone
  }
  EXPECT_EQ(many[0].inputsBytes, 24 * kPipelineWidth * 8 + 8); // the batch and the learning rate
  EXPECT_EQ(many[1].inputsBytes, 8);
  auto wrong = planMemory(pipelineProgram(test), 3);
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("has no stage 3; give 0 to 2"), std::string::npos);
}

/// Returns the list of steps with the products that are added to sums as two instructions, as it is without the pass
/// add-in-products.
package::Program withoutAdds(package::Program program) {
  for (package::StepList &list : program.steps) {
    package::StepList before = std::move(list);
    list.clear();
    for (const package::StepEntry &entry : before) {
      if (entry.kind != package::StepEntry::Kind::Add) {
        list.push_back(entry);
        continue;
      }
      package::appendRun(list, entry.first, entry.microbatch);
      package::appendRun(list, entry.last, entry.microbatch);
    }
  }
  EXPECT_TRUE(package::checkProgram(program)) << package::checkProgram(program).error().message;
  return program;
}

TEST(Pipeline, AddingInProductsChangesNoBit) {
  for (const ScheduleRow &row : kSchedules)
    for (DType type : {DType::F64, DType::F32}) {
      PipelineCase test = caseOf(row, 2, 4, 1);
      test.skip = test.tied = test.norm = true;
      test.dtype = test.sumType = type;
      SCOPED_TRACE(toString(test));
      package::Program merged = pipelineProgram(test), apart = withoutAdds(merged);
      ASSERT_FALSE(merged.steps == apart.steps);
      auto one = train(merged, test), two = train(apart, test);
      ASSERT_TRUE(one && two) << (one ? two : one).error().message;
      EXPECT_TRUE(sameBits(*one, *two));
    }
}

TEST(Pipeline, AGradientThatIsAddedInItsProductNeedsNoMemory) {
  // Layers of 2,000 x 2,000 and little else. From the second microbatch on, the sums and one gradient are alive where
  // the gradient is computed. Adding in the product leaves the sums and the kernel's scratch memory.
  constexpr int64_t kWide = 2000;
  PipelineCase test = caseOf(kSchedules[1], 1, 4, 1);
  test.rows = 4;
  package::Program merged = pipelineProgram(test);
  for (package::Value &value : merged.functions[0].values)
    std::replace(value.shape.begin(), value.shape.end(), kPipelineWidth, kWide);
  for (package::Arg &arg : merged.args) {
    std::replace(arg.shape.begin(), arg.shape.end(), kPipelineWidth, kWide);
    arg.exportedShape = arg.shape;
  }
  for (package::EntryResult &result : merged.results)
    std::replace(result.shape.begin(), result.shape.end(), kPipelineWidth, kWide);
  auto small = planMemory(merged), large = planMemory(withoutAdds(merged));
  ASSERT_TRUE(small && large);
  constexpr int64_t kGradient = kWide * kWide * 8, kScratch = 8 << 20; // the scratch memory of a kernel is below 8 MiB
  EXPECT_LE(small->arenaBytes, large->arenaBytes - kGradient + kScratch);
  EXPECT_GE(small->arenaBytes, 2 * kGradient);
}

TEST(Pipeline, ConstantsAreKeptOnce) {
  PipelineCase test = caseOf(kSchedules[1], 1, 2, 1);
  auto few = planMemory(pipelineProgram(test));
  test.microbatches = 8, test.rows = 16;
  auto many = planMemory(pipelineProgram(test));
  ASSERT_TRUE(few && many);
  int64_t piece = (2 * kPipelineWidth * 8 + 63) / 64 * 64; // of the batch
  EXPECT_EQ(many->persistentBytes - few->persistentBytes, 6 * piece);
}

TEST(Pipeline, TimesAreSumsOverMicrobatches) {
  PipelineCase test = caseOf(kSchedules[1], 2, 4, 2);
  auto trained = train(pipelineProgram(test), test);
  ASSERT_TRUE(trained);
  int sends = 0, receives = 0, reduces = 0;
  for (const CollectiveTime &time : trained->report.times.collectives) {
    sends += time.op == "send";
    receives += time.op == "receive";
    reduces += time.op == "all_reduce";
    if (time.op == "receive") {
      EXPECT_EQ(time.calls, 3 * 4); // steps x microbatches
      EXPECT_EQ(time.bytes, 2 * kPipelineWidth * 8);
    }
  }
  EXPECT_EQ(sends, 1);    // the activations
  EXPECT_EQ(receives, 1); // their gradient
  EXPECT_EQ(reduces, 1);  // of the layer's gradient: the loss is on the other stage
  for (const KernelTime &time : trained->report.times.kernels) {
    if (time.op == "tanh") {
      EXPECT_EQ(time.calls, 3 * 4);
    }
  }
}

TEST(Pipeline, WritesTheLastStepAsATimeline) {
  PipelineCase test = caseOf(kSchedules[1], 2, 3, 2);
  package::Program program = pipelineProgram(test);
  RunOptions options = optionsFor(2);
  options.tracePath = "/tmp/kerf-trace-" + std::to_string(getpid()) + ".json";
  auto report = run(program, pipelineWeights(test), pipelineData(test, 2), options);
  ASSERT_TRUE(report) << report.error().message;
  auto trace = nlohmann::json::parse(*readFile(options.tracePath));
  std::filesystem::remove(options.tracePath);
  std::map<int64_t, std::string> processes;
  std::map<std::pair<int64_t, std::string>, std::vector<int64_t>> microbatches; // of rank and op
  std::map<int64_t, double> last;                                               // end, of each rank's kernels
  double least = 1e9;
  for (const auto &event : trace["traceEvents"]) {
    int64_t rank = event["pid"];
    if (event["ph"] == "M") {
      if (event["name"] == "process_name")
        processes[rank] = event["args"]["name"];
      continue;
    }
    microbatches[{rank, event["args"]["op"]}].push_back(event["args"]["microbatch"]);
    least = std::min<double>(least, event["ts"]);
    EXPECT_GE(event["dur"], 0);
    if (event["tid"] == 0) { // one after the other
      EXPECT_GE(event["ts"].get<double>(), last[rank] - 0.01);
      last[rank] = event["ts"].get<double>() + event["dur"].get<double>();
    }
  }
  EXPECT_EQ(least, 0);
  EXPECT_EQ(processes.size(), 4u);
  EXPECT_EQ(processes[1], "rank 1 of stage 0");
  EXPECT_EQ(processes[3], "rank 3 of stage 1");
  for (int64_t rank = 0; rank < 4; ++rank) {
    for (const char *op : {"send", "receive", "tanh"})
      EXPECT_EQ((microbatches[{rank, op}]), (std::vector<int64_t>{0, 1, 2})) << rank << " " << op;
    // One instruction in each microbatch's backward pass, and one in the update.
    EXPECT_EQ((microbatches[{rank, "subtract"}]), (std::vector<int64_t>{0, 1, 2, 0}));
    EXPECT_EQ((microbatches[{rank, "all_reduce"}].size()), rank < 2 ? 1u : 2u); // the gradient; the loss too
  }
}

TEST(Pipeline, AStageThatFailsEndsAll) {
  PipelineCase test = caseOf(kSchedules[1], 3, 4, 1);
  package::Program program = pipelineProgram(test);
  package::Function &main = program.functions[0];
  // An index is out of range in the third microbatch, which the last stage finds.
  int labels = int(main.values.size());
  main.values.push_back({DType::I64, {2}});
  main.values.push_back({DType::F64, {2, kPipelineWidth}});
  main.args.push_back(labels);
  Sharding cut = Sharding::replicated(1);
  cut.dims[0] = {{{2, 1, 4}}, 2};
  program.args.push_back({package::ArgKind::Input, "labels", DType::I64, {8}, {8}, cut, -1, false});
  auto last = std::find_if(main.body.begin(), main.body.end(), [](const package::Instruction &instruction) {
    return instruction.op == "tanh" && instruction.task->stage == 2;
  });
  // args[6]: the last layer's weight
  package::Instruction lookup{"embedding", {main.args[6], labels}, {labels + 1}, {{"rows", kPipelineWidth}}, "lookup",
                              last->task};
  main.body.insert(last, lookup);
  program = withSteps(std::move(program));
  Status status = package::checkProgram(program);
  ASSERT_TRUE(status) << status.error().message;
  TensorMap data = pipelineData(test, 1);
  auto [tensor, bytes] = allocateTensor(DType::I64, {1, 8});
  reinterpret_cast<int64_t *>(bytes)[4] = 77;
  data.emplace("labels", tensor);
  auto report = run(program, pipelineWeights(test), data, optionsFor(2));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().message.find("rank 2: lookup (embedding): "), 0u) << report.error().message;
  EXPECT_NE(report.error().message.find("77"), std::string::npos) << report.error().message;
}

} // namespace
} // namespace kerf::runtime::test
