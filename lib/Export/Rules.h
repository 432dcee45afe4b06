// SPDX-License-Identifier: Apache-2.0
// The rules of the target trainers that a plan can break: a trainer that is given such a plan stops with an error, or
// runs something else. They are checked before anything is written.
#pragma once

#include "View.h"

namespace kerf::exporting {

/// A rule of one or several trainers.
struct TargetRule {
  std::string_view name;                 // short name in messages and tests, for example "heads"
  std::vector<ExportTarget> targets;     // the trainers that have this rule
  bool (*broken)(const View &);          // whether the plan breaks the rule
  std::string (*sentence)(const View &); // what the plan has, what the rule allows, and what to pin instead
  std::string_view source;               // where the trainer checks or states the rule
};

/// Returns all rules, one record each.
const std::vector<TargetRule> &targetRules();

} // namespace kerf::exporting
