// SPDX-License-Identifier: Apache-2.0
// Helpers of tests that compute formulas over constant terms.
#pragma once

#include "Graphs.h"
#include <limits>

namespace kerf {

inline constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

/// A builder whose terms are all constants.
struct Constants {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<frontend::TermBuilder> terms;

  explicit Constants(DType floatType) {
    context.loadDialect<mlir::func::FuncDialect, ir::KerfDialect>();
    module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    mlir::OpBuilder top = mlir::OpBuilder::atBlockEnd(module->getBody());
    auto function = mlir::func::FuncOp::create(top, top.getUnknownLoc(), "main", top.getFunctionType({}, {}));
    terms = std::make_unique<frontend::TermBuilder>(function.addEntryBlock(), floatType);
  }

  frontend::Term vector(DType dtype, const std::vector<double> &values) {
    frontend::FreshLiteral fresh = *frontend::allocateLiteral(dtype, {int64_t(values.size())});
    frontend::dispatch(dtype, [&](auto zero) {
      for (size_t i = 0; i < values.size(); ++i)
        fresh.as<decltype(zero)>()[i] = static_cast<decltype(zero)>(values[i]);
    });
    return terms->fromLiteral(fresh.literal);
  }
  static std::vector<double> valuesOf(const frontend::Term &term) {
    frontend::Literal all = *frontend::materialize(*term.literal);
    std::vector<double> values;
    frontend::dispatch(term.dtype, [&](auto zero) {
      for (int64_t i = 0; i < elementsOf(term.shape); ++i)
        values.push_back(double(all.as<decltype(zero)>()[i]));
    });
    return values;
  }
};

} // namespace kerf
