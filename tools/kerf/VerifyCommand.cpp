// SPDX-License-Identifier: Apache-2.0
// kerf verify: the plan's programs are checked at full size, and run at a small one against a single rank.
#include "Options.h"

#include "kerf/Compiler/Shrink.h"
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <cmath>
#include <filesystem>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <limits>
#include <random>
#include <set>
#include <unistd.h>

namespace kerf::tool {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kSteps = 3;
constexpr double kAgree = 1e-9; // of a float64 tensor's largest element: what rounding leaves

/// A folder of this run, gone with it.
struct Scratch {
  std::filesystem::path path;
  Scratch() {
    static int made = 0;
    path = std::filesystem::temp_directory_path() / fmt::format("kerf-verify-{}-{}", getpid(), ++made);
    std::filesystem::create_directories(path);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string file(const char *name) const { return (path / name).string(); }
};

int64_t layersOf(mlir::ModuleOp module) {
  auto main = module.lookupSymbol<mlir::func::FuncOp>(ir::KerfDialect::kEntryName);
  std::set<std::string> layers; // pieces of one have its name
  for (auto call : main.getOps<ir::CallOp>())
    if (!call->hasAttr(ir::KerfDialect::kBackwardAttr))
      layers.insert(ir::nodeName(call.getLoc()));
  return static_cast<int64_t>(layers.size());
}

/// Integers below this are rows of every table and classes of every loss.
int64_t indicesBelow(mlir::ModuleOp module) {
  int64_t below = std::numeric_limits<int64_t>::max();
  module.walk([&](ir::EmbeddingOp op) { below = std::min(below, ir::shapeOf(op.getTable()).front()); });
  module.walk([&](ir::CrossEntropyOp op) { below = std::min(below, ir::shapeOf(op.getLogits()).back()); });
  return below == std::numeric_limits<int64_t>::max() ? 2 : below;
}

/// `steps` random batches for the program's inputs.
TensorMap randomData(const package::Program &program, int64_t below) {
  std::mt19937_64 random(0);
  TensorMap data;
  for (const package::Arg &arg : program.args) {
    if (arg.kind != package::ArgKind::Input)
      continue;
    Shape shape = arg.exportedShape;
    shape.insert(shape.begin(), kSteps);
    bool floating = arg.dtype == DType::F64 || arg.dtype == DType::F32;
    auto [tensor, bytes] = allocateTensor(floating ? DType::F64 : arg.dtype, shape);
    for (int64_t i = 0; i < elementsOf(shape); ++i) {
      if (floating)
        reinterpret_cast<double *>(bytes)[i] = double(random() >> 11) * 0x1p-52 - 1;
      else if (arg.dtype == DType::I64)
        reinterpret_cast<int64_t *>(bytes)[i] = int64_t(random() % uint64_t(below));
      else if (arg.dtype == DType::I32)
        reinterpret_cast<int32_t *>(bytes)[i] = int32_t(random() % uint64_t(below));
      else if (arg.dtype == DType::Bool)
        bytes[i] = std::byte(1);
    }
    data.emplace(arg.name, std::move(tensor));
  }
  return data;
}

/// What training gave under one plan.
struct Outcome {
  std::vector<double> losses;
  TensorMap norms, trained;
};

/// First tensor that differs, in the order of `names`; with the largest difference and the largest element.
std::optional<std::string> firstDifference(const std::string &what, const std::vector<std::string> &names,
                                           const TensorMap &expected, const TensorMap &got) {
  for (const std::string &name : names) {
    auto a = expected.find(name), b = got.find(name);
    if (a == expected.end() || b == got.end())
      continue;
    const double *first = reinterpret_cast<const double *>(a->second.data),
                 *second = reinterpret_cast<const double *>(b->second.data);
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < elementsOf(a->second.shape); ++i) {
      largest = std::max(largest, std::abs(first[i]));
      double apart = std::abs(first[i] - second[i]);
      difference = std::isnan(apart) ? INFINITY : std::max(difference, apart);
    }
    if (!(difference <= kAgree * std::max(largest, 1e-12)))
      return fmt::format("{}'{}' differs by {:.3g}, its largest element is {:.3g}", what, name, difference, largest);
  }
  return std::nullopt;
}

struct VerifyCommand {
  ModelFlags model;
  std::string planFile, cluster;
  bool json = false;
  GivenPlan given;

  bool configured() const { return model.model.ends_with(".json"); }

  Result<Json> readConfig() const {
    auto text = readFile(model.model);
    if (!text)
      return text.error();
    Json config = Json::parse(*text, nullptr, false);
    if (!config.is_object())
      return Error{fmt::format("'{}' is no JSON object", model.model)};
    return config;
  }

  /// Programs of all stages at full size: order of messages, schedule, memory.
  Result<Json> checkFull(const TrainingStep &step, const Plan &plan, const Cluster &machine) const {
    auto compiled = compileStep(step, plan, planFile, machine);
    if (!compiled)
      return compiled.error();
    const package::Program &program = compiled->program;
    Json full{{"ranks", package::ranksOf(program)},
              {"stages", package::stagesOf(program)},
              {"microbatches", package::microbatchesOf(program)},
              {"stage_bytes", Json::array()}};
    for (int64_t stage = 0; stage < package::stagesOf(program); ++stage) {
      auto memory = runtime::planMemory(program, stage);
      if (!memory)
        return memory.error();
      full["stage_bytes"].push_back(memory->totalBytes());
      if ((!cluster.empty() || (given.job && given.job->cluster)) && memory->totalBytes() > machine.device.memoryBytes)
        full["too_much"].push_back(stage);
    }
    full["limit_bytes"] = machine.device.memoryBytes;
    return full;
  }

  Result<Outcome> train(const TrainingStep &step, const Plan &plan, const char *what, const TensorMap *data,
                        TensorMap *made, std::vector<std::string> *names) const {
    Scratch scratch;
    int64_t ranks = 1;
    for (const auto &[axis, size] : plan.meshSizes)
      ranks *= size;
    auto machine = thisMachine(ranks);
    if (!machine)
      return machine.error();
    auto compiled = compileStep(step, plan, what, *machine);
    if (!compiled)
      return compiled.error();
    if (made)
      *made = randomData(compiled->program, indicesBelow(*step.module));
    if (names)
      for (const package::Arg &arg : compiled->program.args)
        if (arg.trainable)
          names->push_back(arg.name);
    runtime::RunOptions options;
    options.steps = kSteps;
    options.learningRate = [](int64_t) { return 1e-2; };
    options.savePath = scratch.file("trained.safetensors");
    auto report = runtime::run(compiled->program, step.weights, made ? *made : *data, options);
    if (!report)
      return Error{fmt::format("{}: {}", what, report.error().message), report.error().status};
    Outcome outcome;
    for (const runtime::StepResult &result : report->steps)
      outcome.losses.push_back(result.loss);
    outcome.norms = std::move(report->firstResults);
    auto trained = readTensors(options.savePath);
    if (!trained)
      return trained.error();
    for (auto &[name, tensor] : *trained) { // out of the file, which goes
      auto [copy, bytes] = allocateTensor(tensor.dtype, tensor.shape);
      std::copy(tensor.data, tensor.data + tensor.bytes(), bytes);
      outcome.trained.emplace(name, std::move(copy));
    }
    return outcome;
  }

  Result<Json> verify() {
    std::optional<Plan> plan = given.plan;
    plan->clusterHash.clear(); // the machines need not be here
    StepOptions options = model.toStepOptions();
    auto cuts = stageCuts(*plan, planFile);
    if (!cuts)
      return cuts.error();
    options.cuts = *cuts;
    auto context = createContext();
    auto whole = importTrainingStep(*context, model.model, options);
    if (!whole)
      return whole.error();
    int64_t ranks = plan->mesh().ranks();
    auto machine = machinesOf(cluster, given.job, 0, ranks);
    if (!machine)
      return machine.error();
    TrainingJob job;
    job.model = model.model;
    job.exportedBatch = batchOf(*whole->module);
    job.ops = plan->ops;
    job.arguments = plan->arguments;
    job.recomputeOps = plan->recomputeOps;
    auto completed = completePlan(*plan, planFile, *machine, job);
    if (!completed)
      return completed.error();
    plan->modelHash.clear(); // compileStep compares it with its own model's below
    auto full =
        checkFull(*whole, isExecutionPlan(*plan, job.exportedBatch) ? completed->plan : *plan, completed->cluster);
    if (!full)
      return full.error();

    Scratch scratch;
    Json config;
    if (configured()) {
      auto read = readConfig();
      if (!read)
        return read.error();
      config = std::move(*read);
    }
    Shrunk small = shrink(*completed, layersOf(*whole->module), configured() ? &config : nullptr);
    std::string path = model.model;
    options.import.floatType = DType::F64;
    options.optimizer.gradientNorms = true;
    cuts = stageCuts(small.plan, "the shrunken plan");
    if (!cuts)
      return cuts.error();
    options.cuts = std::move(*cuts);
    if (configured()) {
      path = scratch.file("config.json");
      if (Status status = writeFile(path, small.config.dump()); !status)
        return status.error();
      options.import.globalBatch = small.globalBatch;
      options.import.sequence = small.sequence;
      options.import.weights.reset();
    }
    auto step = importTrainingStep(*context, path, options);
    if (!step)
      return Error{fmt::format("the shrunken model: {}", step.error().message), step.error().status};
    Plan single;
    for (const char *axis : kPlanAxes)
      single.meshSizes[axis] = 1;
    single.schedule.name = "1f1b";
    TensorMap data;
    std::vector<std::string> names;
    auto expected = train(*step, single, "one rank", nullptr, &data, &names);
    if (!expected)
      return expected.error();
    auto got = train(*step, small.plan, "the shrunken plan", &data, nullptr, nullptr);
    if (!got)
      return got.error();

    Json result{{"full", std::move(*full)},
                {"shrunk", small.notes},
                {"mesh", small.plan.meshSizes},
                {"losses", got->losses},
                {"losses_of_one_rank", expected->losses}};
    std::vector<std::string> norms;
    for (const std::string &name : names)
      norms.push_back("gradient_norm_squared/" + name);
    auto difference = firstDifference("gradients at step 0: ", norms, expected->norms, got->norms);
    if (!difference)
      difference = firstDifference(fmt::format("after {} steps: ", kSteps), names, expected->trained, got->trained);
    for (int64_t i = 0; i < kSteps && !difference; ++i)
      if (!(std::abs(got->losses[i] - expected->losses[i]) <= kAgree * std::abs(expected->losses[i])))
        difference = fmt::format("the loss of step {} is {}, on one rank {}", i, got->losses[i], expected->losses[i]);
    result["difference"] = difference ? Json(*difference) : Json(nullptr);
    return result;
  }

  int run() {
    auto result = verify();
    if (!result)
      return fail(result.error());
    const Json &full = (*result)["full"];
    if (json) {
      fmt::print("{}\n", result->dump(2));
    } else {
      fmt::print(
          "{} at full size: {} ranks, {} stages, {} microbatches\n"
          "  schedule and messages   in an order in which no rank waits for ever; a stage's ranks run one program\n"
          "  memory by stage         {} bytes, as the CPU's kernels need it\n",
          planFile, full["ranks"].get<int64_t>(), full["stages"].get<int64_t>(), full["microbatches"].get<int64_t>(),
          fmt::join(full["stage_bytes"].get<std::vector<int64_t>>(), ", "));
      fmt::print("run small: mesh {}, {} steps in float64 against one rank\n", (*result)["mesh"].dump(), kSteps);
      for (const std::string &note : (*result)["shrunk"].get<std::vector<std::string>>())
        fmt::print("  {}\n", note);
      if (!configured())
        fmt::print("  an export keeps its layers, its sizes and its batch\n");
    }
    if (const Json &difference = (*result)["difference"]; !difference.is_null())
      return fail({difference.get<std::string>(), ExitStatus::InternalCheck});
    if (!json)
      fmt::print("the plan's losses, gradients and parameters are those of one rank\n");
    if (full.contains("too_much")) {
      int64_t stage = full["too_much"][0];
      return fail(
          {fmt::format("stage {} needs {} bytes a rank, the device has {}; more recomputation or sharding, or "
                       "smaller microbatches",
                       stage, full["stage_bytes"][size_t(stage)].get<int64_t>(), full["limit_bytes"].get<int64_t>()),
           ExitStatus::Infeasible});
    }
    return 0;
  }
};

} // namespace

void addVerify(CLI::App &app, int &status) {
  auto [sub, command] = addCommand<VerifyCommand>(
      app, "verify",
      "Check that a plan gives the numbers of one rank: its programs at full size, and a run of a small one here.\n"
      "Example: kerf verify config.json --plan plan.json --global-batch 512 --sequence 2048",
      status);
  command->model.addTo(*sub, {"f32", "f64", "bf16", "f16"})->required(false);
  sub->add_option("--plan", command->planFile, "plan.json, complete or partial")->required();
  sub->add_option("--cluster", command->cluster, "cluster.json: its memory is the limit of every stage");
  sub->add_flag("--json", command->json, "what was checked, as JSON");
}

} // namespace kerf::tool
