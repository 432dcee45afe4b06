// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kerf/Package/Package.h"
#include "kerf/Schedule/Schedule.h"

namespace kerf::package {

/// Makes the schedule of a program that has one.
Result<Schedule> scheduleOf(const Program &program);

} // namespace kerf::package
