// SPDX-License-Identifier: Apache-2.0
// Ops of StableHLO text, in the pretty form and in the generic one.
#pragma once

#include "StableHlo/HloScanner.h"

namespace kerf::frontend::hlo {

class OpParser {
public:
  explicit OpParser(Scanner &scanner) : s(scanner) {}
  /// { ops }, perhaps with a block's header. `arguments`: what it has without one.
  Status region(Region &into, std::vector<std::pair<std::string, Type>> arguments = {});
  /// From the op's quoted name on.
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
