// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compression/Codec.h"
#include "kerf/Codec/Codec.h"

#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace kerf::compression;

namespace {

int64_t bytes(const char *codec, std::vector<int64_t> shape) { return payloadBytes(*findCodec(codec), shape); }

TEST(Codec, PayloadsHaveTheBytesOfTheirFormats) {
  EXPECT_EQ(bytes("bf16", {1000}), 63 * 32);
  EXPECT_EQ(bytes("int8", {1000}), 4 * (256 + 4));
  EXPECT_EQ(bytes("int4", {257}), 2 * (128 + 4));
  EXPECT_EQ(bytes("onebit", {9}), 128 + 4);
  EXPECT_EQ(bytes("topk", {10000}), 3 * 40 * (4 + 2));
  EXPECT_EQ(bytes("powersgd", {1024, 1024}), 4 * 4 * 2048);
  EXPECT_EQ(bytes("powersgd", {64, 3, 7, 7}), 4 * 4 * (64 + 147));
  EXPECT_EQ(bytes("powersgd", {2, 100}), 4 * 2 * 102);
}

/// The planner's records and the codecs that the compiler applies: the same names, payloads and traits.
TEST(Codec, RecordsAgreeWithTheCodecsInIr) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<kerf::ir::KerfDialect, mlir::func::FuncDialect>();
  std::vector<std::string> planned = codecNames(), compiled = kerf::codecNames();
  EXPECT_EQ(std::set(planned.begin(), planned.end()), std::set(compiled.begin(), compiled.end()));
  std::mt19937_64 random(1);
  for (const CodecRecord &record : codecs()) {
    if (auto low = kerf::lowRankCodec(record.name)) {
      EXPECT_EQ(record.rankOfFactors, low->rank) << record.name;
      EXPECT_EQ(record.biased, low->biased) << record.name;
      EXPECT_TRUE(record.rank2Only) << record.name;
      continue;
    }
    auto codec = kerf::readCodec(context, kerf::codecText(record.name), std::string(record.name));
    ASSERT_TRUE(codec) << record.name << ": " << codec.error().message;
    EXPECT_EQ(record.name, codec->name);
    EXPECT_EQ(record.biased, codec->biased) << record.name;
    EXPECT_EQ(record.momentumFirst, codec->momentumFirst) << record.name;
    EXPECT_EQ(record.cutsPayload, !codec->gathers) << record.name;
    EXPECT_EQ(record.block, codec->block) << record.name;
    std::vector<int64_t> sizes = {1, 7, 31, 256, 257, 1000003};
    for (int i = 0; i < 1000; ++i)
      sizes.push_back(int64_t(random() % 10'000'000) + 1);
    for (int64_t size : sizes)
      EXPECT_EQ(payloadBytes(record, std::vector{size}), codec->payloadBytes(size)) << record.name << ", " << size;
  }
}

TEST(Codec, SmallestGradientsHaveAPayload) {
  for (const CodecRecord &codec : codecs()) {
    int64_t one[] = {1, 1}, none[] = {0, 4};
    EXPECT_GT(payloadBytes(codec, one), 0) << codec.name;
    EXPECT_EQ(payloadBytes(codec, none), 0) << codec.name;
  }
}

TEST(Codec, NamesAreDistinctAndFound) {
  std::set<std::string_view> names;
  for (const CodecRecord &codec : codecs()) {
    EXPECT_TRUE(names.insert(codec.name).second) << codec.name;
    EXPECT_EQ(findCodec(codec.name), &codec);
  }
  EXPECT_EQ(findCodec("gzip"), nullptr);
}

TEST(Codec, RatiosAreThoseOfTheFormats) {
  int64_t shape[] = {1024, 1024};
  EXPECT_NEAR(compressionRatio(*findCodec("int8"), shape), 3.94, 0.01);
  EXPECT_NEAR(compressionRatio(*findCodec("int4"), shape), 7.76, 0.01);
  EXPECT_NEAR(compressionRatio(*findCodec("powersgd"), shape), 128, 1e-9);
}

TEST(Codec, VectorsAndSmallMatricesAreExcludedByDefault) {
  int64_t vector[] = {1 << 20}, small[] = {100, 100}, matrix[] = {128, 128};
  EXPECT_TRUE(isVector(vector));
  EXPECT_FALSE(isVector(small));
  EXPECT_TRUE(excludedByDefault(vector));
  EXPECT_TRUE(excludedByDefault(small));
  EXPECT_FALSE(excludedByDefault(matrix));
  EXPECT_FALSE(accepts(*findCodec("powersgd"), vector));
  EXPECT_TRUE(accepts(*findCodec("int8"), vector));
}

TEST(Codec, StateIsErrorFeedbackOfWorkerAndOwnerAndFactors) {
  int64_t shape[] = {100, 50};
  EXPECT_EQ(stateBytes(*findCodec("int8"), shape, false, 0), 0);
  EXPECT_EQ(stateBytes(*findCodec("onebit"), shape, true, 1250), 4 * (5000 + 1250));
  EXPECT_EQ(stateBytes(*findCodec("powersgd"), shape, true, 0), 4 * (5000 + 4 * 50));
}

TEST(Codec, CurvesAreStartAndSecondsPerByte) {
  CodecCurve core = coreCurve(*findCodec("int8"), 1), shared = coreCurve(*findCodec("int8"), 2);
  EXPECT_NEAR(core.encodeSeconds(4.5e9), 1, 1e-5);
  EXPECT_NEAR(shared.encodeSeconds(4.5e9), 2, 1e-5);
  CodecCurve device = memoryBoundCurve(*findCodec("bf16"), 1.5e12, 2e-6);
  EXPECT_NEAR(device.encodeSeconds(1e9), 1e-3 + 2e-6, 1e-9);
}

} // namespace
