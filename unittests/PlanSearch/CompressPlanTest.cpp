// SPDX-License-Identifier: Apache-2.0
#include "kerf/PlanSearch/CompressPlan.h"
#include "kerf/Support/Glob.h"

#include <gtest/gtest.h>
#include <random>

using namespace kerf;
using namespace kerf::compression;

namespace {

SyncChoice choiceOf(const char *codec) {
  return *codec ? SyncChoice{findCodec(codec), SyncScheme::TwoStage, 1, false, false, 0} : SyncChoice();
}

const SyncChoice *firstMatch(const std::vector<CompressionPin> &pins, const std::string &name) {
  for (const CompressionPin &pin : pins)
    if (globMatch(pin.pattern, name))
      return &pin.choice;
  return nullptr;
}

TEST(CompressPlan, PatternsCoverWholeLayersWithOneEntry) {
  std::vector<std::string> names;
  std::vector<SyncChoice> choices;
  for (int layer = 0; layer < 12; ++layer)
    for (auto [rest, codec] : {std::pair(".attn.weight", "int8"), {".norm.weight", ""}, {".mlp.weight", "int4"}}) {
      names.push_back("transformer.h." + std::to_string(layer) + rest);
      choices.push_back(choiceOf(layer == 3 && std::string(rest) == ".mlp.weight" ? "" : codec));
    }
  std::vector<CompressionPin> pins = patternsOf(names, choices);
  ASSERT_EQ(pins.size(), 3u);
  EXPECT_EQ(pins[0].pattern, "transformer.h.3.mlp.weight"); // the exception comes first
  EXPECT_EQ(pins[0].choice.codec, nullptr);
  EXPECT_EQ(pins[1].pattern, "transformer.h.*.attn.weight");
  EXPECT_EQ(pins[2].pattern, "transformer.h.*.mlp.weight");
}

TEST(CompressPlan, PatternsGiveEveryNameItsChoice) {
  std::mt19937 random(9);
  const char *codecs[] = {"", "int8", "int4", "bf16"};
  const char *rests[] = {".weight", ".a.weight", ".b.0.weight", ".b.1.bias", ".2", ""};
  for (int i = 0; i < 200; ++i) {
    std::vector<std::string> names;
    std::vector<SyncChoice> choices;
    for (int layer = 0; layer < 6; ++layer)
      for (const char *rest : rests) {
        names.push_back((layer % 2 ? "h." : "layers.0.") + std::to_string(layer) + rest);
        choices.push_back(choiceOf(codecs[std::uniform_int_distribution(0, 3)(random)]));
      }
    std::vector<CompressionPin> pins = patternsOf(names, choices);
    for (size_t n = 0; n < names.size(); ++n) {
      const SyncChoice *found = firstMatch(pins, names[n]);
      EXPECT_EQ(found ? found->codec : nullptr, choices[n].codec) << names[n] << " in case " << i;
    }
  }
}

TEST(CompressPlan, TheStarLeavesOutVectorsTablesAndSmallGradients) {
  std::vector<CompressionPin> all = {{"*", choiceOf("int8")}}, named = {{"*.weight", choiceOf("int8")}};
  ParameterGroup matrix{"w", 1 << 20, {}}, vector = matrix, table = matrix;
  matrix.shape = {1024, 1024};
  vector.shape = {1 << 20};
  table.shape = matrix.shape;
  table.isTable = true;
  EXPECT_NE(compressionPinOf(all, "h.0.weight", matrix), nullptr);
  EXPECT_EQ(compressionPinOf(all, "h.0.weight", vector), nullptr);
  EXPECT_EQ(compressionPinOf(all, "wte.weight", table), nullptr);
  EXPECT_NE(compressionPinOf(named, "h.0.weight", vector), nullptr);
  EXPECT_NE(compressionPinOf(named, "wte.weight", table), nullptr);
  EXPECT_EQ(compressionPinOf(named, "h.0.bias", matrix), nullptr);
}

} // namespace
