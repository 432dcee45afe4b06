// SPDX-License-Identifier: Apache-2.0
// The command line of the program kerf, which the Python package has too.
#pragma once

namespace kerf::tool {

/// Runs the program kerf with these arguments, of which the first is the program's name. Prints, and returns the exit
/// status.
int runKerf(int argc, char **argv);

} // namespace kerf::tool
