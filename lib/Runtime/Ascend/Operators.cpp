// SPDX-License-Identifier: Apache-2.0
#include "Operators.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <iterator>

namespace kerf::runtime::ascend {

int aclTypeOf(DType dtype) {
  struct Row {
    DType dtype;
    int number; // aclDataType
  };
  static constexpr Row kRows[] = {
      {DType::F32, 0},  {DType::F16, 1},   {DType::I8, 2},    {DType::I32, 3}, {DType::U8, 4},
      {DType::I16, 6},  {DType::U16, 7},   {DType::U32, 8},   {DType::I64, 9}, {DType::U64, 10},
      {DType::F64, 11}, {DType::Bool, 12}, {DType::BF16, 27},
  };
  for (const Row &row : kRows)
    if (row.dtype == dtype)
      return row.number;
  return -1;
}

Result<OperatorFunctions> findOperator(const Acl &acl, const Operator &one) {
  const std::string name = one.name, first = name + "GetWorkspaceSize";
  for (void *library : acl.operators) {
    OperatorFunctions found{dlsym(library, first.c_str()),
                            reinterpret_cast<decltype(found.second)>(dlsym(library, name.c_str()))};
    if (found.first && found.second)
      return found;
  }
  return Error{fmt::format("CANN {} has no operator {} (looked in {}{}{}); install a newer CANN with its operators, or "
                           "train on the device cpu",
                           acl.release, name, acl.libraries, acl.unopened.empty() ? "" : "; ", acl.unopened),
               ExitStatus::Infeasible};
}

} // namespace kerf::runtime::ascend
