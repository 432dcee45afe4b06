// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/Settings.h"
#include <gtest/gtest.h>

namespace kerf {
namespace {

std::optional<std::string> asOption(std::string_view name) {
  return name == "ranks" || name == "global-batch" ? std::optional("--" + std::string(name)) : std::nullopt;
}

TEST(Settings, AreWrittenAsTheirUsersGiveThem) {
  EXPECT_EQ(spellSettings("give <ranks> from 1 to 8, or <global-batch>", asOption),
            "give --ranks from 1 to 8, or --global-batch");
  EXPECT_EQ(spellSettings("<ranks>", asOption), "--ranks");
  EXPECT_EQ(spellSettings("<<ranks>>", asOption), "<--ranks>");
}

TEST(Settings, WhatIsNoneStays) {
  for (const char *text : {"", "a < b > c", "<unknown>", "<ranks", "tensor<ranks>", "<Ranks>", "<>", "x<", "<ranks 8>"})
    EXPECT_EQ(spellSettings(text, asOption), text);
}

} // namespace
} // namespace kerf
