// SPDX-License-Identifier: Apache-2.0
// StableHLO text as plain data. One parser reads the text that JAX prints (`lowered.as_text()`) and MLIR's generic
// form. The parser handles syntax only. Attributes have their names of the generic form, so that the importer handles
// one form:
//
//   %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
//   name "stablehlo.broadcast_in_dim", operands {"%0"}, attributes {broadcast_dimensions: [1]}, results {"%1"}
#pragma once

#include "Common/TermBuilder.h"

#include <string_view>

namespace kerf::frontend::hlo {

/// A position in the text, counted from 1.
struct Place {
  int line = 1, column = 1;
};
/// Returns "line 12, column 5".
std::string toText(Place place);

/// A type in the text. `element` is "" for a type that is not a tensor.
struct Type {
  std::string element; // element type, such as "f32" or "i1"
  Shape shape;
  std::string text; // the type as written
};

struct Field;

/// An attribute of an operation or an argument. `kind` says which of the fields is set.
struct Attribute {
  enum class Kind { Unit, Integer, Number, Text, Word, List, Record, Type, Function, Constant };
  Kind kind = Kind::Unit;
  int64_t integer = 0; // Integer; true and false are 1 and 0
  double number = 0;
  std::string text; // Text, or Word: "DEFAULT", a callee without '@', or text that the parser does not understand
  std::vector<Attribute> list;
  std::vector<Field> record;
  std::vector<Type> inputs, outputs;               // Type (one output), Function
  std::optional<kerf::frontend::Literal> constant; // floating values as f32 or f64

  /// Returns the field `name` of a record, or null.
  const Attribute *find(std::string_view name) const;
};

/// A named attribute.
struct Field {
  std::string name;
  Attribute value;
};

struct Operation;

/// A region with one block.
struct Region {
  std::vector<std::pair<std::string, Type>> arguments;
  std::vector<Operation> operations;
};

/// An operation as written.
struct Operation {
  std::string name;                                 // name with its dialect: "stablehlo.add", "func.call"
  std::vector<std::pair<std::string, int>> results; // name and number of values: {"%4", 2} for "%4:2"
  std::vector<std::string> operands;                // names of values: "%0", "%4#1"
  std::vector<Field> attributes;
  std::vector<Region> regions;
  std::vector<Type> operandTypes, resultTypes; // operandTypes is empty if the text omits them
  std::string location;                        // name in the location; may be ""
  Place place;

  /// Returns the attribute `name`, or null.
  const Attribute *find(std::string_view name) const;
};

/// An argument of a function.
struct Argument {
  std::string name; // "%arg0"
  Type type;
  Attribute attributes; // Record
  std::string location;
};

/// A function as written.
struct Function {
  std::string name;
  std::vector<Argument> arguments;
  std::vector<Type> resultTypes;
  std::vector<Attribute> resultAttributes; // one Record for each result type
  Region body;
  bool hasBody = false;
  Place place;
};

/// The functions of a text.
struct Module {
  std::vector<Function> functions;
  /// Returns the function `name`, or null.
  const Function *find(std::string_view name) const;
};

/// Returns the type in which a literal with elements of type `element` is stored. Fails for types that Kerf does not
/// support.
Result<DType> storedType(std::string_view element);

/// Parses StableHLO text. Fails with line and column of the first syntax error.
Result<Module> parse(std::string_view text);

} // namespace kerf::frontend::hlo
