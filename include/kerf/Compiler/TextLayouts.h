// SPDX-License-Identifier: Apache-2.0
// The shardings of a plan, by positions in the text of a StableHLO program: what a framework needs to run its own
// program as the plan says.
#pragma once

#include "kerf/Compiler/CompileJob.h"

namespace kerf {

/// A position in the text of a StableHLO program, counted from 1.
struct TextPlace {
  int64_t line = 0, column = 0;
};

/// An operator of a step under a plan, and the operations of the imported text that it comes from.
struct PlacedOp {
  std::string key;               // name in plans
  std::vector<TextPlace> places; // one for each layer that shares the operator
  Shape shape;                   // of the result
  /// The sharding of the result after the sum of its partial local tensors; absent where they are passed on unsummed.
  std::optional<Sharding> result;
  std::vector<std::pair<Shape, Sharding>> operands; // shapes, and the shardings in which the operator reads them
};

/// The layout of an argument of the program, with its kind ("parameter", "state", "buffer", "input", ...).
struct ArgumentLayout {
  std::string kind;
  ParameterLayout layout;
};

/// The layouts of a job under its plan.
struct TextLayouts {
  Mesh mesh;
  std::vector<ArgumentLayout> arguments;
  std::vector<std::string> names;  // of the arguments of the text, in order; further arguments of the step follow
  std::vector<Sharding> shardings; // of `arguments`
  std::vector<PlacedOp> ops;       // in program order
};

/// Returns the operators of `module`, in which reshards stand between operators with strategies, that have positions in
/// a text and belong to the forward pass as the text has it. Operators that differentiation created are left out.
std::vector<PlacedOp> placedOps(mlir::ModuleOp module, const Mesh &mesh);

/// Compiles the job under its plan and returns its layouts. Fails where the plan has pipeline stages or microbatches,
/// and where the model is no StableHLO text.
Result<TextLayouts> textLayouts(const PlanUse &use);

/// Returns the name of an axis, or that of a sub-axis with its place: "model:(1)2".
std::string axisText(const Mesh &mesh, const AxisRef &ref);

} // namespace kerf
