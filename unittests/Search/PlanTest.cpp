// SPDX-License-Identifier: Apache-2.0
#include "kerf/Search/Plan.h"
#include <gtest/gtest.h>

using namespace kerf;

TEST(Plan, RecomputationByLayers) {
  auto plan = parsePlan(R"({"kerf": 1, "recompute": {"4-7": "full", "h.1*": "selective", "2?": "full"}})", "p");
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->recompute.empty());
  EXPECT_TRUE(plan->decidesRecompute());
  auto mode = [&](int64_t layer) { return recomputeModeOf(*plan, 0, layer, "h." + std::to_string(layer)); };
  EXPECT_EQ(mode(3), Recompute::None);
  EXPECT_EQ(mode(4), Recompute::Full);
  EXPECT_EQ(mode(7), Recompute::Full);
  EXPECT_EQ(mode(8), Recompute::None);
  EXPECT_EQ(mode(12), Recompute::Selective);
  EXPECT_EQ(mode(25), Recompute::Full);
  EXPECT_EQ(recomputeModeOf(*plan, 0, 12, ""), Recompute::None) << "its name is not known";
  auto again = parsePlan(toJson(*plan), "written");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->recomputeLayers, plan->recomputeLayers);
}

TEST(Plan, StrategiesAndRecomputationOfOpsKeepTheirOrder) {
  // In each list the first pattern that matches counts, so both orders have to be kept.
  auto plan = parsePlan(R"({"kerf": 1, "ops": {"*attn*": {"recompute": false},
                                              "*c_fc*": {"strategy": {"n": ["model"]}},
                                              "*attn.q*": {"strategy": {}, "recompute": true},
                                              "*": {"recompute": true},
                                              "*c_proj*": {"strategy": {"k": ["model"]}}}})",
                        "p");
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->recomputeOps, (std::vector<OpRecompute>{{"*attn*", false}, {"*attn.q*", true}, {"*", true}}));
  ASSERT_EQ(plan->ops.size(), 3u);
  EXPECT_EQ(plan->ops[1].pattern, "*attn.q*");
  auto again = parsePlan(toJson(*plan), "p");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->recomputeOps, plan->recomputeOps);
  EXPECT_EQ(again->ops, plan->ops);
}

TEST(Plan, RecomputationByStages) {
  auto plan = parsePlan(R"({"kerf": 1, "mesh": {"stage": 2}, "recompute": ["none", "full"]})", "p");
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(recomputeModeOf(*plan, 0, 5, ""), Recompute::None);
  EXPECT_EQ(recomputeModeOf(*plan, 1, 5, ""), Recompute::Full);
  EXPECT_EQ(recomputeModeOf(Plan(), 1, 5, ""), Recompute::None);
}

TEST(Plan, RecomputationThatIsRefused) {
  auto message = [](const char *recompute) {
    auto plan = parsePlan(std::string(R"({"kerf": 1, "recompute": )") + recompute + "}", "p");
    return plan ? std::string() : plan.error().message;
  };
  EXPECT_EQ(message(R"({"0": "most"})"),
            "p: recompute[\"0\"] is \"most\"; it has to be \"none\" or \"selective\" or \"pointwise\" or "
            "\"except-attention\" or \"full\" or \"offload\"");
  EXPECT_NE(message("{}").find("patterns of layers"), std::string::npos);
  EXPECT_NE(message(R"([{"0": "full"}])").find("recompute[0]"), std::string::npos);
}

TEST(Plan, MicrobatchesInFlight) {
  auto plan = [](const char *inFlight) {
    return parsePlan(std::string(R"({"kerf": 1, "schedule": {"name": "zero-bubble", "variant": "2p", "in_flight": )") +
                         inFlight + "}}",
                     "p");
  };
  EXPECT_EQ(plan("7")->schedule.inFlight, std::vector<int64_t>{7});
  auto list = plan("[7, 6, 5]");
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_EQ(list->schedule.inFlight, (std::vector<int64_t>{7, 6, 5}));
  EXPECT_EQ(parsePlan(toJson(*list), "written")->schedule, list->schedule);
  EXPECT_NE(plan("[7, 0]").error().message.find("schedule.in_flight[1] is 0"), std::string::npos);
  EXPECT_NE(plan("[]").error().message.find("schedule.in_flight is []"), std::string::npos);
  EXPECT_FALSE(plan("1.5"));
  EXPECT_FALSE(plan("\"all\""));
}

TEST(Plan, StagesThatEndAtOps) {
  auto plan = parsePlan(R"({"kerf": 1, "mesh": {"stage": 2}, "schedule": {"name": "interleaved"}, "stages":
      [{"until": "b", "stage": 1, "chunk": 0}, {"until": "a", "stage": 0, "chunk": 0}, {"stage": 1, "chunk": 1},
       {"until": "c*", "stage": 0, "chunk": 1}]})",
                        "p");
  ASSERT_TRUE(plan) << plan.error().message;
  auto cuts = stageCuts(*plan, "p");
  ASSERT_TRUE(cuts) << cuts.error().message;
  EXPECT_EQ(*cuts, (std::vector<std::string>{"a", "b", "c*"})) << "by part, not as they are listed";
  auto again = parsePlan(toJson(*plan), "written");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->stages, plan->stages);
  auto layers = parsePlan(R"({"kerf": 1, "mesh": {"stage": 2}, "stages": [{"layers": [0, 1]}, {"layers": []}]})", "p");
  ASSERT_TRUE(layers) << layers.error().message;
  EXPECT_TRUE(stageCuts(*layers, "p")->empty());
}

TEST(Plan, StagesAtOpsThatAreRefused) {
  auto message = [](const char *stages) {
    auto plan = parsePlan(std::string(R"({"kerf": 1, "mesh": {"stage": 3}, "stages": )") + stages + "}", "p");
    if (!plan)
      return plan.error().message;
    auto cuts = stageCuts(*plan, "p");
    return cuts ? std::string() : cuts.error().message;
  };
  EXPECT_EQ(message(R"([{"until": "a"}, {"until": "b"}, {}])"), "");
  EXPECT_EQ(message(R"([{"until": "a"}, {}])"),
            "p: stages: there are 2 entries for 3 stages of 1 chunks; give one entry for each chunk");
  EXPECT_EQ(message(R"([{"until": "a"}, {}, {}])"),
            "p: stages: chunk 0 of stage 1 has no \"until\"; only the last part may leave it out");
  EXPECT_EQ(message(R"([{"until": "a"}, {"until": "b"}, {"until": "c"}])"),
            "p: stages: chunk 0 of stage 2 is the last part, which holds all remaining ops; leave its \"until\" out");
  EXPECT_EQ(message(R"([{"until": "a"}, {"until": "b", "stage": 0}, {}])"),
            "p: stages: chunk 0 of stage 0 is given twice; leave one entry");
  EXPECT_EQ(message(R"([{"until": "a"}, {"until": "b", "stage": 3}, {}])"),
            "p: stages: there is no chunk 0 of stage 3; the plan has 3 stages of 1 chunks");
  EXPECT_EQ(
      message(R"([{"until": "a"}, {"layers": [0, 1]}, {}])"),
      "p: stages[1] has \"layers\" and other entries have \"until\"; give all entries \"layers\", or all \"until\"");
  EXPECT_EQ(message(R"([{"until": ""}, {"until": "b"}, {}])"),
            "p: stages[0].until is \"\"; it has to be the name of an operator, or a pattern of names");
  EXPECT_NE(message(R"([{"ranks": 4, "until": "a"}, {"until": "b"}, {}])").find("ranks"), std::string::npos);
}
TEST(Plan, CompressionByParameters) {
  const char *text = R"({"kerf": 1, "compression": {
    "h.3.*": {"codec": "none"},
    "h.*.weight": {"codec": "int8", "pieces": 4, "hierarchy": true, "first_step": 10},
    "lm_head": {"codec": "onebit", "scheme": "all-gather"}, "*": {"codec": "bf16"}}})";
  auto plan = parsePlan(text, "p.json");
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_EQ(plan->compression.size(), 4u);
  EXPECT_EQ(plan->compression[0].choice.codec, nullptr);
  const compression::SyncChoice &layers = plan->compression[1].choice;
  EXPECT_EQ(layers.codec->name, "int8");
  EXPECT_EQ(layers.scheme, compression::SyncScheme::TwoStage); // int8 cannot be summed
  EXPECT_EQ(layers.pieces, 4);
  EXPECT_TRUE(layers.hierarchy);
  EXPECT_FALSE(layers.errorFeedback);
  EXPECT_EQ(layers.firstStep, 10);
  EXPECT_TRUE(plan->compression[2].choice.errorFeedback); // onebit is biased
  EXPECT_EQ(plan->compression[3].choice.scheme, compression::SyncScheme::AllReduce);
  auto again = parsePlan(toJson(*plan), "p.json");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->compression, plan->compression);
}

TEST(Plan, CompressionThatIsRefused) {
  for (auto [entry, message] :
       {std::pair(R"([])", "it has to be an object of patterns"),
        {R"({"*": "int8"})", "it has to be an object like"},
        {R"({"*": {}})", "codec is missing"},
        {R"({"*": {"codec": "int9"}})", "did you mean \"int8\""},
        {R"({"*": {"codec": "int8", "sheme": "two-stage"}})", "unknown key \"sheme\""},
        {R"({"*": {"codec": "int8", "scheme": "ring"}})", "scheme is \"ring\""},
        {R"({"*": {"codec": "int8", "pieces": 0}})", "pieces is 0; it has to be an integer from 1"},
        {R"({"*": {"codec": "int8", "hierarchy": 1}})", "hierarchy is 1; it has to be true or false"},
        {R"({"*": {"codec": "int8", "first_step": -1}})", "first_step is -1"}}) {
    auto plan = parsePlan(std::string(R"({"kerf": 1, "compression": )") + entry + "}", "p.json");
    ASSERT_FALSE(plan) << entry;
    EXPECT_NE(plan.error().message.find(message), std::string::npos) << plan.error().message;
  }
}
