// SPDX-License-Identifier: Apache-2.0
// Attention's gradients by cuDNN in slices of the batch and of the heads, on the stand-ins.
#include "../../lib/Runtime/Cuda/CallsCudnn.h"
#include "../../lib/Runtime/Cuda/Context.h"
#include "../../lib/Runtime/Cuda/CudnnAttention.h"
#include "../../lib/Runtime/Cuda/Launches.h"
#include "kerf/Package/Half.h"

#include <gtest/gtest.h>
#include <random>

namespace kerf::runtime::cuda {
namespace {

AttentionSizes sizesOf(int64_t b, int64_t s, int64_t h, int64_t g, int64_t d) {
  AttentionSizes z{};
  z.b = b, z.s = z.t = s, z.h = h, z.g = g, z.d = z.e = d;
  z.to = s, z.seen = s;
  return z;
}

TEST(CudnnSlices, AreTheLargestThatFit) {
  constexpr int64_t kMiB = int64_t(1) << 20;
  auto slice = [](const AttentionSizes &z, int64_t most) {
    AttentionSlice found = backwardSlice(z, most, QuerySums::Ordered);
    return std::pair(found.batches, found.groups);
  };
  // The gradients of 1,024 x 1,024 scores in 16 bits are 2 MiB for each head.
  AttentionSizes gpt2 = sizesOf(64, 1024, 12, 12, 64);
  EXPECT_EQ(backwardWorkspace(gpt2, {1, 1}, QuerySums::Ordered), 2 * kMiB + 256);
  EXPECT_EQ(slice(gpt2, 64 * 24 * kMiB), std::pair(int64_t(64), int64_t(12)));
  EXPECT_EQ(slice(gpt2, 64 * 24 * kMiB - 1), std::pair(int64_t(32), int64_t(12)));
  EXPECT_EQ(slice(gpt2, 256 * kMiB), std::pair(int64_t(8), int64_t(12)));
  EXPECT_EQ(slice(gpt2, 13 * kMiB), std::pair(int64_t(1), int64_t(6)));
  EXPECT_EQ(slice(gpt2, 1), std::pair(int64_t(1), int64_t(1)));
  // Numbers that are no powers of two, tiles that are not full, and four query heads for each key/value head.
  AttentionSizes odd = sizesOf(15, 100, 12, 3, 16);
  int64_t ofGroup = 4 * (128 * 128 + 100 * 32) * 2;
  EXPECT_EQ(backwardWorkspace(odd, {5, 3}, QuerySums::Ordered), 15 * ofGroup + 256);
  EXPECT_EQ(slice(odd, 14 * ofGroup), std::pair(int64_t(3), int64_t(3)));
  // The gradients of keys and of values of each query head begin at multiples of 128 bytes.
  AttentionSizes narrow = sizesOf(1, 100, 2, 1, 8);
  narrow.e = 24;
  EXPECT_EQ(backwardWorkspace(narrow, {1, 1}, QuerySums::Ordered), 2 * 128 * 128 * 2 + 3200 + 9600 + 256);
  narrow.t = 101;
  EXPECT_EQ(backwardWorkspace(narrow, {1, 1}, QuerySums::Ordered), 2 * 128 * 128 * 2 + 3328 + 9728 + 256);
  // The numbers of a mask count too, and do not depend on the heads of a slice.
  AttentionSizes masked = gpt2;
  masked.masked = true;
  masked.maskBatch = 1024 * 1024;
  EXPECT_EQ(biasBytes(masked, 3), 3 * 4 * kMiB);
  EXPECT_EQ(slice(masked, 256 * kMiB), std::pair(int64_t(8), int64_t(12)));
  EXPECT_EQ(slice(masked, 8 * 28 * kMiB - 1), std::pair(int64_t(4), int64_t(12)));
  EXPECT_EQ(slice(masked, 13 * kMiB), std::pair(int64_t(1), int64_t(6)));
}

// Where the order of sums may change, a slice needs float32 numbers for its queries instead of numbers for its scores.
TEST(CudnnSlices, AreLargerWithUnorderedSums) {
  constexpr int64_t kMiB = int64_t(1) << 20;
  AttentionSizes gpt2 = sizesOf(64, 1024, 12, 12, 64);
  EXPECT_EQ(backwardWorkspace(gpt2, {64, 12}, QuerySums::Unordered), 256);
  EXPECT_EQ(querySumsBytes(gpt2, {64, 12}, QuerySums::Unordered), 192 * kMiB);
  EXPECT_EQ(querySumsBytes(gpt2, {64, 12}, QuerySums::Ordered), 0);
  EXPECT_EQ(backwardSlice(gpt2, 192 * kMiB, QuerySums::Unordered).batches, 64);
  EXPECT_EQ(backwardSlice(gpt2, 192 * kMiB - 1, QuerySums::Unordered).batches, 32);
  // LLaMA 7B with 8 x 2048 tokens: 256 MiB are enough for all of it, or for the scores of one batch entry.
  AttentionSizes llama = sizesOf(8, 2048, 32, 32, 128);
  EXPECT_EQ(backwardSlice(llama, 256 * kMiB, QuerySums::Unordered).batches, 8);
  EXPECT_EQ(backwardSlice(llama, 256 * kMiB, QuerySums::Ordered).batches, 1);
  EXPECT_EQ(backwardSlice(llama, 256 * kMiB, QuerySums::Ordered).groups, 32);
  AttentionSizes grouped = sizesOf(2, 100, 6, 3, 16); // also the gradients of keys and values of each query head
  EXPECT_EQ(backwardWorkspace(grouped, {1, 2}, QuerySums::Unordered), 2 * 4 * 100 * 16 * 2 + 256);
  EXPECT_EQ(querySumsBytes(grouped, {1, 2}, QuerySums::Unordered), 4 * 100 * 16 * 4);
}

/// A tensor in the GPU's memory.
struct GpuTensor {
  std::shared_ptr<std::byte> memory;
  TensorView view;
};

struct Gpu {
  std::shared_ptr<Context> context = std::move(*Context::open(0));
  std::unique_ptr<CudaStream> stream = std::move(*CudaStream::create(context));
  Modules modules{context};

  GpuTensor tensor(DType type, const Shape &shape) {
    GpuTensor made{nullptr, {nullptr, type, shape}};
    made.memory = std::move(*allocateOfGpu(context, made.view.bytes()));
    made.view.data = made.memory.get();
    return made;
  }
  GpuTensor random(DType type, const Shape &shape, std::mt19937 &engine) {
    GpuTensor made = tensor(type, shape);
    std::normal_distribution<float> normal;
    std::vector<std::byte> bytes;
    for (int64_t i = 0; i < made.view.elements(); ++i) {
      float number = normal(engine);
      uint16_t half = bf16FromFloat(number);
      auto *from = type == DType::F32 ? reinterpret_cast<std::byte *>(&number) : reinterpret_cast<std::byte *>(&half);
      bytes.insert(bytes.end(), from, from + bytesOf(type));
    }
    EXPECT_TRUE(stream->copy(made.view.data, bytes.data(), int64_t(bytes.size()), CopyKind::ToDevice));
    EXPECT_TRUE(stream->synchronize());
    return made;
  }
  std::vector<std::byte> bytesOfTensor(const GpuTensor &tensor) {
    std::vector<std::byte> bytes(size_t(tensor.view.bytes()));
    EXPECT_TRUE(stream->copy(bytes.data(), tensor.view.data, tensor.view.bytes(), CopyKind::ToHost));
    EXPECT_TRUE(stream->synchronize());
    return bytes;
  }
};

/// The bytes of an instruction's results, and the number of executions of cuDNN.
struct Outcome {
  std::vector<std::vector<std::byte>> results;
  size_t executions = 0;
};
using CallsOf = CudnnCalls (*)(const CallRequest &, int64_t);

/// Runs an attention instruction in slices of at most `most` bytes.
Outcome run(Gpu &gpu, CallsOf callsOf, const std::string &op, const std::vector<GpuTensor> &operands,
            const std::vector<GpuTensor> &results, int64_t most) {
  package::Instruction instruction{op, {}, {}, {{"scale", 0.3}, {"causal", true}}, "node"};
  Mesh mesh;
  KernelRequest request{instruction, {}, {}, mesh};
  for (const GpuTensor &operand : operands)
    request.operands.push_back(operand.view);
  for (const GpuTensor &result : results)
    request.results.push_back(result.view);
  auto planned = callsOf({request, {}, gpu.context}, most);
  EXPECT_TRUE(planned && *planned) << (planned ? "no plan" : planned.error().message);
  std::shared_ptr<std::byte> scratch = std::move(*allocateOfGpu(gpu.context, (*planned)->scratchBytes));
  request.scratch = scratch.get();
  auto calls = callsOf({request, {}, gpu.context}, most);
  EXPECT_TRUE(calls && *calls) << (calls ? "no plan" : calls.error().message);
  EXPECT_EQ((*calls)->scratchBytes, (*planned)->scratchBytes);
  Outcome outcome;
  for (const Call &call : (*calls)->calls)
    outcome.executions += std::holds_alternative<LibraryCall>(call);
  auto launches = launchesOf(gpu.modules, std::move((*calls)->calls));
  EXPECT_TRUE(launches) << launches.error().message;
  Status done = launchAll(*launches, *gpu.stream);
  EXPECT_TRUE(done) << done.error().message;
  for (const GpuTensor &result : results)
    if (result.view.rowStride == 0)
      outcome.results.push_back(gpu.bytesOfTensor(result));
  return outcome;
}

TEST(CudnnSlices, GiveTheBitsOfTheWhole) {
  Gpu gpu;
  std::mt19937 engine(7);
  constexpr int64_t b = 4, s = 13, h = 6, d = 8;
  Shape queries = {b, s, h, d};
  for (int64_t g : {6, 2}) // each query head has its key/value head, and three share one
    for (const Shape &mask : {Shape{}, {b, 1, s, s}, {1, h, s, s}, {b, h, s, s}}) {
      SCOPED_TRACE(testing::Message() << g << " key/value heads, " << mask.size() << " dimensions of the mask");
      Shape keys = {b, s, g, d};
      std::vector<GpuTensor> operands;
      for (const Shape &shape : {queries, keys, keys})
        operands.push_back(gpu.random(DType::BF16, shape, engine));
      AttentionSizes z = sizesOf(b, s, h, g, d);
      if (!mask.empty()) {
        operands.push_back(gpu.random(DType::BF16, mask, engine));
        z.masked = true;
        z.maskBatch = mask[0] == 1 ? 0 : mask[1] * s * s, z.maskHead = mask[1] == 1 ? 0 : s * s;
      }
      std::vector<GpuTensor> results = {gpu.tensor(DType::BF16, queries), gpu.tensor(DType::F32, {b, h, s})};
      Outcome whole = run(gpu, attentionCalls, "attention", operands, results, biasBytes(z, b));
      EXPECT_EQ(whole.executions, 1u);
      if (z.maskBatch != 0) {
        Outcome parts = run(gpu, attentionCalls, "attention", operands, results, biasBytes(z, 2));
        EXPECT_EQ(parts.executions, 2u);
        EXPECT_EQ(parts.results, whole.results);
      }
      operands.insert(operands.end(), results.begin(), results.end());
      operands.push_back(gpu.random(DType::BF16, queries, engine));
      std::vector<GpuTensor> gradients;
      for (const Shape &shape : {queries, keys, keys})
        gradients.push_back(gpu.tensor(DType::BF16, shape));
      for (QuerySums sums : {QuerySums::Ordered, QuerySums::Unordered}) {
        gpu.context->products.deterministic = sums == QuerySums::Ordered;
        auto sliced = [&](AttentionSlice slice) {
          int64_t most = backwardWorkspace(z, slice, sums) + querySumsBytes(z, slice, sums) +
                         (slice.groups == g ? biasBytes(z, slice.batches) : 0);
          return run(gpu, attentionBackwardCalls, "attention_backward", operands, gradients, most);
        };
        whole = sliced({b, g});
        EXPECT_EQ(whole.executions, 1u);
        for (AttentionSlice slice : {AttentionSlice{2, g}, {1, g}, {1, g / 2}, {1, 1}}) {
          Outcome parts = sliced(slice);
          EXPECT_EQ(int64_t(parts.executions), b / slice.batches * (g / slice.groups));
          EXPECT_EQ(parts.results, whole.results) << "slices of " << slice.batches << " x " << slice.groups;
        }
      }
    }
}

/// Queries, keys and values side by side in rows of one tensor [batch, rows, heads and key/value heads, width].
struct PackedTensor {
  GpuTensor whole;
  std::vector<GpuTensor> parts; // views of `whole`

  PackedTensor(GpuTensor made, const std::vector<int64_t> &heads) : whole(std::move(made)) {
    const Shape &shape = whole.view.shape;
    int64_t first = 0;
    for (int64_t count : heads) {
      TensorView view{static_cast<std::byte *>(whole.view.data) + first * shape[3] * bytesOf(whole.view.dtype),
                      whole.view.dtype,
                      {shape[0], shape[1], count, shape[3]},
                      shape[2] * shape[3]};
      parts.push_back({whole.memory, view});
      first += count;
    }
  }
};

/// Returns the bytes of a part of a packed tensor's rows.
std::vector<std::byte> bytesOfPart(const std::vector<std::byte> &whole, const PackedTensor &packed, size_t part) {
  const TensorView &view = packed.parts[part].view;
  int64_t bytes = bytesOf(view.dtype), width = view.shape[2] * view.shape[3] * bytes, stride = view.rowStride * bytes;
  int64_t first = static_cast<std::byte *>(view.data) - static_cast<std::byte *>(packed.whole.view.data);
  std::vector<std::byte> found;
  for (int64_t row = 0; row < view.shape[0] * view.shape[1]; ++row)
    found.insert(found.end(), whole.begin() + row * stride + first, whole.begin() + row * stride + first + width);
  return found;
}

// Attention on parts of rows has the bits of attention on copies, by cuDNN and by Kerf's own kernels.
TEST(CudnnSlices, ReadAndWritePartsOfRows) {
  Gpu gpu;
  std::mt19937 engine(11);
  constexpr int64_t b = 3, s = 37, d = 8;
  auto ownKernels = [](const CallRequest &r, int64_t) -> CudnnCalls {
    auto calls = r.request.instruction.op == "attention" ? callAttention(r) : callAttentionBackward(r);
    return calls ? CudnnCalls(std::optional(std::move(*calls))) : calls.error();
  };
  for (DType type : {DType::BF16, DType::F32})
    for (int64_t g : {6, 2})
      for (bool byCudnn : {true, false}) {
        if (byCudnn && type == DType::F32)
          continue;
        SCOPED_TRACE(testing::Message() << toString(type) << ", " << g << " key/value heads, by cuDNN: " << byCudnn);
        const int64_t h = 6, most = int64_t(1) << 20;
        const std::vector<int64_t> heads = {h, g, g};
        PackedTensor inputs(gpu.random(type, {b, s, h + 2 * g, d}, engine), heads);
        std::vector<std::byte> bytes = gpu.bytesOfTensor(inputs.whole);
        std::vector<GpuTensor> copies, dense;
        for (size_t part = 0; part < heads.size(); ++part) {
          copies.push_back(gpu.tensor(type, {b, s, heads[part], d}));
          dense.push_back(gpu.tensor(type, {b, s, heads[part], d}));
          std::vector<std::byte> its = bytesOfPart(bytes, inputs, part);
          EXPECT_TRUE(gpu.stream->copy(copies[part].view.data, its.data(), int64_t(its.size()), CopyKind::ToDevice));
          EXPECT_TRUE(gpu.stream->synchronize());
        }
        std::vector<GpuTensor> results = {gpu.tensor(type, {b, s, h, d}), gpu.tensor(DType::F32, {b, h, s})};
        CallsOf forward = byCudnn ? attentionCalls : CallsOf(ownKernels);
        CallsOf backward = byCudnn ? attentionBackwardCalls : CallsOf(ownKernels);
        Outcome expected = run(gpu, forward, "attention", copies, results, most);
        EXPECT_EQ(run(gpu, forward, "attention", inputs.parts, results, most).results, expected.results);

        PackedTensor gradients(gpu.tensor(type, {b, s, h + 2 * g, d}), heads);
        for (auto *operands : {&copies, &inputs.parts})
          operands->insert(operands->end(), results.begin(), results.end());
        copies.push_back(gpu.random(type, {b, s, h, d}, engine));
        inputs.parts.push_back(copies.back());
        expected = run(gpu, backward, "attention_backward", copies, dense, most);
        run(gpu, backward, "attention_backward", inputs.parts, gradients.parts, most);
        bytes = gpu.bytesOfTensor(gradients.whole);
        for (size_t part = 0; part < heads.size(); ++part)
          EXPECT_EQ(bytesOfPart(bytes, gradients, part), expected.results[part]) << "gradient " << part;
      }
}

} // namespace
} // namespace kerf::runtime::cuda
