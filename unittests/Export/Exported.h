// SPDX-License-Identifier: Apache-2.0
// Exports of the tests, and what they say.
#pragma once

#include "Inputs.h"

#include <initializer_list>
#include <set>

namespace kerf::test {

inline ExportResult exported(ExportTarget target, const ExportInput &input, const std::string &name = "file") {
  auto made = exportPlan(target, input, name);
  if (!made) {
    ADD_FAILURE() << made.error().message;
    return {};
  }
  return *made;
}

inline std::string withoutComments(const std::string &text) {
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at) + 1;
    if (text[at] != '#')
      kept += text.substr(at, end - at);
    at = end;
  }
  return kept;
}

/// Returns the keys with decisions of kind Differs.
inline std::set<std::string> differing(const ExportResult &exported) {
  std::set<std::string> keys;
  for (const ExportDecision &decision : exported.decisions)
    if (decision.kind == ExportDecision::Kind::Differs)
      keys.insert(decision.key);
  return keys;
}

inline void expectHas(const std::string &text, std::initializer_list<const char *> lines) {
  for (const char *line : lines)
    EXPECT_NE(text.find(line), std::string::npos) << line << " is not in\n" << text;
}
inline void expectHasNot(const std::string &text, std::initializer_list<const char *> lines) {
  for (const char *line : lines)
    EXPECT_EQ(text.find(line), std::string::npos) << line << " is in\n" << text;
}

using Keys = std::set<std::string>;

} // namespace kerf::test
