// SPDX-License-Identifier: Apache-2.0
// The program kerf-opt: runs single passes and pipelines of Kerf on an MLIR file, for tests and for exploring the IR.
#include "kerf/Dialect/Kerf/KerfDialect.h"
#include "kerf/Transforms/Pipelines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<kerf::ir::KerfDialect, mlir::func::FuncDialect>();
  kerf::registerKerfTransformsPasses();
  kerf::registerKerfPipelines();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Kerf's pass driver\n", registry));
}
