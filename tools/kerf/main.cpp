// SPDX-License-Identifier: Apache-2.0
#include "KerfCommand.h"

int main(int argc, char **argv) { return kerf::tool::runKerf(argc, argv); }
