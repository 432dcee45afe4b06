// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/JobSettings.h"
#include "kerf/Compiler/CompileJob.h"
#include "kerf/Compiler/SavedJob.h"
#include <gtest/gtest.h>

namespace kerf {
namespace {

using Json = nlohmann::ordered_json;
using Folds = std::vector<std::vector<int64_t>>;

TEST(JobSettings, AreReadFromJson) {
  auto read = readSettings(Json::parse(R"({"optimizer": "adamw", "beta1": 0.8, "global_batch": 8, "memory": "16GiB",
      "group": ["*.bias:decay=0"], "expert_capacity": "exact", "seed": 7, "all_ranks": true, "frozen": "wte.*"})"),
                           /*strict=*/true);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->model.optimizer, "adamw");
  EXPECT_EQ(read->model.settings.find("beta1")->second, 0.8);
  EXPECT_EQ(read->model.globalBatch, 8);
  EXPECT_EQ(read->model.frozen, std::vector<std::string>{"wte.*"});
  EXPECT_EQ(read->model.groups.front().weightDecay, 0.0);
  EXPECT_EQ(read->model.expertCapacity, kExactExperts);
  EXPECT_EQ(read->search.memory, int64_t{16} << 30);
  EXPECT_TRUE(read->search.allRanks);
  EXPECT_EQ(read->seed, 7u);
}

TEST(JobSettings, EverySettingOfASavedJobIsRead) {
  for (const std::string &name : jobSettingNames()) {
    auto read = readSettings({{name, Json::array({1, "x"})}}, /*strict=*/false); // a value of no setting's type
    ASSERT_FALSE(read) << name;
    EXPECT_FALSE(read.error().message.find("there is no setting") != std::string::npos) << read.error().message;
  }
}

TEST(JobSettings, WrongValuesAreRefused) {
  for (auto [text, message] : std::initializer_list<std::pair<const char *, const char *>>{
           {R"({"ranks": 0})", "<ranks>: '0' is not a whole number from 1 to 16777216"},
           {R"({"ranks": 1.5})", "<ranks>: '1.5' is not a whole number from 1 to 16777216"},
           {R"({"margin": 1})", "<margin>: '1' is not a number from 0 to 0.99"},
           {R"({"memory": "3furlongs"})",
            "<memory>: '3furlongs' is not a number of bytes such as 85899345920, 80GiB or 80GB"},
           {R"({"dtype": "f12"})", "<dtype> is 'f12'; it has to be one of f32, f64, bf16, f16, f8"},
           {R"({"global_batch": 18446744073709551615})",
            "<global-batch>: '18446744073709551615' is not a whole number of 1 or more"},
           {R"([])", "the settings of a job are []; they have to be an object of names and values"}}) {
    auto read = readSettings(Json::parse(text), /*strict=*/true);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().message, message);
  }
  EXPECT_FALSE(readSettings({{"optimizer", "adamw"}, {"momentum", 0.5}}, /*strict=*/true));
  EXPECT_TRUE(readSettings({{"optimizer", "adamw"}, {"momentum", 0.5}}, /*strict=*/false));
}

TEST(ParameterLayout, FoldsSayWhichSizesADimensionConsistsOf) {
  EXPECT_EQ(foldsOf({768, 2304}, {768, 3, 12, 64}), (Folds{{0}, {1, 2, 3}}));
  EXPECT_EQ(foldsOf({2, 3}, {6}), (Folds{{0}, {0}}));
  EXPECT_EQ(foldsOf({6, 4}, {2, 12}), (Folds{{0, 1}, {1}}));
  EXPECT_EQ(foldsOf({1, 4}, {4}), (Folds{{}, {0}}));
  EXPECT_EQ(foldsOf({}, {}), Folds{});
}

} // namespace
} // namespace kerf
