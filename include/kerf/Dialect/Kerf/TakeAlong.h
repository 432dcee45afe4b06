// SPDX-License-Identifier: Apache-2.0
// The op classes of kerf.take_along and of its gradient, which few sources need.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

#define GET_OP_CLASSES
#include "kerf/Dialect/Kerf/TakeAlongOps.h.inc"
