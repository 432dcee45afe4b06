// SPDX-License-Identifier: Apache-2.0
// Parses the operations of StableHLO text, in the pretty form and in MLIR's generic form.
#pragma once

#include "StableHlo/HloScanner.h"

namespace kerf::frontend::hlo {

/// A parser of operations that reads from a scanner.
class OpParser {
public:
  explicit OpParser(Scanner &scanner) : s(scanner) {}
  /// Parses a region, "{ operations }", with or without a block header. `arguments` are the arguments of a region
  /// without a header.
  Status region(Region &into, std::vector<std::pair<std::string, Type>> arguments = {});
  /// Parses an operation in generic form, from its quoted name on.
  Status generic(Operation &op);

private:
  Status blockHeader(Region &into);
  Status operation(std::vector<Operation> &into);
  Status pretty(Operation &op);
  Status loose(Operation &op);
  Status returned(Operation &op);
  Status call(Operation &op);
  Status customCall(Operation &op);
  Status constant(Operation &op);
  Status slice(Operation &op);
  Status reduce(Operation &op);
  Status reducer(Operation &op);
  Status loop(Operation &op);
  Status convolution(Operation &op);
  Status signature(Operation &op);
  Status operandList(Operation &op, std::string_view close);
  Status attributesIfAny(Operation &op) { return s.next() == '{' ? s.dictionary(op.attributes) : ok(); }
  void rename(Operation &op);

  Scanner &s;
};

} // namespace kerf::frontend::hlo
