// SPDX-License-Identifier: Apache-2.0
#include "../../lib/Steps/Buckets.h"
#include "../../lib/Steps/GatherAhead.h"
#include "kerf/Package/Batches.h"

#include <deque>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace kerf::steps {
namespace {
using package::FlatInstruction;
using package::FlatProgram;

/// Builds the body of a flat program op by op. Every value has eight bytes.
struct Body {
  std::deque<package::Instruction> sources; // stay where they are
  FlatProgram flat;

  int value() {
    flat.values.push_back({DType::F64, {1}});
    return int(flat.values.size()) - 1;
  }
  int add(const std::string &op, std::vector<int> operands, const std::string &stream = "") {
    sources.push_back({op, {}, {}, nlohmann::ordered_json::object(), ""});
    if (!stream.empty())
      sources.back().attrs["stream"] = stream;
    int result = value();
    flat.body.push_back({&sources.back(), std::move(operands), {result}});
    return result;
  }
  int reduce(int gradient, const std::string &stream = "gradients") { return add("all_reduce", {gradient}, stream); }

  std::string filled(int64_t bucketBytes) {
    fillBuckets(flat, bucketBytes);
    return text();
  }
  /// Returns the body as text: "add 0 1 -> 2; ..."
  std::string text() const {
    std::string text;
    for (const FlatInstruction &instruction : flat.body) {
      EXPECT_EQ(instruction.others.size() + 1,
                package::isCollective(instruction.source->op) ? instruction.operands.size() : 1);
      text += fmt::format("{}{} {} -> {}", text.empty() ? "" : "; ", instruction.source->op,
                          fmt::join(instruction.operands, " "), fmt::join(instruction.results, " "));
    }
    return text;
  }
};

/// Three gradients, each computed by a kernel, with their reductions and updates.
Body threeGradients() {
  Body body;
  int input = body.value();
  std::vector<int> reduced;
  for (int i = 0; i < 3; ++i)
    reduced.push_back(body.reduce(body.add("neg", {input})));
  for (int pending : reduced)
    body.add("neg", {body.add("wait", {pending})});
  return body;
}

TEST(Buckets, GoWhenTheyHaveTheirBytes) {
  EXPECT_EQ(threeGradients().filled(0), "neg 0 -> 1; all_reduce 1 -> 2; neg 0 -> 3; all_reduce 3 -> 4; neg 0 -> 5; "
                                        "all_reduce 5 -> 6; wait 2 -> 7; neg 7 -> 8; wait 4 -> 9; neg 9 -> 10; "
                                        "wait 6 -> 11; neg 11 -> 12");
  EXPECT_EQ(threeGradients().filled(16), "neg 0 -> 1; neg 0 -> 3; all_reduce 1 3 -> 2 4; neg 0 -> 5; "
                                         "all_reduce 5 -> 6; wait 2 -> 7; neg 7 -> 8; wait 4 -> 9; neg 9 -> 10; "
                                         "wait 6 -> 11; neg 11 -> 12");
  EXPECT_EQ(threeGradients().filled(1000), "neg 0 -> 1; neg 0 -> 3; neg 0 -> 5; all_reduce 1 3 5 -> 2 4 6; "
                                           "wait 2 -> 7; neg 7 -> 8; wait 4 -> 9; neg 9 -> 10; wait 6 -> 11; "
                                           "neg 11 -> 12");
}

TEST(Buckets, WhatIsNeededIsNotWaitedForByOthers) {
  Body body;
  int input = body.value(), first = body.reduce(input);
  int used = body.add("neg", {body.add("wait", {first})});
  body.reduce(used);
  EXPECT_EQ(body.filled(1000), "all_reduce 0 -> 1; wait 1 -> 2; neg 2 -> 3; all_reduce 3 -> 4");
}

TEST(Buckets, NeighboursOfOneStreamAreOne) {
  Body body;
  int input = body.value(), a = body.reduce(input, "collectives"), waited = body.add("wait", {a});
  int b = body.reduce(input, "collectives"), c = body.reduce(input, "other");
  body.add("add", {waited, body.add("wait", {b})});
  body.add("neg", {body.add("wait", {c})});
  EXPECT_EQ(body.filled(1000), "all_reduce 0 0 -> 1 3; all_reduce 0 -> 4; wait 1 -> 2; wait 3 -> 5; add 2 5 -> 6; "
                               "wait 4 -> 7; neg 7 -> 8");
}

TEST(Buckets, AcrossKernelsOnlyWhatNobodyNeeds) {
  for (bool needed : {false, true}) {
    Body body;
    int input = body.value(), a = body.reduce(input, "collectives"),
        b = body.reduce(body.add("neg", {input}), "collectives");
    for (int pending : {a, b})
      if (int waited = body.add("wait", {pending}); needed)
        body.add("neg", {waited});
    EXPECT_EQ(body.filled(1000), needed ? "all_reduce 0 -> 1; neg 0 -> 2; all_reduce 2 -> 3; wait 1 -> 4; "
                                          "neg 4 -> 5; wait 3 -> 6; neg 6 -> 7"
                                        : "neg 0 -> 2; all_reduce 0 2 -> 1 3; wait 1 -> 4; wait 3 -> 5");
  }
}

TEST(Buckets, SumsOfMicrobatchesArePutOffUntilTheNextBucket) {
  Body body;
  int input = body.value(), sum = body.value();
  for (int layer = 0; layer < 2; ++layer)
    body.add("accumulate", {sum, body.add("wait", {body.reduce(body.add("neg", {input}))})});
  int last = int(body.flat.values.size()) - 1;
  body.add("neg", {last});
  EXPECT_EQ(body.filled(1), "neg 0 -> 2; all_reduce 2 -> 3; neg 0 -> 6; wait 3 -> 4; accumulate 1 4 -> 5; "
                            "all_reduce 6 -> 7; wait 7 -> 8; accumulate 1 8 -> 9; neg 9 -> 10");
}

TEST(Buckets, ResultsOfAnEarlierBucketLeaveTheNextOneOpen) {
  // Two gradients that are sent in codes: each is coded and sent, added by its owner, and gathered.
  Body body;
  int input = body.value();
  std::vector<int> sent, gathered;
  for (int i = 0; i < 2; ++i)
    sent.push_back(body.add("all_to_all", {body.add("neg", {input})}, "gradients"));
  for (int pending : sent)
    gathered.push_back(body.add("all_gather", {body.add("neg", {body.add("wait", {pending})})}, "gradients"));
  for (int pending : gathered)
    body.add("neg", {body.add("wait", {pending})});
  EXPECT_EQ(body.filled(1000), "neg 0 -> 1; neg 0 -> 3; all_to_all 1 3 -> 2 4; wait 2 -> 5; neg 5 -> 6; wait 4 -> 8; "
                               "neg 8 -> 9; all_gather 6 9 -> 7 10; wait 7 -> 11; neg 11 -> 12; wait 10 -> 13; "
                               "neg 13 -> 14");
}

TEST(Buckets, PayloadsFillABucketByTheirGradients) {
  for (int64_t gradientBytes : {8, 16}) {
    Body body;
    int input = body.value();
    for (int i = 0; i < 3; ++i) {
      body.reduce(body.add("neg", {input}));
      body.sources.back().attrs[package::kGradientBytes] = gradientBytes;
    }
    EXPECT_EQ(body.filled(32), gradientBytes == 8
                                   ? "neg 0 -> 1; neg 0 -> 3; neg 0 -> 5; all_reduce 1 3 5 -> 2 4 6"
                                   : "neg 0 -> 1; neg 0 -> 3; all_reduce 1 3 -> 2 4; neg 0 -> 5; all_reduce 5 -> 6");
  }
}

TEST(GatherAhead, ALayerAheadAllOfALayerAtOnce) {
  Body body;
  std::vector<int> args = {body.value(), body.value(), body.value()};
  for (size_t a = 0; a < args.size(); ++a)
    body.flat.args.push_back({a, 0, args[a]});
  auto use = [&](int operand, int call) {
    body.add("neg", {body.add("wait", {body.add("all_gather", {operand})})});
    return body.flat.body.end()[-3].call = call, int(body.flat.values.size()) - 1;
  };
  use(args[0], 0);
  use(args[1], 0);
  use(use(args[2], 1), 1); // what is made on the way can't be gathered before
  gatherAhead(body.flat);
  EXPECT_EQ(body.text(), "all_gather 0 1 -> 3 6; all_gather 2 -> 9; wait 3 -> 4; neg 4 -> 5; wait 6 -> 7; neg 7 -> 8; "
                         "wait 9 -> 10; neg 10 -> 11; all_gather 11 -> 12; wait 12 -> 13; neg 13 -> 14");
}

} // namespace
} // namespace kerf::steps
