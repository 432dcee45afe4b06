// SPDX-License-Identifier: Apache-2.0
// The command lines of kerf, kerf-run and kerf-profile, so that one module holds all of Kerf (python/kerf/command.py).
#include "Calls.h"
#include "KerfCommand.h"
#include "ProfileCommand.h"
#include "RunCommand.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace kerf::python {

namespace {

/// Runs a program with these arguments, of which the first is its name, and returns its exit status.
template <int (*Program)(int, char **)> int run(std::vector<std::string> arguments) {
  std::vector<char *> pointers;
  for (std::string &argument : arguments)
    pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return Program(static_cast<int>(arguments.size()), pointers.data());
}

} // namespace

void addCommandLines(nb::module_ &module) {
  auto free = nb::call_guard<nb::gil_scoped_release>();
  module.def("run_kerf", &run<tool::runKerf>, nb::arg("arguments"), free);
  module.def("run_kerf_run", &run<tool::runKerfRun>, nb::arg("arguments"), free);
  module.def("run_kerf_profile", &run<tool::runKerfProfile>, nb::arg("arguments"), free);
}

} // namespace kerf::python
