// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/Settings.h"
#include <gtest/gtest.h>

namespace kerf {
namespace {

std::optional<std::string> asOption(std::string_view name, std::string_view value) {
  if (name != "ranks" && name != "global-batch")
    return std::nullopt;
  return "--" + std::string(name) + (value.empty() ? "" : " ") + std::string(value);
}

TEST(Settings, AreWrittenAsTheirUsersGiveThem) {
  EXPECT_EQ(spellSettings("give <ranks> from 1 to 8, or <global-batch>", asOption),
            "give --ranks from 1 to 8, or --global-batch");
  EXPECT_EQ(spellSettings("<ranks>", asOption), "--ranks");
  EXPECT_EQ(spellSettings("<<ranks>>", asOption), "<--ranks>");
  EXPECT_EQ(spellSettings("try <ranks=16>, or more", asOption), "try --ranks 16, or more");
}

TEST(Settings, WhatIsNoneStays) {
  for (const char *text : {"", "a < b > c", "<unknown>", "<ranks", "tensor<ranks>", "<Ranks>", "<>", "x<", "<ranks 8>",
                           "<ranks=a b>", "<unknown=8>", "<=8>"})
    EXPECT_EQ(spellSettings(text, asOption), text);
}

} // namespace
} // namespace kerf
