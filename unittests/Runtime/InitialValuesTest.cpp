// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters, by their definition in docs/runtime.md, and their way to a device.
#include "../../lib/Runtime/Host/InitialValues.h"
#include "../../lib/Runtime/Cpu/Kernels/Normal.h"
#include "../../lib/Runtime/Host/Staging.h"
#include "../../lib/Runtime/Philox.h"
#include "kerf/Package/Convert.h"

#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

namespace kerf::runtime {
namespace {

uint64_t fnv1a(const std::string &name) {
  uint64_t hash = 14695981039346656037u;
  for (unsigned char c : name)
    hash = (hash ^ c) * 1099511628211u;
  return hash;
}

TEST(NormalRow, HasTheBitsOfTheDefinition) {
  constexpr int64_t kCount = 1 << 20, kPiece = 1000; // pieces that are no whole number of vectors
  constexpr uint64_t kLow = (uint64_t(1) << 32) - 5000, kHigh = 77, kKey = 3;
  std::vector<float> row(kCount);
  for (int64_t begin = 0; begin < kCount; begin += kPiece)
    normalRow(kLow + uint64_t(begin), kHigh, kKey, 0.02, std::min(kPiece, kCount - begin), row.data() + begin);
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    auto random = philox(kLow + uint64_t(i), kHigh, kKey);
    ASSERT_EQ(row[size_t(i)], float(0.02 * normalOf(random[0], random[1]))) << i;
    sum += row[size_t(i)], squares += double(row[size_t(i)]) * row[size_t(i)];
  }
  EXPECT_NEAR(sum / kCount, 0, 1e-4);
  EXPECT_NEAR(std::sqrt(squares / kCount), 0.02, 1e-4);
}

/// Returns the bytes of a shard of a parameter, element by element.
std::vector<std::byte> expectedShard(uint64_t seed, const std::string &name, const Shape &shape, const Shard &shard,
                                     DType dtype) {
  const int64_t local = elementsOf(shard.local);
  std::vector<double> values(static_cast<size_t>(local), 0.0);
  for (int64_t flat = 0; flat < local; ++flat) {
    uint64_t global = 0, stride = 1;
    bool isPadding = false;
    int64_t rest = flat;
    for (size_t d = shape.size(); d-- > 0; rest /= shard.local[d], stride *= uint64_t(shape[d])) {
      isPadding |= rest % shard.local[d] >= shard.count[d];
      global += stride * uint64_t(shard.begin[d] + rest % shard.local[d]);
    }
    auto random = philox(global, fnv1a(name), seed);
    bool isWeight = name == "weight" || name.ends_with(".weight");
    if (!isPadding)
      values[size_t(flat)] = shape.size() > 1                ? 0.02 * normalOf(random[0], random[1])
                             : shape.size() == 1 && isWeight ? 1
                                                             : 0;
  }
  std::vector<float> floats(values.begin(), values.end());
  std::vector<std::byte> bytes(static_cast<size_t>(local * bytesOf(dtype)));
  bool isWide = dtype == DType::F64;
  const void *from = isWide ? static_cast<const void *>(values.data()) : floats.data();
  EXPECT_TRUE(convertElements(isWide ? DType::F64 : DType::F32, static_cast<const std::byte *>(from), local, dtype,
                              bytes.data()));
  return bytes;
}

TEST(InitialValues, OfAnyShardInAnyPieces) {
  struct Case {
    std::string name;
    Shape shape;
    Shard shard;
  };
  const Case cases[] = {{"a.weight", {7}, {{0}, {7}, {7}}},
                        {"a.bias", {7}, {{0}, {7}, {7}}},
                        {"scale", {}, {{}, {}, {}}},
                        {"w", {40, 33}, {{0, 0}, {40, 33}, {40, 33}}},        // the whole tensor
                        {"w", {40, 33}, {{20, 0}, {20, 33}, {20, 33}}},       // rows
                        {"w", {40, 33}, {{0, 11}, {40, 11}, {40, 11}}},       // columns
                        {"w", {40, 33}, {{28, 24}, {12, 9}, {14, 12}}},       // with padding in both dimensions
                        {"w", {5, 6, 7}, {{3, 0, 0}, {2, 6, 7}, {3, 6, 7}}},  // with padding behind all elements
                        {"w", {5, 6, 7}, {{0, 4, 0}, {5, 2, 7}, {5, 4, 7}}},  // between them
                        {"w", {5, 6, 7}, {{0, 0, 0}, {0, 6, 7}, {2, 6, 7}}}}; // padding only
  for (const Case &one : cases)
    for (DType dtype : {DType::F32, DType::BF16, DType::F16, DType::F64})
      for (int64_t piece : {int64_t(5), int64_t(64), int64_t(100000)}) {
        SCOPED_TRACE(::testing::Message() << one.name << " " << shapeText(one.shape) << " in " << toString(dtype));
        InitialValues values(11, one.name, one.shape, one.shard, dtype);
        const int64_t local = elementsOf(one.shard.local);
        std::vector<std::byte> bytes(static_cast<size_t>(local * bytesOf(dtype)), std::byte(0xff));
        for (int64_t begin = 0; begin < local; begin += piece)
          values.write(begin, std::min(local, begin + piece), bytes.data() + begin * bytesOf(dtype));
        EXPECT_EQ(bytes, expectedShard(11, one.name, one.shape, one.shard, dtype));
      }
}

TEST(Staging, FillsTensorsOfAnySize) {
  auto device = createDevice("cpu");
  ASSERT_TRUE(device);
  Staging staging(**device, 1);
  for (int64_t elements : {int64_t(0), int64_t(1), int64_t(20000), int64_t(9000001)}) { // of several pieces, too
    auto memory = (*device)->allocate(elements * 4);
    ASSERT_TRUE(memory);
    TensorView tensor{memory->get(), DType::I32, {elements}};
    std::atomic<int64_t> written = 0;
    EXPECT_TRUE(staging.fill(tensor, [&](int64_t begin, int64_t end, std::byte *out) {
      written += end - begin;
      std::iota(reinterpret_cast<int32_t *>(out), reinterpret_cast<int32_t *>(out) + (end - begin), int32_t(begin));
      return ok();
    }));
    EXPECT_EQ(written, elements);
    const auto *found = reinterpret_cast<const int32_t *>(memory->get());
    for (int64_t i = 0; i < elements; ++i)
      ASSERT_EQ(found[i], i);
    Status failed = staging.fill(tensor, [](int64_t begin, int64_t end, std::byte *) {
      return end > 17000 ? Status(Error{"from " + std::to_string(begin)}) : ok();
    });
    EXPECT_EQ(failed ? "" : failed.error().message, elements > 17000 ? "from 16384" : "");
  }
}

} // namespace
} // namespace kerf::runtime
