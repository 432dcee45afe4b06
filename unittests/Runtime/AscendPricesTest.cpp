// SPDX-License-Identifier: Apache-2.0
// The prices of calls on Ascend NPUs, and the choice between compositions by them. No library of CANN is needed.
#include "../../lib/Runtime/Ascend/Prices.h"
#include "kerf/CostModel/Cluster.h"

#include <gtest/gtest.h>
#include <set>

namespace kerf::runtime::ascend {
namespace {

constexpr Prices kPlain{1, 1000, 100, 200, 50}; // 1 s a launch, 1000 bytes/s; FLOP/s of f32, 16-bit and flash attention

View dense(const Shape &sizes, DType dtype = DType::F32) { return {nullptr, dtype, sizes, rowMajorStrides(sizes)}; }

/// An instruction, and the operators of its calls.
struct Composed {
  package::Instruction instruction;
  KernelRequest request;
  Composed(const std::string &op, nlohmann::ordered_json attrs, const std::vector<Shape> &operands, const Shape &result)
      : instruction{}, request{instruction, {}, {}, mesh()} {
    instruction.op = op;
    instruction.attrs = std::move(attrs);
    for (const Shape &shape : operands)
      request.operands.push_back({nullptr, DType::F32, shape});
    request.results.push_back({nullptr, DType::F32, result});
  }
  static const Mesh &mesh() {
    static const Mesh one{{{"a", 1}}};
    return one;
  }
  std::vector<std::string> operators(const Target &target) const {
    auto calls = callsOf(request, target);
    EXPECT_TRUE(calls) << calls.error().message;
    std::vector<std::string> names;
    if (calls)
      for (const Call &call : calls->calls) {
        const auto *one = std::get_if<OperatorCall>(&call);
        const bool isCopy = std::holds_alternative<CopyCall>(call);
        names.emplace_back(one ? std::string(one->one->name) : isCopy ? "copy" : "other");
      }
    return names;
  }
};

Target targetOf(const Prices &prices, std::set<std::string> missing = {}) {
  Target target;
  target.prices = &prices;
  target.has = [missing](const Operator &one) { return !missing.contains(one.name); };
  return target;
}

using Names = std::vector<std::string>;

TEST(AscendPrices, AreTheRatesOfTheClusterFilesTimesTheCurvesOfTheCostModel) {
  for (const auto &[file, generation] :
       {std::pair("ascend-910a.json", Generation::First), std::pair("ascend-910b.json", Generation::Later)}) {
    auto cluster = readCluster(std::string(KERF_CLUSTERS) + "/" + file);
    ASSERT_TRUE(cluster) << cluster.error().message;
    const DeviceSpec &device = cluster->device;
    const Prices &prices = pricesOf(generation);
    EXPECT_DOUBLE_EQ(prices.launchSeconds, device.curves.launchSeconds);
    EXPECT_DOUBLE_EQ(prices.bytesPerSecond, device.memoryBandwidth * device.curves.memoryEfficiency);
    EXPECT_DOUBLE_EQ(prices.flopsOfFloat, device.peakFlops.at("f32") * device.curves.productEfficiency);
    EXPECT_DOUBLE_EQ(prices.flopsOfHalf, device.peakFlops.at("f16") * device.curves.productEfficiency);
    EXPECT_DOUBLE_EQ(prices.flopsOfFlash, device.peakFlops.at("f16") * device.curves.attentionEfficiency);
  }
}

TEST(AscendPrices, CountLaunchesBytesAndProducts) {
  const View x = dense({10, 25}), y = dense({10, 25}); // 1000 bytes each
  const OperatorCall exp{&op::Exp, {x, y}};
  EXPECT_DOUBLE_EQ(secondsOf({exp}, kPlain), 1 + 2);
  EXPECT_DOUBLE_EQ(secondsOf({exp, exp}, kPlain), 6);
  EXPECT_DOUBLE_EQ(secondsOf({CopyCall{nullptr, nullptr, 500}}, kPlain), 1 + 1);
  EXPECT_DOUBLE_EQ(secondsOf({ClearCall{nullptr, 500}}, kPlain), 1 + 0.5);
  // A transposed operand is copied first: one launch more, and its bytes are written and read once more.
  EXPECT_DOUBLE_EQ(secondsOf({OperatorCall{&op::Exp, {permuted(x, {1, 0}), dense({25, 10})}}}, kPlain), 2 + 4);
  // A repeated row is read once, and its copy has all elements.
  EXPECT_DOUBLE_EQ(secondsOf({OperatorCall{&op::Exp, {broadcast(dense({25}), {10, 25}, {1}), y}}}, kPlain),
                   2 + (0.1 + 1.1 + 1));
  // A product reads transposed factors, and takes the larger of its time in memory and that of 2 m n k operations.
  const View a = permuted(dense({5, 10}), {1, 0}), b = dense({5, 10}), c = dense({10, 10});
  EXPECT_DOUBLE_EQ(secondsOf({OperatorCall{&op::Matmul, {a, b, c, int64_t(0)}}}, kPlain), 1 + 1000.0 / 100);
  EXPECT_DOUBLE_EQ(
      secondsOf({OperatorCall{&op::Matmul,
                              {asType(a, DType::F16), asType(b, DType::F16), asType(c, DType::F16), int64_t(0)}}},
                kPlain),
      1 + 1000.0 / 200);
}

TEST(AscendPrices, TheFastestCompositionOfAPoolingIsTaken) {
  auto pool = [](const Shape &x, const Shape &window, const Shape &y, const char *kind) {
    Shape ones(x.size(), 1), zeros(x.size(), 0);
    return Composed(
        "reduce_window",
        {{"kind", kind}, {"window", window}, {"strides", ones}, {"dilations", ones}, {"low", zeros}, {"high", zeros}},
        {x}, y);
  };
  // A window as large as the tensor is one reduction.
  EXPECT_EQ(pool({1, 4, 4}, {1, 4, 4}, {1, 1, 1}, "max").operators(targetOf(kPlain)), Names{"aclnnAmax"});
  EXPECT_EQ(pool({1, 4, 4}, {1, 4, 4}, {1, 1, 1}, "sum").operators(targetOf(kPlain)), Names{"aclnnReduceSum"});
  // Without it, one dimension after the other: 3 + 3 calls, and not 15 for all places.
  EXPECT_EQ(pool({1, 4, 4}, {1, 4, 4}, {1, 1, 1}, "max").operators(targetOf(kPlain, {"aclnnAmax"})),
            Names(6, "aclnnMaximum"));
  EXPECT_EQ(pool({1, 9, 9}, {1, 2, 2}, {1, 8, 8}, "sum").operators(targetOf(kPlain)), Names(2, "aclnnAdd"));
  // Windows that hardly overlap: the first dimension alone would make a tensor that is nearly as large as x. Where
  // launches cost nothing, fewer bytes win.
  Composed wide("reduce_window",
                {{"kind", "max"},
                 {"window", {1, 2, 2}},
                 {"strides", {1, 1, 400}},
                 {"dilations", {1, 1, 1}},
                 {"low", {0, 0, 0}},
                 {"high", {0, 0, 0}}},
                {{1, 1000, 1000}}, {1, 999, 3});
  constexpr Prices kNoLaunch{0, 1000, 100, 200, 50}, kOnlyLaunch{1, 1e30, 100, 200, 50};
  EXPECT_EQ(wide.operators(targetOf(kNoLaunch)),
            (Names{"aclnnInplaceCopy", "aclnnMaximum", "aclnnMaximum", "aclnnMaximum"}));
  EXPECT_EQ(wide.operators(targetOf(kOnlyLaunch)), Names(2, "aclnnMaximum"));
}

TEST(AscendPrices, AProductThatAddsIsOneOperatorWhereItIsThere) {
  auto product = [](const Shape &x, const Shape &y, const Shape &z, nlohmann::ordered_json batch, int64_t contracted) {
    return Composed("dot_general",
                    {{"lhs_batching", batch},
                     {"rhs_batching", batch},
                     {"lhs_contracting", {contracted + 1}},
                     {"rhs_contracting", {contracted}}},
                    {x, y, z}, z);
  };
  const auto none = nlohmann::ordered_json::array();
  Composed plain = product({4, 5}, {5, 6}, {4, 6}, none, 0), batched = product({2, 4, 5}, {2, 5, 6}, {2, 4, 6}, {0}, 1),
           two = product({2, 3, 4, 5}, {2, 3, 5, 6}, {2, 3, 4, 6}, {0, 1}, 2);
  EXPECT_EQ(plain.operators(targetOf(kPlain)), Names{"aclnnAddmm"});
  EXPECT_EQ(batched.operators(targetOf(kPlain)), Names{"aclnnBaddbmm"});
  EXPECT_EQ(plain.operators(targetOf(kPlain, {"aclnnAddmm"})), (Names{"aclnnMatmul", "aclnnAdd"}));
  EXPECT_EQ(two.operators(targetOf(kPlain)), (Names{"aclnnMatmul", "aclnnAdd"}));
}

TEST(AscendPrices, AMissingOperatorGivesWayToTheNextCompositionByPrice) {
  Composed byErf("gelu", {{"approximate", false}}, {{8}}, {8}), byTanh("gelu", {{"approximate", true}}, {{8}}, {8});
  EXPECT_EQ(byErf.operators(targetOf(kPlain)), Names{"aclnnGeluV2"});
  EXPECT_EQ(byErf.operators(targetOf(kPlain, {"aclnnGeluV2"})), Names{"aclnnGelu"});
  EXPECT_EQ(byTanh.operators(targetOf(kPlain, {"aclnnGeluV2"})).front(), "aclnnMul");
  EXPECT_EQ(byErf.operators(targetOf(kPlain, {"aclnnGeluV2", "aclnnGelu"})).front(), "aclnnMuls");
  // Where no composition has all its operators, the cheapest one is bound, and names what is missing.
  EXPECT_EQ(byErf.operators(targetOf(kPlain, {"aclnnGeluV2", "aclnnGelu", "aclnnMuls"})), Names{"aclnnGeluV2"});
}

TEST(AscendPrices, MemoryThatIsPlannedWithoutAddressesIsThatOfTheRun) {
  const auto none = nlohmann::ordered_json::array();
  Composed product(
      "dot_general",
      {{"lhs_batching", none}, {"rhs_batching", none}, {"lhs_contracting", {0, 2}}, {"rhs_contracting", {0, 1}}},
      {{3, 40, 5}, {3, 5, 60}, {40, 60}}, {40, 60}),
      copied("reduce_window",
             {{"kind", "max"}, {"window", {1}}, {"strides", {1}}, {"dilations", {1}}, {"low", {0}}, {"high", {0}}},
             {{8}}, {8});
  for (Composed *one : {&product, &copied}) {
    auto planned = callsOf(one->request, targetOf(kPlain));
    // The result lies where the last operand was.
    std::vector<std::byte> memory(1 << 16), scratch(1 << 20);
    for (TensorView &operand : one->request.operands)
      operand.data = memory.data() + 16384 * (&operand - one->request.operands.data());
    one->request.results[0].data = one->request.operands.back().data;
    one->request.scratch = scratch.data();
    auto run = callsOf(one->request, targetOf(kPlain));
    ASSERT_TRUE(planned && run);
    EXPECT_EQ(run->scratchBytes, planned->scratchBytes);
  }
}

} // namespace
} // namespace kerf::runtime::ascend
