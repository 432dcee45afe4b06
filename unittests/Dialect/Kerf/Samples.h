// SPDX-License-Identifier: Apache-2.0
// Single ops, parsed from text, for the tests of the dialect.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"

#include <string>

namespace kerf::ir::test {

/// An MLIR context with the dialect loaded.
class Context : public mlir::MLIRContext {
public:
  Context();
};

/// A parsed function with body `text` and arguments `arguments`. `op` is the last op before the return, and null where
/// the text fails verification.
struct Sample {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Operation *op = nullptr;
  mlir::Block *body = nullptr;
};
Sample parseSample(Context &context, const std::string &arguments, const std::string &text);

} // namespace kerf::ir::test
