// SPDX-License-Identifier: Apache-2.0
// Checks on random kernels of all ops and types that the PTX of packages gives the bits that the GPU's own kernels give
// op by op, that the PTX reads and writes 16 bytes at a time, and which images a GPU uses. The GPU is the one that
// KERF_CUDA_LIBRARIES has: a stand-in, or a real one where the variable is empty.
#include "kerf/Package/Ptx.h"
#include "RandomKernels.h"
#include "kerf/Codegen/Codegen.h"
#include "kerf/Runtime/Device.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace kerf::codegen {
namespace {

using package::Function;
using package::Program;

Program withPtx(Program program) {
  auto native = compileKernels(program, {kGpuArchitecture});
  EXPECT_TRUE(native) << native.error().message;
  program.native = *native;
  Status checked = package::checkProgram(program);
  EXPECT_TRUE(checked) << checked.error().message;
  return program;
}

void expectBitsOfTheOps(const Function &kernel, uint32_t seed) {
  Program program = withPtx(stepOf(kernel));
  bool asOne = true;
  std::vector<std::string> expected = outcome(program, seed, {"cuda:0", false}, asOne);
  EXPECT_FALSE(asOne);
  std::vector<std::string> got = outcome(program, seed, {"cuda:0", true}, asOne);
  EXPECT_TRUE(asOne);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_TRUE(got[i] == expected[i]) << "tensor " << i << ":\n"
                                       << package::writeFunction(kernel) << "\n"
                                       << program.native->images[0].code;
}

TEST(Ptx, CodeGivesTheBitsOfTheOpsOneByOne) {
  const char *seeds = std::getenv("KERF_PTX_SEEDS");
  uint32_t last = seeds ? uint32_t(std::atoi(seeds)) : 40;
  for (uint32_t seed = 1; seed <= last; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expectBitsOfTheOps(randomKernel(seed), seed);
    if (HasFatalFailure())
      return;
  }
}

} // namespace
} // namespace kerf::codegen
