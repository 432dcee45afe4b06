// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/ModelLayouts.h"
#include "Diagnostics.h"
#include "HandWritten.h"
#include "PlanLowering.h"
#include "StepLayout.h"
#include "Tuning.h"
#include "kerf/Transforms/ExpertLayout.h"
#include "kerf/Transforms/Layout.h"
#include "kerf/Transforms/ModelWork.h"
#include "kerf/Transforms/Passes.h"
#include "kerf/Transforms/RecomputePins.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/Passes.h"
#include <fmt/format.h>
#include <numeric>

namespace kerf {

/// Returns the number of threads that compute layouts ahead: the search itself keeps one processor.
static int threadsBesideTheSearch() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) - 1, 0, kMostThreadsAhead);
}

ModelLayouts::ModelLayouts(mlir::MLIRContext &context, ModelSource model, StepOptions step, std::string dtype,
                           const Cluster &cluster, const Plan &pins, const Trainer &trainer)
    : context(context), model(std::move(model)), step(std::move(step)), dtype(std::move(dtype)),
      cluster(cluster.mixed() ? cluster.groups.front() : cluster), pins(pins), ownPrograms(trainer.ownPrograms),
      memory(trainer.prices.memory), ahead([this](const LayoutKey &key) { workAhead(key); }, threadsBesideTheSearch()) {
  this->step.import.floatType = DType::F32; // the predictions apply `dtype` themselves
  this->step.precision.reset();
  this->step.import.structureOnly = true;
  this->step.optimizer.clipNorm = 0; // the simulator prices the optimizer
}

Result<TrainingJob> ModelLayouts::job(std::optional<int64_t> ranks) {
  TrainingJob job;
  job.model = model.name;
  job.dtype = dtype;
  auto moments = momentsPerElement();
  if (!moments)
    return moments.error();
  job.optimizerMoments = *moments;
  job.globalBatch = step.import.globalBatch;
  job.ranks = ranks;
  if (!model.isConfig()) {
    auto exported = imported(0);
    if (!exported)
      return exported.error();
    job.exportedBatch = batchOf(*(*exported)->module);
  }
  job.ops = pins.ops;
  job.arguments = pins.arguments;
  job.recomputeOps = pins.recomputeOps;
  return job;
}

Result<double> ModelLayouts::momentsPerElement() {
  std::vector<const OptimizerRecord *> used = optimizersOf(step.optimizer);
  if (used.size() == 1 && !used.front()->readsParameterShape) {
    ParameterOptimizer optimizer = parameterOptimizer(step.optimizer, "", {1});
    return static_cast<double>(optimizer.states({1}).size());
  }
  auto one = imported(model.isConfig() ? 1 : 0);
  if (!one)
    return one.error();
  auto main = mlir::SymbolTable(*(*one)->module).lookup<mlir::func::FuncOp>(ir::KerfDialect::kEntryName);
  double parameters = 0, kept = 0;
  for (mlir::BlockArgument argument : main.getArguments()) {
    auto name = main.getArgAttrOfType<mlir::StringAttr>(argument.getArgNumber(), ir::KerfDialect::kNameAttr);
    if (!name || !main.getArgAttr(argument.getArgNumber(), ir::KerfDialect::kTrainableAttr))
      continue;
    double layers = 1; // number of layers for which the argument stands
    for (mlir::Operation *user : argument.getUsers())
      if (auto repeat = user->getAttrOfType<mlir::IntegerAttr>(ir::KerfDialect::kRepeatAttr))
        layers = static_cast<double>(repeat.getInt());
    Shape shape = ir::shapeOf(argument);
    if (auto exported = main.getArgAttrOfType<mlir::DenseI64ArrayAttr>(argument.getArgNumber(),
                                                                       ir::KerfDialect::kExportedShapeAttr))
      shape = Shape(exported.asArrayRef());
    parameters += layers * static_cast<double>(elementsOf(shape));
    for (const OptimizerState &state : parameterOptimizer(step.optimizer, name.str(), shape).states(shape))
      kept += layers * static_cast<double>(elementsOf(state.shape));
  }
  return parameters > 0 ? kept / parameters : 0.0;
}

/// Returns whether the step has a learning rate; a whole train step with an optimizer of its own has none.
static bool takesLearningRate(mlir::ModuleOp module) {
  auto main = mlir::SymbolTable(module).lookup<mlir::func::FuncOp>(ir::KerfDialect::kEntryName);
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (auto kind = main.getArgAttrOfType<mlir::StringAttr>(i, ir::KerfDialect::kKindAttr);
        kind && kind.getValue() == "learning_rate")
      return true;
  return false;
}

Result<TrainingStep *> ModelLayouts::imported(int64_t microbatch) {
  std::lock_guard lock(importing);
  int64_t batch = model.isConfig() ? microbatch : 0; // an exported model has a batch of its own
  auto found = steps.find(batch);
  if (found == steps.end()) {
    StepOptions sized = step;
    if (model.isConfig())
      sized.import.globalBatch = microbatch;
    auto made = importTrainingStep(context, model, sized);
    if (!made)
      return made.error();
    if (!takesLearningRate(*made->module))
      return Error{
          fmt::format("'{}' is a whole train step, but whole plans are predicted for a loss function, to which Kerf "
                      "adds gradients and optimizer; export the loss function, or use <search> placement",
                      model.name)};
    if (steps.empty()) {
      theWarnings = made->warnings;
      addPins(*made, pins);
    }
    if (Status status = pinRecomputation(*made->module, pins.recomputeOps); !status)
      return Error{fmt::format("{}: {}", model.name, status.error().message)};
    found = steps.emplace(batch, std::move(*made)).first;
  }
  return &found->second;
}

Result<std::vector<int64_t>> ModelLayouts::modelSizes(int64_t most, bool unevenHeads) {
  auto step = imported(1);
  if (!step)
    return step.error();
  int64_t heads = 0, channels = 0;
  (*step)->module->walk(
      [&](ir::AttentionOp attention) { heads = std::gcd(heads, ir::shapeOf(attention.getQuery())[2]); });
  (*step)->module->walk(
      [&](ir::ConvolutionOp convolution) { channels = std::gcd(channels, ir::shapeOf(convolution.getKernel())[0]); });
  auto isUneven = [&](int64_t size) {
    return size < heads && (size & (size - 1)) == 0 &&
           modelSubAxisSizes(*(*step)->module, size).size() <= kMostUnevenSubAxes;
  };
  auto isTried = [&](int64_t size) {
    if (heads)
      return heads % size == 0 || (unevenHeads && isUneven(size));
    bool powerOfTwo = (size & (size - 1)) == 0;
    return channels ? size == 1 || (channels % size == 0 && channels / size >= kMinChannelsPerRank) : powerOfTwo;
  };
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= most; ++size)
    if (isTried(size))
      sizes.push_back(size);
  return sizes;
}

Result<std::vector<int64_t>> ModelLayouts::expertSizes(int64_t most) {
  auto step = imported(1);
  if (!step)
    return step.error();
  int64_t experts = std::max<int64_t>(1, expertsOf(*(*step)->module));
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= std::min(most, experts); ++size)
    if (experts % size == 0)
      sizes.push_back(size);
  return sizes;
}

Result<std::vector<int64_t>> ModelLayouts::contextSizes(int64_t most, int64_t tokens) {
  auto step = imported(1);
  if (!step)
    return step.error();
  int64_t positions = 0;
  (*step)->module->walk(
      [&](ir::AttentionOp attention) { positions = std::gcd(positions, ir::shapeOf(attention.getQuery())[1]); });
  std::vector<int64_t> sizes = {1};
  for (int64_t size = 2; size <= most && positions / size >= tokens; ++size)
    if (positions % size == 0)
      sizes.push_back(size);
  return sizes;
}

static bool hasAttention(mlir::ModuleOp module) {
  return module.walk([](ir::AttentionOp) { return mlir::WalkResult::interrupt(); }).wasInterrupted();
}

Result<bool> ModelLayouts::possible(const LayoutKey &key) {
  auto step = imported(1);
  if (!step)
    return step.error();
  std::lock_guard lock(making);
  // A model without attention has no sequence dimension along which operators between products could be sharded.
  auto [known, isNew] =
      possibleLayouts.try_emplace({key.sequenceParallel, key.ulysses, key.fusedAttention, key.context, key.model});
  if (isNew)
    known->second = (!key.sequenceParallel || hasAttention(*(*step)->module)) &&
                    checkContext(*(*step)->module, key.context, key.model,
                                 key.ulysses ? ContextStyle::Ulysses : ContextStyle::Ring, key.fusedAttention);
  return known->second;
}

Result<Plan> ModelLayouts::withLayers(const Plan &completed) {
  if (step.cuts.empty())
    return completed;
  auto made = imported(completed.microbatch * completed.meshSizes.at("expert"));
  return made ? kerf::withLayers(*(*made)->module, completed) : Result<Plan>(made.error());
}

/// Returns the largest divisor of `batch` below `batch` itself, at least 1.
static int64_t largestPart(int64_t batch) {
  for (int64_t parts = 2; parts * parts <= batch; ++parts)
    if (batch % parts == 0)
      return batch / parts;
  return 1;
}

/// Compiles the step in microbatches of `samples` up to the pass that fails when microbatches are not possible.
static Status tryMicrobatches(const TrainingStep &step, int64_t samples, const Cluster &cluster) {
  Plan plan;
  plan.meshSizes = {{"data", 1}};
  plan.microbatch = samples;
  auto lowered = lowerPlan(step, plan, "the plan", cluster);
  auto module = mlir::OwningOpRef<mlir::ModuleOp>(mlir::cast<mlir::ModuleOp>((*step.module)->clone()));
  if (!lowered || !applyExecution(*module, *lowered)) // a failure of the pins says nothing about microbatches
    return ok();
  DiagnosticCollector collected(module->getContext());
  mlir::PassManager passes(module->getContext());
  passes.addPass(createInsertReshards());
  passes.addPass(
      createPartition([](const ReshardStep &step, int64_t, int64_t) { // microbatches of one rank need no communication
        return step.kind == ReshardStepKind::LocalSlice ? 0 : std::numeric_limits<double>::infinity();
      }));
  passes.addPass(mlir::createCSEPass());
  passes.addPass(createAssignTasks());
  return collected.run(passes, *module);
}

Status ModelLayouts::checkMicrobatches() {
  if (model.isConfig() || microbatched)
    return microbatched.value_or(ok());
  auto step = imported(1);
  if (!step)
    return step.error();
  int64_t batch = batchOf(*(*step)->module);
  microbatched = batch > 1 ? tryMicrobatches(**step, largestPart(batch), cluster) : ok();
  return *microbatched;
}

LayoutKey ModelLayouts::searchedFor(const LayoutKey &key) {
  // The layout of a config.json's model is searched for the smallest microbatch, and larger microbatches follow it,
  // because a search takes ten times as long as following. The smallest microbatch has two samples without expert
  // parallelism, as a step of one sample lacks the operators that move a batch dimension. An export has the operators
  // of its whole batch. For an export without attention, whose layers differ, the layout is searched for the largest
  // microbatch below the batch, whose costs are the most accurate, and smaller microbatches follow it.
  LayoutKey first = key;
  if (model.isConfig()) {
    first.microbatch = std::min<int64_t>(key.microbatch, key.expert > 1 ? 1 : 2);
  } else if (auto step = imported(key.microbatch); step && key.expert == 1 && !hasAttention(*(*step)->module)) {
    first.microbatch = std::max(key.microbatch, largestPart(batchOf(*(*step)->module)));
  }
  return first;
}

Result<ModelWork> ModelLayouts::lay(const LayoutKey &key, DecidedLayout &decided) {
  auto imported = this->imported(key.microbatch * key.expert);
  if (!imported)
    return imported.error();
  mlir::ModuleOp module = *(*imported)->module;
  const LayoutKey first = searchedFor(key);
  const DecidedLayout *followed = nullptr;
  if (first != key) {
    const Made &its = made(first);
    if (!*its.work)
      return its.work->error();
    followed = &its.decided;
  }
  auto layout = layOutStep(module, model.name, key, cluster, pins, followed);
  if (!layout)
    return layout.error();
  if (!followed)
    decided = decidedLayout(module, layout->placement, layout->choice);
  auto work = modelWork(module, layout->placement, layout->choice, layout->collectives,
                        {.dtype = dtype,
                         .fusedAttention = key.fusedAttention,
                         .axes = layout->axes,
                         .parts = static_cast<int64_t>(step.cuts.size()) + 1,
                         .joinsProducts = ownPrograms && cluster.device.kind == "cuda",
                         .fusesReductions = ownPrograms && cluster.device.kind == "cuda",
                         .fusedLoss = ownPrograms,
                         .lossBytes = memory.lossBytes,
                         .ring = memory.ring});
  if (work)
    work->samples = batchOf(module);
  return work;
}

const ModelLayouts::Made &ModelLayouts::made(const LayoutKey &key) {
  std::unique_lock lock(making);
  Made &its = layouts[key];
  while (its.busy) { // another thread computes it, and this one computes another one in the meantime
    lock.unlock();
    std::optional<LayoutKey> next = ahead.take();
    if (next)
      workAhead(*next);
    lock.lock();
    if (!next)
      isMade.wait(lock, [&] { return !its.busy; });
  }
  if (its.work)
    return its;
  its.busy = true;
  lock.unlock();
  std::optional<Result<ModelWork>> work;
  auto end = [&] {
    lock.lock();
    its.work = std::move(work);
    its.busy = false;
    isMade.notify_all();
  };
  try {
    work = lay(key, its.decided);
  } catch (...) { // no memory: a thread that waits for the layout tries it itself
    end();
    throw;
  }
  end();
  return its;
}

Result<const ModelWork *> ModelLayouts::work(const LayoutKey &key) {
  const Result<ModelWork> &work = *made(key).work;
  return work ? &*work : Result<const ModelWork *>(work.error());
}

void ModelLayouts::expect(std::span<const LayoutKey> keys) { ahead.expect(keys); }

/// Imports nothing: passes run on the thread of the search only.
void ModelLayouts::workAhead(const LayoutKey &key) {
  auto isImported = [&](const LayoutKey &one) {
    std::lock_guard lock(importing);
    return steps.contains(model.isConfig() ? one.microbatch * one.expert : 0);
  };
  if (!isImported(key) || !isImported(searchedFor(key)))
    return;
  auto isPossible = possible(key);
  auto isNew = [&] {
    std::lock_guard lock(making);
    return !layouts.contains(key);
  };
  if (isPossible && *isPossible && isNew())
    made(key);
}

} // namespace kerf
