// SPDX-License-Identifier: Apache-2.0
#include "kerf/Transforms/Pipelines.h"

#include "mlir/Pass/PassOptions.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace kerf {

void addStepPasses(OpPassManager &passes, const StepPipeline &options) {
  if (!options.wholeStep && options.recognizeComposites)
    passes.addPass(createRecognizeComposites());
  if (!options.wholeStep)
    passes.addPass(createFoldReshapes());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createOutlineLayers());
  if (!options.layerPatterns.empty())
    passes.addPass(
        createSeparateLayers({{options.layerPatterns.begin(), options.layerPatterns.end()}, options.patternsOfAllOps}));
  if (!options.cuts.empty())
    passes.addPass(createCutStages({{options.cuts.begin(), options.cuts.end()}}));
  if (options.wholeStep)
    return;
  if (options.precision)
    passes.addPass(createMixedPrecision(*options.precision));
  if (options.precision && options.precision->quantizeProducts)
    passes.addPass(createQuantizeProducts());
  passes.addPass(createDifferentiate());
  passes.addPass(createAddOptimizer(options.optimizer));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
}

void addPlacementPasses(OpPassManager &passes) { passes.addPass(createInsertReshards()); }

void addLoweringPasses(OpPassManager &passes, const LoweringPipeline &options) {
  passes.addPass(options.price ? createPartition(options.price) : createPartition());
  passes.addPass(createCSEPass());
  passes.addPass(createConvertOnce());
  passes.addPass(createQuantizeOnce());
  if (options.padClasses)
    passes.addPass(createPadClasses());
  if (options.chunkProducts)
    passes.addPass(createChunkProducts());
  passes.addPass(createCompressGradients({.ranksOfNode = options.ranksOfNode}));
  passes.addPass(createScheduleCollectives({.tensor = options.overlapTensor, .all = options.chunkProducts}));
  if (!options.tasks)
    return;
  passes.addPass(createRecompute());
  passes.addPass(createCSEPass());
  if (options.tasks->splitBackward)
    passes.addPass(createSplitBackward());
  passes.addPass(createOffloadActivations());
  passes.addPass(createAssignTasks(*options.tasks));
}

void addPackagingPasses(OpPassManager &passes, const PackagingPipeline &options) {
  passes.addPass(createExpandMaps());
  if (options.forGpu) {
    passes.addPass(createPutChannelsLast());
    passes.addPass(createRecomputeWidened());
  }
  if (options.fuse && !options.forGpu)
    passes.addPass(createFuseRows());
  if (options.fuse)
    passes.addPass(createFusePointwise({.leaveBiases = options.forGpu}));
}

std::string pipelineText(const OpPassManager &passes) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  passes.printAsTextualPipeline(stream);
  return text;
}

namespace {

struct NamedLowering : PassPipelineOptions<NamedLowering> {
  Option<bool> tasks{*this, "tasks", llvm::cl::desc("of a step that is executed in tasks"), llvm::cl::init(false)};
  Option<bool> chunkProducts{*this, "chunk-products", llvm::cl::desc("products run beside collectives, in chunks"),
                             llvm::cl::init(false)};
  Option<bool> splitBackward{*this, "split-backward",
                             llvm::cl::desc("with tasks: gradients of parameters in tasks of their own"),
                             llvm::cl::init(false)};
  Option<int64_t> chunks{*this, "chunks", llvm::cl::desc("with tasks: parts of the model on each stage"),
                         llvm::cl::init(1)};
};

} // namespace

void registerKerfPipelines() {
  PassPipelineRegistration<>("kerf-step", "The imported graph becomes one training step, by SGD",
                             [](OpPassManager &passes) { addStepPasses(passes, {}); });
  PassPipelineRegistration<>("kerf-placement", "Reshards are put between ops with strategies", addPlacementPasses);
  PassPipelineRegistration<NamedLowering>("kerf-lowering", "Ops with strategies become one rank's ops and collectives",
                                          [](OpPassManager &passes, const NamedLowering &named) {
                                            LoweringPipeline options;
                                            options.chunkProducts = named.chunkProducts;
                                            if (named.tasks) {
                                              options.tasks.emplace();
                                              options.tasks->splitBackward = named.splitBackward;
                                              options.tasks->chunks = named.chunks;
                                            }
                                            addLoweringPasses(passes, options);
                                          });
  PassPipelineRegistration<>("kerf-packaging", "One rank's pointwise ops become kernels",
                             [](OpPassManager &passes) { addPackagingPasses(passes, {.fuse = true}); });
}

} // namespace kerf
