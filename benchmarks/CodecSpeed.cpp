// SPDX-License-Identifier: Apache-2.0
// Speed of the codecs of gradients on one thread: 16 MiB of f32 are encoded (with error feedback where the codec needs
// it), and one payload is decoded and added to a sum. The program is compiled and run as a training step would be. Each
// line has the least processor time of many runs: `codec-speed [CODEC...]`.
#include "kerf/Codec/Codec.h"
#include "kerf/Codegen/Codegen.h"
#include "kerf/Dialect/Kerf/Emit.h"
#include "kerf/Runtime/Executor.h"
#include "kerf/Steps/Steps.h"
#include "kerf/Transforms/EmitPackage.h"
#include "kerf/Transforms/Pipelines.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>

using namespace mlir;
using namespace kerf;
using namespace kerf::ir;

namespace {
constexpr int64_t kElements = int64_t{1} << 22; // 16 MiB
constexpr int kRuns = 60;
constexpr double kGigabyte = 1e9;

template <typename T> T need(Result<T> result) {
  if (result)
    return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(1);
}

/// Returns a module with a function @main, whose body `fill` makes from arguments of these types.
OwningOpRef<ModuleOp> moduleOf(MLIRContext &context, ArrayRef<Type> types,
                               function_ref<SmallVector<Value>(Emitter &, ValueRange)> fill) {
  OpBuilder builder(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  auto main = func::FuncOp::create(builder.getUnknownLoc(), "main", builder.getFunctionType(types, {}));
  module->push_back(main);
  Block *body = main.addEntryBlock();
  builder.setInsertionPointToStart(body);
  Emitter emit{builder, builder.getUnknownLoc()};
  SmallVector<Value> results = fill(emit, body->getArguments());
  func::ReturnOp::create(builder, emit.loc, results);
  main.setFunctionType(builder.getFunctionType(types, ValueRange(results).getTypes()));
  for (unsigned i = 0; i < types.size(); ++i) {
    main.setArgAttr(i, KerfDialect::kKindAttr, builder.getStringAttr("constant"));
    main.setArgAttr(i, KerfDialect::kNameAttr, builder.getStringAttr("x" + std::to_string(i)));
  }
  return module;
}

/// Returns the processor's seconds of this process so far, which do not count what other processes take.
double processorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

/// Returns the least processor seconds of a run of @main.
double leastSeconds(ModuleOp module) {
  auto passes = PassManager::on<ModuleOp>(module.getContext());
  addPackagingPasses(passes, {.fuse = true});
  if (failed(passes.run(module)))
    std::exit(1);
  package::Program program = need(emitPackage(module));
  need(steps::makeSteps(program));
  program.native = need(codegen::compileKernels(program, {"x86-64-v3", "x86-64-v4"}));
  auto communicators = runtime::createThreadCommunicators(1);
  auto device = need(runtime::createDevice("cpu", {.threads = 1}));
  auto executor = need(runtime::Executor::create(program, *device, *communicators[0], {}));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const runtime::ArgumentPiece &piece : executor->arguments()) {
    std::vector<float> content(size_t(piece.tensor.bytes() + 3) / 4);
    for (float &x : content)
      x = piece.tensor.dtype == DType::F32 ? normal(random) : 0.0f; // payloads: codes and positions that are all zero
    need(device->copyIn(piece.tensor.data, content.data(), piece.tensor.bytes()));
  }
  double least = 1e9;
  for (int run = 0; run < kRuns; ++run) {
    double begin = processorSeconds();
    need(executor->step());
    least = std::min(least, processorSeconds() - begin);
  }
  return least;
}

void measure(MLIRContext &context, const std::string &name) {
  Codec codec = need(readCodec(context, codecText(name), name));
  auto f32 = Float32Type::get(&context);
  auto blocks = RankedTensorType::get({kElements / codec.block, codec.block}, f32);
  auto key = RankedTensorType::get({}, IntegerType::get(&context, 32));
  const bool feedback = codec.biased && !codec.noFeedback;
  SmallVector<Type> payload;
  auto encoding = moduleOf(context, {blocks, blocks, key}, [&](Emitter &emit, ValueRange given) {
    Value x = feedback ? emit.add(given[0], given[1]) : Value(given[0]);
    SmallVector<Value> results = encodeBlocks(emit.builder, emit.loc, codec, x, given[2]);
    payload = SmallVector<Type>(ValueRange(results).getTypes());
    if (feedback)
      results.push_back(emit.subtract(x, decodeBlocks(emit.builder, emit.loc, codec, results, given[2])));
    return results;
  });
  SmallVector<Type> received = payload;
  received.append({key, blocks});
  auto decoding = moduleOf(context, received, [&](Emitter &emit, ValueRange given) {
    Value x = decodeBlocks(emit.builder, emit.loc, codec, given.take_front(payload.size()), given[payload.size()]);
    return SmallVector<Value>{emit.add(given.back(), x)};
  });
  const double bytes = double(kElements) * sizeof(float);
  double encode = leastSeconds(*encoding), decode = leastSeconds(*decoding);
  std::printf("%-10s encode%s %7.2f GB/s   decode and add %7.2f GB/s\n", name.c_str(),
              feedback ? " with error feedback" : "                    ", bytes / encode / kGigabyte,
              bytes / decode / kGigabyte);
  std::fflush(stdout);
}
} // namespace

int main(int count, char **words) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<KerfDialect, func::FuncDialect>();
  std::vector<std::string> names(words + 1, words + count);
  for (const std::string &name : names.empty() ? codecNames() : names)
    if (!codecText(name).empty())
      measure(context, name);
}
