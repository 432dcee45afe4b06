// SPDX-License-Identifier: Apache-2.0
// The bitcode of Runtime/Cuda/Kernels/Routines.cu as bytes of the program. KERF_ROUTINES is the name of its file.
#include "Ptx.h"

asm(".pushsection .rodata\n"
    ".balign 16\n"
    "kerf_routines_begin: .incbin \"" KERF_ROUTINES "\"\n"
    "kerf_routines_end:\n"
    ".popsection\n");
extern "C" {
extern const char kerf_routines_begin[], kerf_routines_end[];
}

namespace kerf::codegen {
std::string_view routineBitcode() { return {kerf_routines_begin, size_t(kerf_routines_end - kerf_routines_begin)}; }
} // namespace kerf::codegen
