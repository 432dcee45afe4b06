// SPDX-License-Identifier: Apache-2.0
#include "Operators.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace kerf::runtime::ascend {

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
