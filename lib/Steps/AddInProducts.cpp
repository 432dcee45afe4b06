// SPDX-License-Identifier: Apache-2.0
#include "AddInProducts.h"

#include <algorithm>

namespace kerf::steps {

namespace {
using package::FlatInstruction;
using package::FlatProgram;

/// For each value of a flat program: how often it is used, and the instruction that makes it.
struct Uses {
  explicit Uses(const FlatProgram &flat) : count(flat.values.size(), 0), maker(flat.values.size(), -1) {
    for (size_t i = 0; i < flat.body.size(); ++i) {
      for (int operand : flat.body[i].operands)
        ++count[size_t(operand)];
      for (int result : flat.body[i].results)
        maker[size_t(result)] = int64_t(i);
    }
    for (int result : flat.results)
      if (result >= 0)
        ++count[size_t(result)];
  }
  std::vector<int> count;
  std::vector<int64_t> maker; // position in the body; -1 for arguments
};

/// Returns the position of the product that can take over the addition of `accumulate`; -1 if there is none.
int64_t productOf(const FlatProgram &flat, const FlatInstruction &accumulate, const Uses &uses) {
  if (accumulate.source->op != package::kAccumulate || accumulate.operands.size() != 2)
    return -1;
  int sum = accumulate.operands[0], one = accumulate.operands[1];
  int64_t at = uses.maker[size_t(one)];
  if (at < 0 || uses.count[size_t(one)] != 1 || uses.maker[size_t(sum)] >= at)
    return -1;
  const FlatInstruction &product = flat.body[size_t(at)];
  DType type = flat.values[size_t(one)].dtype;
  bool isWide = type == DType::F32 || type == DType::F64;
  bool isProduct = product.kind == FlatInstruction::Kind::Op && product.source->op == package::kProduct &&
                   product.operands.size() == 2;
  return isProduct && isWide && type == flat.values[size_t(sum)].dtype ? at : -1;
}
} // namespace

int64_t addInProducts(FlatProgram &flat) {
  Uses uses(flat);
  std::vector<bool> isMerged(flat.body.size(), false);
  for (size_t i = 0; i < flat.body.size(); ++i) {
    const FlatInstruction &accumulate = flat.body[i];
    int64_t at = productOf(flat, accumulate, uses);
    if (at < 0)
      continue;
    FlatInstruction &product = flat.body[size_t(at)];
    product.operands.push_back(accumulate.operands[0]);
    product.results = accumulate.results;
    product.sum = accumulate.origin;
    uses.maker[size_t(product.results[0])] = at;
    isMerged[i] = true;
  }
  std::vector<FlatInstruction> body;
  body.reserve(flat.body.size());
  for (size_t i = 0; i < flat.body.size(); ++i)
    if (!isMerged[i])
      body.push_back(std::move(flat.body[i]));
  flat.body = std::move(body);
  return std::count(isMerged.begin(), isMerged.end(), true);
}

} // namespace kerf::steps
