// SPDX-License-Identifier: Apache-2.0
// kerf.take_along and its gradient.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/TakeAlongOps.h.inc"
