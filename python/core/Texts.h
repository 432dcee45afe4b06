// SPDX-License-Identifier: Apache-2.0
// Reads the texts that Python passes: settings, plans and clusters as JSON.
#pragma once

#include "kerf/Compiler/PlanUse.h"

namespace kerf::python {

/// Parses a JSON text. Throws KerfError when it is none.
nlohmann::ordered_json jsonFrom(const std::string &text);
/// Parses a cluster, if there is one. Throws KerfError.
std::optional<Cluster> clusterFrom(const std::optional<std::string> &text);
/// Parses a plan; nothing stands for the empty plan. Throws KerfError.
Plan planFrom(const std::optional<std::string> &text);
/// Puts the parts of a use of a plan together. Throws KerfError.
PlanUse useOf(const std::optional<ModelSource> &model, const std::optional<std::string> &plan,
              const std::string &settings, const std::optional<std::string> &cluster);

} // namespace kerf::python
