// SPDX-License-Identifier: Apache-2.0
#include "Samples.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace kerf::ir::test {

Context::Context() { loadDialect<KerfDialect, func::FuncDialect>(); }

Sample parseSample(Context &context, const std::string &arguments, const std::string &text) {
  Sample sample;
  std::string source = "func.func @sample(" + arguments + ") {\n" + text + "\nreturn\n}";
  sample.module = parseSourceString<ModuleOp>(source, &context);
  if (!sample.module)
    return sample;
  sample.body = &(*sample.module->getOps<func::FuncOp>().begin()).getBody().front();
  sample.op = sample.body->getTerminator()->getPrevNode();
  return sample;
}

} // namespace kerf::ir::test
