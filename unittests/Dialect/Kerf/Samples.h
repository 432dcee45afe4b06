// SPDX-License-Identifier: Apache-2.0
// Single ops, read from their text, for the dialect's tests.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

#include <string>

namespace kerf::ir::test {

/// A context with the dialect loaded.
class Context : public mlir::MLIRContext {
public:
  Context();
};

/// `function`'s body is `text`, its arguments `arguments`; `op` is the last op before the return. Null where the text
/// doesn't verify.
struct Sample {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Operation *op = nullptr;
  mlir::Block *body = nullptr;
};
Sample parseSample(Context &context, const std::string &arguments, const std::string &text);

} // namespace kerf::ir::test
