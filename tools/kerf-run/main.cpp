// SPDX-License-Identifier: Apache-2.0
// The program kerf-run: `kerf run` without the compiler, for nodes that only train.
#include "RunCommand.h"

int main(int argc, char **argv) { return kerf::tool::runKerfRun(argc, argv); }
