// SPDX-License-Identifier: Apache-2.0
// A stand-in of the single library of older releases, beside those of newer ones. Both define the same operators, so
// that a program must not load it there: loading it ends the program.
#include <cstdio>
#include <cstdlib>

[[gnu::constructor]] static void refuse() {
  std::fprintf(stderr, "stand-in CANN: rule libraries: libopapi.so is loaded beside libopapi_math.so and its like\n");
  std::abort();
}
