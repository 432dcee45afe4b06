// SPDX-License-Identifier: Apache-2.0
// Turns the diagnostics of MLIR passes into one Error.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Support/Result.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

namespace kerf {

/// Collects the errors and warnings that MLIR passes emit while this object lives. Each text begins with the name of
/// the model's node, if known.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          std::string node = ir::nodeName(diagnostic.getLocation());
          std::string text = (node.empty() ? "" : node + ": ") + diagnostic.str();
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
            errors += (errors.empty() ? "" : "\n") + text;
          else if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Warning)
            warnings.push_back(text);
        }) {}

  /// Runs the passes on `module`. Fails with the collected errors as one message: ExitStatus::BadInput, or
  /// InternalCheck when a pass failed without a message.
  Status run(mlir::PassManager &passes, mlir::ModuleOp module) {
    if (mlir::succeeded(passes.run(module)))
      return ok();
    return Error{errors.empty() ? "a pass failed without a message" : errors,
                 errors.empty() ? ExitStatus::InternalCheck : ExitStatus::BadInput};
  }
  std::string errors; // one line for each error; "" without errors
  std::vector<std::string> warnings;

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace kerf
