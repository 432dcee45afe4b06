// SPDX-License-Identifier: Apache-2.0
// MLIR's diagnostics as one Error: the boundary between passes and callers.
#pragma once

#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Support/Result.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

namespace kerf {

/// Collects what passes report while it lives: errors, with the user's node, and warnings.
class Collected {
public:
  explicit Collected(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          std::string node = ir::nodeName(diagnostic.getLocation());
          std::string text = (node.empty() ? "" : node + ": ") + diagnostic.str();
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
            errors += (errors.empty() ? "" : "\n") + text;
          else if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Warning)
            warnings.push_back(text);
        }) {}

  /// Runs the passes; their errors as one.
  Status run(mlir::PassManager &passes, mlir::ModuleOp module) {
    if (mlir::succeeded(passes.run(module)))
      return ok();
    return Error{errors.empty() ? "a pass failed without a message" : errors,
                 errors.empty() ? ExitStatus::InternalCheck : ExitStatus::BadInput};
  }
  std::string errors;
  std::vector<std::string> warnings;

private:
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace kerf
