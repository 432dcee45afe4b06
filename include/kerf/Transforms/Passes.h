// SPDX-License-Identifier: Apache-2.0
// The passes of Kerf: create*() and registration, generated from Passes.td, which says what each does.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace kerf {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "kerf/Transforms/Passes.h.inc"
} // namespace kerf
