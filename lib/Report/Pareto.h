// SPDX-License-Identifier: Apache-2.0
// Step time against memory, a dot for each plan. Private to the room.
#pragma once

#include "kerf/Report/StepReport.h"

namespace kerf {

std::string paretoHtml(const std::vector<ParetoPoint> &points);

} // namespace kerf
