// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compression/Codec.h"

#include <gtest/gtest.h>
#include <set>

using namespace kerf::compression;

namespace {

int64_t bytes(const char *codec, std::vector<int64_t> shape) { return payloadBytes(*findCodec(codec), shape); }

TEST(Codec, PayloadsHaveTheBytesOfTheirFormats) {
  EXPECT_EQ(bytes("bf16", {1000}), 2000);
  EXPECT_EQ(bytes("fp16", {7}), 14);
  EXPECT_EQ(bytes("int8", {1000}), 1000 + 4 * 4);
  EXPECT_EQ(bytes("int4", {257}), 129 + 2 * 4);
  EXPECT_EQ(bytes("onebit", {9}), 2 + 4);
  EXPECT_EQ(bytes("sign", {16}), 2);
  EXPECT_EQ(bytes("terngrad", {5}), 2 + 4);
  EXPECT_EQ(bytes("tbq", {4}), 1);
  EXPECT_EQ(bytes("topk", {1000}), 4 + 8 * 10);
  EXPECT_EQ(bytes("topk-sampled", {1000}), 4 + 8 * 13);
  EXPECT_EQ(bytes("dgc", {100000}), 4 + 8 * 130);
  EXPECT_EQ(bytes("graddrop", {1000}), 4 + 8 * 13);
  EXPECT_EQ(bytes("randomk", {1000}), 400);
  EXPECT_EQ(bytes("powersgd", {1024, 1024}), 4 * 4 * 2048);
  EXPECT_EQ(bytes("powersgd", {64, 3, 7, 7}), 4 * 4 * (64 + 147));
  EXPECT_EQ(bytes("natural", {31}), 31);
  EXPECT_EQ(bytes("qsgd", {256}), 256 + 2 * 4);
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
  EXPECT_EQ(names.size(), 16u);
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
  EXPECT_EQ(stateBytes(*findCodec("dgc"), shape, true, 0), 4 * 10000);
}

TEST(Codec, CurvesAreStartAndSecondsPerByte) {
  CodecCurve core = coreCurve(*findCodec("int8"), 1), shared = coreCurve(*findCodec("int8"), 2);
  EXPECT_NEAR(core.encodeSeconds(4.5e9), 1, 1e-5);
  EXPECT_NEAR(shared.encodeSeconds(4.5e9), 2, 1e-5);
  CodecCurve device = memoryBoundCurve(*findCodec("bf16"), 1.5e12, 2e-6);
  EXPECT_NEAR(device.encodeSeconds(1e9), 1e-3 + 2e-6, 1e-9);
}

} // namespace
