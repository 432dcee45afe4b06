// SPDX-License-Identifier: Apache-2.0
// StableHLO text as plain data. One parser reads what JAX prints (`lowered.as_text()`) and MLIR's generic form; it
// knows syntax only. What the pretty form calls `dims` has the name that the generic form gives it, so that the
// importer meets one form.
//
//   %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
//   name "stablehlo.broadcast_in_dim", operands {"%0"}, attributes {broadcast_dimensions: [1]}, results {"%1"}
#pragma once

#include "Common/TermBuilder.h"

#include <string_view>

namespace kerf::frontend::hlo {

struct Place {
  int line = 1, column = 1;
};
/// "line 12, column 5".
std::string toText(Place place);

/// A tensor, or (element "") another type, which `text` tells.
struct Type {
  std::string element; // "f32", "i1"
  Shape shape;
  std::string text;
};

struct Field;

struct Attribute {
  enum class Kind { Unit, Integer, Number, Text, Word, List, Record, Type, Function, Constant };
  Kind kind = Kind::Unit;
  int64_t integer = 0; // Integer; true and false are 1 and 0
  double number = 0;
  std::string text; // Text; Word ("DEFAULT", "@callee" without the sign, what is not understood)
  std::vector<Attribute> list;
  std::vector<Field> record;
  std::vector<Type> inputs, outputs;               // Type (one output), Function
  std::optional<kerf::frontend::Literal> constant; // floating values as f32 or f64

  const Attribute *find(std::string_view name) const;
};

struct Field {
  std::string name;
  Attribute value;
};

struct Operation;

/// One block.
struct Region {
  std::vector<std::pair<std::string, Type>> arguments;
  std::vector<Operation> operations;
};

struct Operation {
  std::string name;                                 // with its dialect: "stablehlo.add", "func.call", "func.return"
  std::vector<std::pair<std::string, int>> results; // "%4" and how many values it stands for ("%4:2")
  std::vector<std::string> operands;                // "%0", "%4#1"
  std::vector<Field> attributes;
  std::vector<Region> regions;
  std::vector<Type> operandTypes, resultTypes; // operandTypes: empty where the text leaves them out
  std::string location;                        // its name in the source, or ""
  Place place;

  const Attribute *find(std::string_view name) const;
};

struct Argument {
  std::string name; // "%arg0"
  Type type;
  Attribute attributes; // Record
  std::string location;
};

struct Function {
  std::string name;
  std::vector<Argument> arguments;
  std::vector<Type> resultTypes;
  std::vector<Attribute> resultAttributes; // Records, as many as types
  Region body;
  bool hasBody = false;
  Place place;
};

struct Module {
  std::vector<Function> functions;
  const Function *find(std::string_view name) const;
};

/// The type that a literal of such elements is stored in; an error for types that Kerf does not have.
Result<DType> storedType(std::string_view element);

/// Every fault is an error with its line and column.
Result<Module> parse(std::string_view text);

} // namespace kerf::frontend::hlo
