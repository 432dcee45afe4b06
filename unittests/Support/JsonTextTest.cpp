// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/JsonText.h"
#include "kerf/Support/Nesting.h"
#include <gtest/gtest.h>

using namespace kerf;

namespace {
std::string fault(std::string_view text) {
  Status status = checkJson(text, "plan.json");
  return status ? "" : status.error().message;
}
} // namespace

TEST(JsonText, WhatIsWrongIsToldWithItsLineAndColumn) {
  EXPECT_EQ(fault("{\"kerf\": 1}"), "");
  std::string message = fault("{\"kerf\": 1,\n  \"mesh\": {\"data\": 2\n  \"model\": 4}}");
  EXPECT_TRUE(message.starts_with("plan.json, line 3, column ")) << message;
  EXPECT_NE(message.find("not JSON"), std::string::npos) << message;
  EXPECT_NE(message.find("expected '}'"), std::string::npos) << message;
  EXPECT_TRUE(fault("{\"kerf\": 1,}").starts_with("plan.json, line 1, column 12: ")) << fault("{\"kerf\": 1,}");
  EXPECT_TRUE(fault("").starts_with("plan.json, line 1, column 1: ")) << fault("");
  EXPECT_NE(fault("{} {}"), "");
  EXPECT_NE(fault("{\"a\": \"\xff\"}"), "");
}

TEST(JsonText, AKeyThatOccursTwiceInOneObjectIsRefused) {
  EXPECT_EQ(fault(R"({"a": {"x": 1}, "b": {"x": 2}})"), "");
  EXPECT_EQ(
      fault("{\"mesh\": {},\n\n \"mesh\": {}}"),
      "plan.json: the key \"mesh\" occurs twice in one object (first in line 1, column 2), and one of the values would "
      "be ignored; drop one of them");
}

TEST(JsonText, DeepNestingIsRefused) {
  EXPECT_EQ(fault(std::string(kMaxJsonNesting, '[') + std::string(kMaxJsonNesting, ']')), "");
  EXPECT_NE(fault(std::string(kMaxJsonNesting + 1, '[') + std::string(kMaxJsonNesting + 1, ']')).find("101 levels"),
            std::string::npos);
}

TEST(JsonText, PlacesOfKeys) {
  std::string text = "{\"name\": \"mesch\",\n   \"mesch\" : {}}";
  EXPECT_EQ(locateKey(text, "mesch"), "line 2, column 4");
  EXPECT_EQ(locateKey(text, "name"), "line 1, column 2");
  EXPECT_EQ(locateKey(text, "other"), "");
}
