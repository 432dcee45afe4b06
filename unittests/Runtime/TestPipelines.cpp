// SPDX-License-Identifier: Apache-2.0
#include "TestPipelines.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace kerf::runtime::test {

using Json = nlohmann::ordered_json;
using package::ArgKind;
using package::Phase;
using package::ProgramTask;

namespace {

/// Builds the step. Without a schedule, everything is on one stage, and a message between stages or a sum over
/// microbatches is the value itself.
class PipelineBuilder {
public:
  explicit PipelineBuilder(const PipelineCase &test)
      : test(test), rows(test.rows / (test.data * test.microbatches)), batch{rows, kPipelineWidth},
        weight{kPipelineWidth, kPipelineWidth} {}

  package::Program build() {
    program.entry = main.function.name = "main";
    program.schedule = test.schedule;
    program.mesh.axes = {{"data", test.data}};
    if (test.schedule)
      program.mesh.axes = {{"stage", test.stages}, {"data", test.data}, {"microbatch", test.microbatches}};
    if (test.schedule)
      std::rotate(program.mesh.axes.begin(), program.mesh.axes.begin() + test.firstAxis, program.mesh.axes.end());
    dataAxis = program.mesh.find("data");
    addArgs();
    forward();
    backward();
    update();
    program.functions = {main.function};
    return std::move(program);
  }

private:
  int64_t stageOf(int64_t part) const { return part % test.stages; }
  ProgramTask task(Phase phase, int64_t part) const {
    bool split = test.schedule && test.schedule->name == "zero-bubble";
    if (!split && (phase == Phase::InputGradient || phase == Phase::WeightGradient))
      phase = Phase::Backward;
    return {phase, stageOf(part), package::isOncePerStep(phase) || test.stages == 1 ? 0 : part / test.stages};
  }

  int op(const ProgramTask &task, const std::string &name, std::vector<int> operands, Shape shape,
         Json attrs = Json::object()) {
    int result = main.op(name, std::move(operands), test.dtype, std::move(shape), std::move(attrs));
    mark(task);
    return result;
  }
  void mark(const ProgramTask &task) {
    if (test.schedule)
      main.function.body.back().task = task;
  }
  int dot(const ProgramTask &task, int a, int b, Shape shape, int64_t contractA, int64_t contractB) {
    return op(task, "dot_general", {a, b}, std::move(shape),
              {{"lhs_batching", Json::array()},
               {"rhs_batching", Json::array()},
               {"lhs_contracting", {contractA}},
               {"rhs_contracting", {contractB}}});
  }
  int sumOf(const ProgramTask &task, int value) {
    return op(task, "reduce", {value}, {}, {{"kind", "sum"}, {"dimensions", {0, 1}}});
  }
  int constant(const ProgramTask &task, double value) { return op(task, "constant", {}, {}, {{"value", {value}}}); }

  int transfer(const ProgramTask &task, int value, int64_t toPart) {
    if (task.stage == stageOf(toPart))
      return value;
    const package::Value type = main.function.values[size_t(value)];
    int result = main.op("transfer", {value}, type.dtype, type.shape, {{"from", task.stage}, {"to", stageOf(toPart)}});
    mark(task);
    return result;
  }
  int accumulate(const ProgramTask &task, int value) {
    if (!test.schedule)
      return value;
    int result = main.op("accumulate", {value}, test.sumType, main.function.values[size_t(value)].shape);
    mark(task);
    return narrowed(value, result, task.stage);
  }
  /// Returns the sum over microbatches in the update, converted to the type of its summands.
  int narrowed(int value, int sum, int64_t stage) {
    if (test.sumType == test.dtype)
      return sum;
    return op({Phase::Update, stage, 0}, "convert", {sum}, main.function.values[size_t(value)].shape);
  }
  int overData(const ProgramTask &task, int value) {
    if (test.data == 1)
      return value;
    int result = main.allReduce(value, {dataAxis, 1, test.data});
    if (test.schedule)
      main.function.body[main.function.body.size() - 2].task = main.function.body.back().task = task;
    return result;
  }

  void addArgs() {
    Sharding cut = Sharding::replicated(2), whole = Sharding::replicated(2), scalar = Sharding::replicated(0);
    if (test.data > 1)
      cut.dims[0].axes.push_back({dataAxis, 1, test.data});
    if (test.microbatches > 1)
      cut.dims[0].axes.push_back({program.mesh.find("microbatch"), 1, test.microbatches});
    if (!cut.dims[0].axes.empty())
      cut.dims[0].chunk = rows;
    x = main.arg(test.dtype, batch);
    rate = main.arg(test.dtype, {});
    Shape all = {test.rows, kPipelineWidth};
    program.args = {{ArgKind::Input, "x", test.dtype, all, all, cut, -1, false},
                    {ArgKind::LearningRate, "learning_rate", test.dtype, {}, {}, scalar, -1, false}};
    for (int64_t p = 0; p < test.parts; ++p) {
      int64_t home = test.schedule ? stageOf(p) : -1;
      weights.push_back(main.arg(test.dtype, weight));
      velocities.push_back(main.arg(test.dtype, weight));
      std::string name = "layer." + std::to_string(p);
      int result = int(1 + 2 * p);
      program.args.push_back({ArgKind::Parameter, name, test.dtype, weight, weight, whole, result, true, home});
      program.args.push_back(
          {ArgKind::State, "velocity/" + name, test.dtype, weight, weight, whole, result + 1, false, home});
    }
  }

  void forward() {
    int64_t last = test.parts - 1;
    int h = x;
    for (int64_t p = 0; p <= last; ++p) {
      inputs.push_back(p == 0 ? x : transfer(task(Phase::Forward, p - 1), h, p));
      ProgramTask here = task(Phase::Forward, p);
      h = op(here, "tanh", {dot(here, inputs.back(), weights[size_t(p)], batch, 1, 0)}, batch);
      outputs.push_back(h);
    }
    ProgramTask here = task(Phase::Forward, last);
    if (test.skip)
      h = op(here, "add", {h, transfer(task(Phase::Forward, 0), outputs[0], last)}, batch);
    top = h;
    if (test.tied) {
      tiedWeight = transfer(task(Phase::Prepare, 0), weights[0], last);
      h = dot(here, h, tiedWeight, batch, 1, 0);
    }
    out = h;
    int total = sumOf(here, op(here, "multiply", {out, out}, batch));
    int scaled = op(here, "multiply", {total, constant(here, 1.0 / double(test.rows))}, {});
    loss = overData(task(Phase::Update, last), accumulate(here, scaled));
  }

  void backward() {
    int64_t last = test.parts - 1;
    ProgramTask here = task(Phase::InputGradient, last);
    int scale = op(here, "broadcast_in_dim", {constant(here, 2.0 / double(test.rows))}, batch,
                   {{"broadcast_dimensions", Json::array()}});
    int dh = op(here, "multiply", {out, scale}, batch);
    if (test.tied) {
      ProgramTask late = task(Phase::WeightGradient, last);
      tiedSum = accumulate(late, dot(late, top, dh, weight, 0, 0));
      dh = dot(here, dh, tiedWeight, batch, 1, 1);
    }
    int skipped = test.skip ? transfer(here, dh, 0) : -1;
    sums.assign(size_t(test.parts), -1);
    for (int64_t p = last; p >= 0; --p) {
      here = task(Phase::InputGradient, p);
      if (p == 0 && test.skip)
        dh = op(here, "add", {dh, skipped}, batch);
      int square = op(here, "multiply", {outputs[size_t(p)], outputs[size_t(p)]}, batch);
      int inner = op(here, "subtract", {dh, op(here, "multiply", {dh, square}, batch)}, batch);
      if (p > 0)
        dh = transfer(here, dot(here, inner, weights[size_t(p)], batch, 1, 1), p - 1);
      ProgramTask late = task(Phase::WeightGradient, p);
      sums[size_t(p)] = accumulate(late, dot(late, inputs[size_t(p)], inner, weight, 0, 0));
    }
  }

  void update() {
    int64_t last = test.parts - 1;
    ProgramTask first = task(Phase::Update, 0);
    for (int64_t p = 0; p <= last; ++p)
      sums[size_t(p)] = overData(task(Phase::Update, p), sums[size_t(p)]);
    if (test.tied) {
      ProgramTask there = task(Phase::Update, last);
      sums[0] = op(first, "add", {sums[0], transfer(there, overData(there, tiedSum), 0)}, weight);
    }
    int norm = -1;
    for (int64_t p = 0; test.norm && p <= last; ++p) {
      ProgramTask here = task(Phase::Update, p);
      int square = transfer(here, sumOf(here, op(here, "multiply", {sums[size_t(p)], sums[size_t(p)]}, weight)), 0);
      norm = norm < 0 ? square : op(first, "add", {norm, square}, {});
    }
    main.function.results = {loss};
    program.results = {{"loss", Sharding::replicated(0), {}, test.schedule ? stageOf(last) : -1}};
    std::map<int64_t, int> normOn;
    for (int64_t p = 0; p <= last; ++p) {
      ProgramTask here = task(Phase::Update, p);
      int rateHere = rate;
      if (test.norm) {
        if (!normOn.count(here.stage))
          normOn[here.stage] = transfer(first, norm, p);
        int divisor = op(here, "add", {normOn[here.stage], constant(here, 1)}, {});
        rateHere = op(here, "divide", {rate, divisor}, {});
      }
      auto [w, v] = main.sgd(weights[size_t(p)], velocities[size_t(p)], sums[size_t(p)], rateHere,
                             test.schedule ? std::optional(here) : std::nullopt);
      main.function.results.insert(main.function.results.end(), {w, v});
      for (const package::Arg *arg : {&program.args[size_t(2 + 2 * p)], &program.args[size_t(3 + 2 * p)]})
        program.results.push_back({arg->name, arg->sharding, weight, arg->stage});
    }
    if (test.norm) {
      main.function.results.push_back(norm);
      program.results.push_back({"norm", Sharding::replicated(0), {}, test.schedule ? 0 : -1});
    }
  }

  const PipelineCase &test;
  int64_t rows; // of one microbatch on one rank
  Shape batch, weight;
  package::Program program;
  FunctionBuilder main;
  int dataAxis = 0;
  int x = -1, rate = -1, top = -1, out = -1, loss = -1, tiedWeight = -1, tiedSum = -1;
  std::vector<int> weights, velocities, inputs, outputs, sums;
};
} // namespace

package::Program pipelineProgram(const PipelineCase &test) { return withSteps(PipelineBuilder(test).build()); }

package::Program plainProgram(PipelineCase test) {
  test.stages = test.data = test.microbatches = 1;
  test.schedule = std::nullopt;
  test.sumType = test.dtype;
  return pipelineProgram(test);
}

TensorMap pipelineWeights(const PipelineCase &test) {
  TensorMap weights;
  for (int64_t p = 0; p < test.parts; ++p) {
    std::vector<double> values;
    for (int64_t i = 0; i < kPipelineWidth * kPipelineWidth; ++i)
      values.push_back(0.6 * std::sin(double(i + 31 * p)));
    weights.emplace("layer." + std::to_string(p), makeTensor({kPipelineWidth, kPipelineWidth}, values, test.dtype));
  }
  return weights;
}

TensorMap pipelineData(const PipelineCase &test, int64_t steps) {
  std::vector<double> values;
  for (int64_t i = 0; i < steps * test.rows * kPipelineWidth; ++i)
    values.push_back(std::cos(double(i) * 0.7));
  return {{"x", makeTensor({steps, test.rows, kPipelineWidth}, values, test.dtype)}};
}

std::string toString(const PipelineCase &test) {
  std::string name = test.schedule ? test.schedule->name + " " + test.schedule->variant : "plain";
  return name + ", " + std::to_string(test.parts) + " parts, " + std::to_string(test.stages) + " stages, " +
         std::to_string(test.microbatches) + " microbatches, data " + std::to_string(test.data) +
         (test.skip ? ", skip" : "") + (test.tied ? ", tied" : "") + (test.norm ? ", norm" : "");
}

namespace {
/// A value of the entry function, and the task that computes it.
struct Made {
  int value = -1;
  ProgramTask task;
  int64_t stage = 0;
};
} // namespace

package::Program randomPipeline(std::mt19937 &random) {
  auto below = [&](int64_t n) { return int64_t(random() % uint32_t(n)); };
  package::Program program;
  int64_t stages = 1 + below(4), microbatches = 1 + below(7);
  switch (below(4)) {
  case 0:
    program.schedule = {"gpipe", "", 1};
    break;
  case 1:
    program.schedule = {"1f1b", "", 1};
    break;
  case 2:
    program.schedule = {"interleaved", "", 1 + below(3)};
    break;
  default:
    program.schedule = {"zero-bubble", std::vector<std::string>{"h1", "1p", "2p", "by-memory"}[size_t(below(4))], 1};
    break;
  }
  // An axis of size 1 may be left out.
  if (stages > 1 || below(2))
    program.mesh.axes.push_back({"stage", stages});
  if (microbatches > 1 || program.mesh.axes.empty() || below(2))
    program.mesh.axes.push_back({"microbatch", microbatches});
  bool split = program.schedule->name == "zero-bubble";
  int64_t parts = stages * program.schedule->chunks;
  FunctionBuilder main;
  program.entry = main.function.name = "main";
  std::vector<Made> made;
  auto emit = [&](const std::string &op, std::vector<int> operands, const ProgramTask &task,
                  Json attrs = Json::object()) {
    int value = main.op(op, std::move(operands), DType::F64, {3}, std::move(attrs));
    main.function.body.back().task = task;
    return value;
  };
  auto order = [&](const ProgramTask &task) { return task.chunk * stages + task.stage; };
  // The rules by which one task may use another task's values are those of docs/package.md.
  auto mayUse = [&](const ProgramTask &first, const ProgramTask &then) {
    if (first.phase == Phase::Prepare)
      return true;
    if (first.phase == Phase::Update || then.phase == Phase::Update || then.phase == Phase::Prepare)
      return first.phase == Phase::Update && then.phase == Phase::Update;
    if (first.phase == Phase::Forward)
      return then.phase != Phase::Forward || order(first) <= order(then);
    if (then.phase == Phase::Forward)
      return false;
    if (first.phase == Phase::WeightGradient)
      return then.phase == Phase::WeightGradient && order(first) == order(then);
    return order(first) >= order(then);
  };
  std::vector<ProgramTask> tasks;
  for (int64_t s = 0; s < stages; ++s)
    tasks.push_back({Phase::Prepare, s, 0});
  for (int64_t p = 0; p < parts; ++p)
    tasks.push_back({Phase::Forward, p % stages, p / stages});
  for (int64_t p = parts; p-- > 0;) {
    tasks.push_back({split ? Phase::InputGradient : Phase::Backward, p % stages, p / stages});
    if (split)
      tasks.push_back({Phase::WeightGradient, p % stages, p / stages});
  }
  for (int64_t i = 0; i < 2 * stages; ++i)
    tasks.push_back({Phase::Update, below(stages), 0});
  int x = main.arg(DType::F64, {3});
  Sharding cut = Sharding::replicated(1);
  if (microbatches > 1)
    cut.dims[0] = {{wholeAxis(program.mesh, program.mesh.find("microbatch"))}, 3};
  program.args.push_back({ArgKind::Input, "x", DType::F64, {3 * microbatches}, {3 * microbatches}, cut, -1, false});
  for (int64_t s = 0; s < stages; ++s) { // an argument for each stage
    int arg = main.arg(DType::F64, {3});
    made.push_back({arg, {Phase::Prepare, s, 0}, s});
    program.args.push_back(
        {ArgKind::State, "arg" + std::to_string(s), DType::F64, {3}, {3}, Sharding::replicated(1), -1, false, s});
  }
  std::map<int64_t, int> lastOnStage; // of update
  for (const ProgramTask &task : tasks) {
    int value = made[size_t(task.stage)].value;
    value = emit("tanh", {value}, task);
    if (!package::isOncePerStep(task.phase) && below(2))
      value = emit("add", {value, x}, task);
    // Operands are some earlier values, of this stage or another one.
    for (int64_t tries = 1 + below(3); tries > 0; --tries) {
      const Made from = made[size_t(below(int64_t(made.size())))];
      bool arrived = from.stage != from.task.stage; // sent once is enough
      if (!mayUse(from.task, task) || (arrived && from.stage != task.stage))
        continue;
      int operand = from.value;
      if (from.stage != task.stage)
        operand = emit("transfer", {operand}, {from.task.phase, from.stage, from.task.chunk},
                       {{"from", from.stage}, {"to", task.stage}});
      value = emit("add", {value, operand}, task);
      if (from.stage != task.stage && below(2)) // perhaps used by later tasks too
        made.push_back({operand, from.task, task.stage});
    }
    if (!package::isOncePerStep(task.phase) && below(2)) {
      int sum = emit("accumulate", {value}, task);
      made.push_back({sum, {Phase::Update, task.stage, 0}, task.stage});
    }
    made.push_back({value, task, task.stage});
    if (task.phase == Phase::Update)
      lastOnStage[task.stage] = value;
  }
  for (auto [stage, value] : lastOnStage) {
    program.args[size_t(1 + stage)].updatedBy = int(program.results.size());
    main.function.results.push_back(value);
    program.results.push_back({"arg" + std::to_string(stage), Sharding::replicated(1), {3}, stage});
  }
  program.functions = {main.function};
  return program;
}

} // namespace kerf::runtime::test
