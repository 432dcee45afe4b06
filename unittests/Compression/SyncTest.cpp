// SPDX-License-Identifier: Apache-2.0
#include "RandomProblems.h"
#include "kerf/Compression/Secopa.h"

#include <gtest/gtest.h>

using namespace kerf::compression;
using kerf::Collective;

namespace {

/// A network on which every collective takes 1 s for each 1e9 bytes.
SyncNetwork simpleNetwork(int64_t members, int64_t inner = 1) {
  return {members, inner, [](Collective, Reach, double bytes) { return bytes / 1e9; }};
}

SyncChoice choiceOf(const char *codec, SyncScheme scheme, bool hierarchy = false, int64_t pieces = 1) {
  return {findCodec(codec), scheme, pieces, hierarchy, findCodec(codec)->biased, 0};
}

TEST(Sync, CostsAreThoseOfTheStages) {
  SyncGradient gradient{{1000, 1000}, 4, false, 0}; // 4 MB
  SyncNetwork network = simpleNetwork(4);
  CodecCurve curve{0, 1e-9, 0, 0.5e-9}; // encodes 1 GB/s, decodes 2 GB/s
  SyncCost plain = syncCost({}, gradient, network, curve);
  EXPECT_DOUBLE_EQ(plain.wire, 4e-3);
  EXPECT_DOUBLE_EQ(plain.compute(), 0);
  SyncCost half = syncCost(choiceOf("bf16", SyncScheme::AllReduce), gradient, network, curve);
  EXPECT_DOUBLE_EQ(half.before, 4e-3);
  EXPECT_NEAR(half.wire, 2e-3, 1e-12);
  EXPECT_DOUBLE_EQ(half.after, 2e-3);
  // Encode 4 ms, all-to-all 1 ms, decode 4 x a quarter 2 ms and encode a quarter 1 ms, all-gather 1 ms, decode 2 ms. A
  // payload has 1,954 blocks of 516 bytes.
  const double sent = 1954 * 516 / 1e9;
  SyncCost two = syncCost(choiceOf("natural", SyncScheme::TwoStage), gradient, network, curve);
  EXPECT_DOUBLE_EQ(two.before, 4e-3);
  EXPECT_NEAR(two.wire, sent + 3e-3 + sent, 1e-12); // the stream waits while the sum is encoded
  EXPECT_DOUBLE_EQ(two.after, 5e-3);
  EXPECT_DOUBLE_EQ(two.last, 2e-3);
  // The gathered payloads of 4 ranks are 4 MB, and each rank decodes 4 of them.
  SyncCost all = syncCost(choiceOf("natural", SyncScheme::AllGather), gradient, network, curve);
  EXPECT_NEAR(all.wire, 4 * sent, 1e-12);
  EXPECT_DOUBLE_EQ(all.after, 8e-3);
  // Plain inside nodes of 2 (4 ms down, 4 ms up), coded between two nodes, of half the elements.
  SyncCost near = syncCost(choiceOf("bf16", SyncScheme::AllReduce, true), gradient, simpleNetwork(4, 2), curve);
  EXPECT_DOUBLE_EQ(near.before, 0);
  EXPECT_NEAR(near.wire, 4e-3 + 2e-3 + 1e-3 + 1e-3 + 4e-3, 1e-12);
  EXPECT_DOUBLE_EQ(near.after, 3e-3);
}

TEST(Sync, SmallGradientsPayTheirShareOfABucket) {
  SyncNetwork late{4, 1, [](Collective, Reach, double bytes) { return 1e-3 + bytes / 1e9; }};
  SyncGradient small{{100, 100}, 4, false, 100'000};
  EXPECT_NEAR(syncCost({}, small, late, {}).wire, (1e-3 + 0.4e-3) / 10, 1e-12);
}

TEST(Sync, PiecesOverlapAsTheFormulaSays) {
  // Encoding at 0.3 GB/s of 64 MB, and a wire that takes about as long.
  SyncGradient gradient{{4096, 4096}, 4, false, 0};
  SyncNetwork net = TestMachines{4, 1, 1}.network();
  CodecCurve slow{2e-6, 1 / 0.3e9, 2e-6, 1 / 20e9};
  SyncChoice one = choiceOf("int8", SyncScheme::TwoStage), many = one;
  many.pieces = bestPieces(one, gradient, net, slow);
  EXPECT_GT(many.pieces, 1);
  EXPECT_GT(soloSeconds(one, gradient, net, slow), 1.5 * soloSeconds(many, gradient, net, slow));
  // T(K) = sum of s(m/K) + (K - 1) max s(m/K), where every stage has a resource of its own.
  SyncStage stages[] = {{StageOn::Compute, 3}, {StageOn::Wire, 5}, {StageOn::InnerWire, 2}};
  EXPECT_DOUBLE_EQ(pipelinedSeconds(stages, 4), 10 + 3 * 5);
  SyncStage shared[] = {{StageOn::Compute, 3}, {StageOn::Wire, 5}, {StageOn::Compute, 4}};
  EXPECT_DOUBLE_EQ(pipelinedSeconds(shared, 4), 12 + 3 * 7);
}

TEST(Sync, BestPiecesAreNextToTheIdealNumber) {
  for (double megabytes : {4.0, 64.0, 256.0}) {
    auto elements = static_cast<int64_t>(megabytes * 1e6 / 4);
    SyncGradient gradient{{elements / 1000, 1000}, 4, false, 0};
    // Stages: encode 100 us + 1 ns/B, all-reduce 200 us + 0.5 ns/B of payload (half as many bytes), decode 0.1 ns/B.
    SyncNetwork network{2, 1, [](Collective, Reach, double bytes) { return 200e-6 + bytes * 4e-9; }};
    CodecCurve curve{100e-6, 0.7e-9, 0, 0.1e-9};
    std::pair<double, double> stages[] = {{100e-6, 0.8e-9}, {200e-6, 2e-9}}; // compute, wire: per f32 byte
    double ideal = std::clamp(idealPieces(stages, 1, megabytes * 1e6), 1.0, 16.0);
    auto best = static_cast<double>(bestPieces(choiceOf("bf16", SyncScheme::AllReduce), gradient, network, curve));
    EXPECT_LE(best, 2 * ideal) << megabytes;
    EXPECT_GE(2 * best, ideal) << megabytes;
  }
}

TEST(Sync, RefusesImpossibleCombinations) {
  SyncGradient matrix{{64, 64}, 4, false, 0}, vector{{64}, 4, false, 0}, shard{{64, 64}, 4, true, 0};
  SyncNetwork flat = simpleNetwork(4), nodes = simpleNetwork(4, 2);
  std::string why;
  EXPECT_FALSE(isPossible(choiceOf("int8", SyncScheme::AllReduce), matrix, flat, &why));
  EXPECT_NE(why.find("cannot be summed"), std::string::npos);
  EXPECT_FALSE(isPossible(choiceOf("powersgd", SyncScheme::AllReduce), vector, flat, &why));
  EXPECT_NE(why.find("matrix"), std::string::npos);
  EXPECT_FALSE(isPossible(choiceOf("topk", SyncScheme::TwoStage), matrix, flat, &why));
  EXPECT_FALSE(isPossible(choiceOf("int8", SyncScheme::TwoStage, true), matrix, flat, &why));
  EXPECT_TRUE(isPossible(choiceOf("int8", SyncScheme::TwoStage, true), matrix, nodes, &why));
  EXPECT_FALSE(isPossible(choiceOf("int8", SyncScheme::TwoStage), shard, flat, &why));
  EXPECT_TRUE(isPossible(choiceOf("int8", SyncScheme::ReduceScatter), shard, flat, &why));
}

TEST(Timeline, EncodingDelaysTheFollowingLayers) {
  StreamLayer coded{.body = 1, .sync = {.before = 0.5, .first = 0.5, .wire = 0.25, .after = 0.25, .last = 0.25}},
      plain{.body = 1, .sync = {}};
  StreamLayer layers[] = {coded, plain, plain};
  StreamEnds ends = runStreams(layers, {});
  EXPECT_DOUBLE_EQ(ends.compute, 3 + 0.5 + 0.25); // decoded before the third layer
  EXPECT_DOUBLE_EQ(ends.codec, 0.75);
  StreamLayer last[] = {plain, plain, coded};
  ends = runStreams(last, {});
  EXPECT_DOUBLE_EQ(ends.compute, 3.5);
  EXPECT_DOUBLE_EQ(ends.communication, 3.5 + 0.25 + 0.25);
}

TEST(Timeline, SendsWhenABucketIsFull) {
  StreamLayer layer{.body = 1, .sync = {.wire = 0.5}, .syncBytes = 10};
  StreamLayer layers[] = {layer, layer, layer};
  std::vector<SendTime> sends;
  StreamEnds ends = runStreams(layers, {.bucketBytes = 20}, &sends);
  EXPECT_DOUBLE_EQ(ends.communication, 3 + 0.5);
  EXPECT_DOUBLE_EQ(sends[0].start, 2);
  EXPECT_DOUBLE_EQ(sends[0].end, 3);
  EXPECT_TRUE(sends[2].start == 3 && !sends[2].idleBefore);
}

/// Facts: the plan that HiPress's source ships for the gradients of VGG19 on 4 nodes with parameter servers
/// (src/SeCoPa/SeCoPaPlan.txt of HiPress, commit f5202ee50efe).
struct SecopaRow {
  double elements;
  bool compress;
  int64_t partitions;
};
constexpr SecopaRow kVgg19[] = {{1728, false, 4},     {64, false, 4},     {36864, false, 4},   {73728, false, 4},
                                {128, false, 4},      {147456, false, 4}, {294912, false, 4},  {256, false, 4},
                                {589824, false, 4},   {1179648, true, 2}, {512, false, 4},     {2359296, true, 4},
                                {102760448, true, 4}, {4096, false, 4},   {16777216, true, 4}, {4096000, true, 4},
                                {1048576, true, 1}};

TEST(Secopa, GivesThePublishedPlan) {
  SecopaModel model = *publishedSecopa(4);
  for (const SecopaRow &row : kVgg19) {
    SecopaChoice choice = secopaChoice(model, SecopaTopology::ParameterServer, row.elements);
    EXPECT_EQ(choice.compress, row.compress) << row.elements;
    EXPECT_EQ(choice.partitions, row.partitions) << row.elements;
  }
}

TEST(Secopa, CompressesFromLargerGradientsOnMoreNodes) {
  for (auto [nodes, mebibytes] : {std::pair{4, 4}, {8, 8}, {16, 16}})
    for (SecopaTopology topology : {SecopaTopology::ParameterServer, SecopaTopology::Ring}) {
      SecopaModel model = *publishedSecopa(nodes);
      double elements = mebibytes * 1048576.0 / 4;
      EXPECT_TRUE(secopaChoice(model, topology, elements).compress) << nodes;
      EXPECT_FALSE(secopaChoice(model, topology, elements / 2).compress) << nodes;
    }
  SecopaChoice four = secopaChoice(*publishedSecopa(4), SecopaTopology::ParameterServer, 102760448);
  EXPECT_NEAR(four.plainMilliseconds, 140.2, 0.1);
  EXPECT_NEAR(four.codedMilliseconds, 11.95, 0.05);
  SecopaChoice sixteen = secopaChoice(*publishedSecopa(16), SecopaTopology::ParameterServer, 102760448);
  EXPECT_NEAR(sixteen.plainMilliseconds, 168, 0.5);
  EXPECT_NEAR(sixteen.codedMilliseconds, 18.9, 0.1);
  EXPECT_FALSE(publishedSecopa(5));
}

} // namespace
