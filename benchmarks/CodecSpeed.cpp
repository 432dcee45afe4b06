// SPDX-License-Identifier: Apache-2.0
// Speed of the codecs of gradients on one thread: 16 MiB of f32 are encoded (with error feedback where the codec needs
// it), one payload is decoded and added to a sum, and the payloads of 4 ranks are decoded, added and encoded again, as
// the owner of a part of a gradient does. The programs are compiled and run as a training step would be. Each line has
// the speed by the least processor time of many runs, and for the owner's work how many times the time is that reading
// its payloads alone takes at the speed at which one thread reads memory here. PowerSGD's gradient is a matrix of 2,048
// x 2,048: its encoding is the computation of both factors and of the error, without the messages in between, and its
// decoding adds the product of the factors: `codec-speed [CODEC or FILE.mlir...]`.
#include "kerf/Codec/Codec.h"
#include "kerf/Codec/LowRank.h"
#include "kerf/Codegen/Codegen.h"
#include "kerf/Dialect/Kerf/Emit.h"
#include "kerf/Runtime/Executor.h"
#include "kerf/Steps/Steps.h"
#include "kerf/Support/File.h"
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
constexpr int64_t kSide = 2048;
constexpr int64_t kElements = kSide * kSide; // 16 MiB
constexpr int kRuns = 60;
constexpr int64_t kSenders = 4;
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

/// Returns the bytes that one thread reads in a second from a tensor of kElements.
double readingSpeed() {
  constexpr int64_t kParallel = 64; // independent sums
  std::vector<float> from(size_t(kElements), 1.0f);
  double least = 1e9;
  volatile float kept = 0;
  for (int run = 0; run < kRuns; ++run) {
    float sums[kParallel] = {};
    double begin = processorSeconds();
    for (int64_t i = 0; i < kElements; i += kParallel)
      for (int64_t j = 0; j < kParallel; ++j)
        sums[j] += from[size_t(i + j)];
    least = std::min(least, processorSeconds() - begin);
    kept = sums[run % kParallel];
  }
  (void)kept;
  return double(kElements) * sizeof(float) / least;
}

void measure(MLIRContext &context, const std::string &name, std::string_view text, double readBytesPerSecond) {
  Codec codec = need(readCodec(context, text, name));
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
  SmallVector<Type> fromAll;
  for (int64_t sender = 0; sender < kSenders; ++sender)
    fromAll.append(payload);
  fromAll.push_back(key);
  auto owning = moduleOf(context, fromAll, [&](Emitter &emit, ValueRange given) {
    Value sum;
    for (int64_t sender = 0; sender < kSenders; ++sender) {
      ValueRange its = given.slice(size_t(sender) * payload.size(), payload.size());
      Value x = decodeBlocks(emit.builder, emit.loc, codec, its, given.back());
      sum = sum ? emit.add(sum, x) : x;
    }
    return encodeBlocks(emit.builder, emit.loc, codec, sum, given.back());
  });
  double payloadBytes = 0;
  for (Type part : payload)
    payloadBytes += double(cast<RankedTensorType>(part).getNumElements() * bytesPerElement(part));
  const double moved = double(kSenders + 1) * payloadBytes;
  const double bytes = double(kElements) * sizeof(float);
  double encode = leastSeconds(*encoding), decode = leastSeconds(*decoding), owner = leastSeconds(*owning);
  std::printf("%-10s encode%s %7.2f GB/s   decode and add %7.2f GB/s   owner of %lld %7.2f GB/s, %.1f times "
              "reading\n",
              name.c_str(), feedback ? " with error feedback" : "                    ", bytes / encode / kGigabyte,
              bytes / decode / kGigabyte, static_cast<long long>(kSenders), bytes / owner / kGigabyte,
              owner * readBytesPerSecond / moved);
  std::fflush(stdout);
}

/// Measures PowerSGD, whose owners do nothing.
void measureLowRank(MLIRContext &context, const std::string &name, const Codec &codec) {
  auto f32 = Float32Type::get(&context);
  auto matrix = RankedTensorType::get({kSide, kSide}, f32), factor = RankedTensorType::get({codec.rank, kSide}, f32);
  auto encoding = moduleOf(context, {matrix, matrix, factor}, [&](Emitter &emit, ValueRange given) {
    Value x = emit.add(given[0], given[1]);
    Value left = orthogonalRows(emit, lowRankLeft(emit, given[2], x));
    Value right = lowRankRight(emit, left, x);
    return SmallVector<Value>{left, right, emit.subtract(x, lowRankMatrix(emit, left, right))};
  });
  auto decoding = moduleOf(context, {factor, factor, matrix}, [&](Emitter &emit, ValueRange given) {
    return SmallVector<Value>{emit.add(given[2], lowRankMatrix(emit, given[0], given[1]))};
  });
  const double bytes = double(kElements) * sizeof(float);
  const double encode = leastSeconds(*encoding), decode = leastSeconds(*decoding);
  std::printf("%-10s encode with error feedback %7.2f GB/s   decode and add %7.2f GB/s\n", name.c_str(),
              bytes / encode / kGigabyte, bytes / decode / kGigabyte);
}
} // namespace

int main(int count, char **words) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<KerfDialect, func::FuncDialect>();
  const double reading = readingSpeed();
  std::printf("reading    %7.2f GB/s\n", reading / kGigabyte);
  std::vector<std::string> names(words + 1, words + count);
  for (const std::string &name : names.empty() ? codecNames() : names)
    if (auto lowRank = lowRankCodec(name))
      measureLowRank(context, name, *lowRank);
    else if (auto text = codecText(name); !text.empty())
      measure(context, name, text, reading);
    else
      measure(context, name, need(readFile(name)), reading);
}
