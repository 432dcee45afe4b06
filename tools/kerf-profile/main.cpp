// SPDX-License-Identifier: Apache-2.0
// The program kerf-profile: `kerf profile` without the compiler, for machines that only train.
#include "ProfileCommand.h"

int main(int argc, char **argv) { return kerf::tool::runKerfProfile(argc, argv); }
