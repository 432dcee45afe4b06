// SPDX-License-Identifier: Apache-2.0
// Checks on random kernels of all ops and types that the PTX of packages gives the bits that the GPU's own kernels give
// op by op, that the PTX reads and writes 16 bytes at a time, and which images a GPU uses. The GPU is the one that
// KERF_CUDA_LIBRARIES has: a stand-in, or a real one where the variable is empty.
#include "kerf/Package/Ptx.h"
#include "RandomKernels.h"
#include "kerf/Codegen/Codegen.h"
#include "kerf/Runtime/Device.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
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

/// Returns a kernel that computes x * y + b, where b is a row.
Function multiplyAdd(DType dtype, const Shape &shape) {
  Function kernel;
  kernel.name = "multiply.add";
  kernel.kernel = true;
  int x = addArg(kernel, dtype, shape), y = addArg(kernel, dtype, shape), b = addArg(kernel, dtype, {shape.back()});
  int rows = addOp(kernel, "broadcast_in_dim", {b}, dtype, shape, {{"broadcast_dimensions", {shape.size() - 1}}});
  kernel.results = {addOp(kernel, "add", {addOp(kernel, "multiply", {x, y}, dtype, shape), rows}, dtype, shape)};
  return kernel;
}

size_t countOf(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST(Ptx, MemoryIsReadAndWrittenSixteenBytesAtATime) {
  for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    SCOPED_TRACE(toString(dtype));
    std::string text = withPtx(stepOf(multiplyAdd(dtype, {6, 64}))).native->images[0].code;
    EXPECT_EQ(countOf(text, "ld.global"), 3u) << text;
    EXPECT_EQ(countOf(text, "ld.global.v4.b32"), 3u) << text;
    EXPECT_EQ(countOf(text, "st.global"), 1u) << text;
    EXPECT_EQ(countOf(text, "st.global.v4.b32"), 1u) << text;
  }
  // Rows of 33 elements do not begin at multiples of 16 bytes.
  std::string text = withPtx(stepOf(multiplyAdd(DType::F32, {6, 33}))).native->images[0].code;
  EXPECT_EQ(countOf(text, ".v4."), 0u) << text;
  EXPECT_EQ(countOf(text, "ld.global.b32"), 3u) << text;
}

TEST(Ptx, ReductionsKeepElementsInRegisters) {
  const Shape shape = {4096, 256};
  for (int64_t reduced : {0, 1}) { // the rows of a table, and runs of neighbouring elements
    Function kernel;
    kernel.name = "multiply.reduce";
    kernel.kernel = true;
    int x = addArg(kernel, DType::BF16, shape), y = addArg(kernel, DType::BF16, shape);
    int product = addOp(kernel, "multiply", {x, y}, DType::BF16, shape);
    kernel.results = {addOp(kernel, "reduce", {product}, DType::BF16, {shape[size_t(1 - reduced)]},
                            {{"kind", "sum"}, {"dimensions", {reduced}}})};
    std::string text = withPtx(stepOf(kernel)).native->images[0].code;
    EXPECT_GT(countOf(text, "ld.global.v4.b32"), 0u) << text;
    EXPECT_EQ(countOf(text, ".local"), 0u) << text;
  }
}

TEST(Ptx, ElementsOfLargeTensorsAreCountedInSixtyFourBits) {
  std::string small = withPtx(stepOf(multiplyAdd(DType::BF16, {1 << 13, 1 << 16}))).native->images[0].code;
  EXPECT_EQ(countOf(small, "setp.gt.s32"), 1u) << small;
  std::string large = withPtx(stepOf(multiplyAdd(DType::BF16, {1 << 14, 1 << 16}))).native->images[0].code;
  EXPECT_EQ(countOf(large, "setp.gt.s64"), 1u) << large;
  EXPECT_EQ(countOf(large, "setp.gt.s32"), 0u) << large;
}

TEST(Ptx, ProductsAndSumsAreRoundedOneByOne) {
  std::string text = withPtx(stepOf(multiplyAdd(DType::F32, {6, 64}))).native->images[0].code;
  EXPECT_EQ(countOf(text, "fma."), 0u) << text;
  EXPECT_EQ(countOf(text, "mul.rn.f32"), 4u) << text; // the assembler joins mul.f32 and add.f32
  EXPECT_EQ(countOf(text, "add.rn.f32"), 4u) << text;
}

TEST(Ptx, OneInstructionRoundsTwoNumbersToBf16) {
  std::string text = withPtx(stepOf(multiplyAdd(DType::BF16, {6, 64}))).native->images[0].code;
  EXPECT_EQ(countOf(text, "cvt.rn.bf16x2.f32"), 8u) << text; // 8 elements, and two results of each
  EXPECT_EQ(countOf(text, "setp."), 1u) << text << "\nonly the loop compares, no number is tested for NaN";
}

TEST(Ptx, TheSameProgramHasTheSameCode) {
  Function kernel = multiplyAdd(DType::BF16, {6, 64});
  EXPECT_EQ(withPtx(stepOf(kernel)).native->images[0].code, withPtx(stepOf(kernel)).native->images[0].code);
}

TEST(Ptx, CodeOfBothKindsIsCompiledAtOnce) {
  Program program = stepOf(multiplyAdd(DType::F32, {6, 64}));
  auto native = compileKernels(program, {kInstructionSets[0], kGpuArchitecture});
  ASSERT_TRUE(native) << native.error().message;
  ASSERT_EQ((*native)->images.size(), 2u);
  EXPECT_TRUE(package::isHostImage((*native)->images[0]));
  EXPECT_TRUE(package::isPtxImage((*native)->images[1]));
  EXPECT_NE((*native)->images[1].code.find(".entry kernel0_multiply_add("), std::string::npos);
}

TEST(Ptx, SumsOfManyRowsAndOfArguments) {
  // The first result overwrites the argument, which is also reduced.
  for (const Shape &shape : {Shape{300, 20}, Shape{20, 3000}, Shape{0, 20}}) {
    Function kernel;
    kernel.name = "kernel";
    kernel.kernel = true;
    int x = addArg(kernel, DType::BF16, shape);
    int y = addOp(kernel, "tanh", {x}, DType::BF16, shape);
    int z = addOp(kernel, "exponential", {y}, DType::BF16, shape);
    nlohmann::ordered_json attrs = {{"dimensions", {0}}, {"kind", "sum"}};
    int ofArgument = addOp(kernel, "reduce", {x}, DType::F32, {shape[1]}, attrs);
    int ofStored = addOp(kernel, "reduce", {y}, DType::BF16, {shape[1]}, attrs);
    int ofOther = addOp(kernel, "reduce", {z}, DType::F32, {shape[1]}, attrs);
    kernel.results = {y, ofArgument, ofStored, ofOther};
    expectBitsOfTheOps(kernel, 7);
  }
}

/// Returns a kernel that reduces tanh(x) * y, and reduces y * b too, where b is a row. The first value is also a result
/// if `stores`.
Function reducing(DType dtype, const Shape &shape, const std::vector<int64_t> &dimensions, bool stores) {
  Function kernel;
  kernel.name = "kernel";
  kernel.kernel = true;
  int x = addArg(kernel, dtype, shape), y = addArg(kernel, dtype, shape), b = addArg(kernel, dtype, {shape.back()});
  int rows = addOp(kernel, "broadcast_in_dim", {b}, dtype, shape, {{"broadcast_dimensions", {shape.size() - 1}}});
  int first = addOp(kernel, "multiply", {addOp(kernel, "tanh", {x}, dtype, shape), y}, dtype, shape);
  int second = addOp(kernel, "multiply", {y, rows}, dtype, shape);
  Shape kept;
  for (size_t d = 0; d < shape.size(); ++d)
    if (std::find(dimensions.begin(), dimensions.end(), int64_t(d)) == dimensions.end())
      kept.push_back(shape[d]);
  if (stores)
    kernel.results.push_back(first);
  for (auto [value, kind] : {std::pair(first, "sum"), {second, "max"}, {second, "sum"}})
    kernel.results.push_back(
        addOp(kernel, "reduce", {value}, dtype, kept, {{"dimensions", dimensions}, {"kind", kind}}));
  return kernel;
}

/// A tensor and the dimensions over which it is reduced.
struct ReducedShape {
  Shape shape;
  std::vector<int64_t> dimensions;
};
const std::vector<ReducedShape> kReducedShapes = {
    {{200, 768}, {0}}, {{64, 2, 96}, {0}},  {{1030, 40}, {0}},   {{40, 768}, {1}},       {{3, 40, 64}, {2}},
    {{5, 2048}, {1}},  {{2, 40000}, {1}},   {{70, 256}, {0, 1}}, {{6, 3, 1024}, {0, 2}}, {{1030, 64}, {0}},
    {{2100, 16}, {0}}, {{300, 4, 24}, {0}}, {{270, 128}, {0}}};

TEST(Ptx, ReductionsInKernelsHaveTheBitsOfReductionsAlone) {
  uint32_t seed = 0;
  for (const ReducedShape &reduced : kReducedShapes)
    for (DType dtype : {DType::F32, DType::BF16}) {
      ++seed;
      SCOPED_TRACE("seed " + std::to_string(seed));
      Function kernel = reducing(dtype, reduced.shape, reduced.dimensions, seed % 3 == 0);
      ASSERT_TRUE(package::ptxReduction(kernel));
      expectBitsOfTheOps(kernel, seed);
      if (HasFatalFailure())
        return;
    }
}

/// Returns a kernel that sums its argument of type bf16 into float32, and replaces it by its hyperbolic tangent if
/// `overwrites`.
Function summing(const ReducedShape &reduced, bool overwrites) {
  Function kernel;
  kernel.name = "kernel";
  kernel.kernel = true;
  int x = addArg(kernel, DType::BF16, reduced.shape);
  Shape kept;
  for (size_t d = 0; d < reduced.shape.size(); ++d)
    if (std::find(reduced.dimensions.begin(), reduced.dimensions.end(), int64_t(d)) == reduced.dimensions.end())
      kept.push_back(reduced.shape[d]);
  if (overwrites)
    kernel.results.push_back(addOp(kernel, "tanh", {x}, DType::BF16, reduced.shape));
  kernel.results.push_back(
      addOp(kernel, "reduce", {x}, DType::F32, kept, {{"dimensions", reduced.dimensions}, {"kind", "sum"}}));
  return kernel;
}

TEST(Ptx, SumsOfArgumentsHaveTheBitsOfReductionsAlone) {
  uint32_t seed = 50;
  for (const ReducedShape &reduced : kReducedShapes) {
    SCOPED_TRACE("seed " + std::to_string(++seed));
    Function kernel = summing(reduced, seed % 2 == 0);
    ASSERT_TRUE(package::ptxReduction(kernel));
    expectBitsOfTheOps(kernel, seed);
    if (HasFatalFailure())
      return;
  }
}

/// Counts the sectors of memory that all kernels have loaded and stored since the last call; false on another driver
/// than the stand-in.
bool sectorsSinceLastCall(int64_t &loaded, int64_t &stored) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!library)
    return false;
  auto begin = reinterpret_cast<int (*)()>(dlsym(library, "kerfStandinCountTraffic"));
  auto sectors =
      reinterpret_cast<int (*)(uint64_t, uint64_t, int64_t *, int64_t *)>(dlsym(library, "kerfStandinSectors"));
  return begin && sectors && sectors(0, uint64_t(1) << 62, &loaded, &stored) == 0 && begin() == 0;
}

TEST(Ptx, ReductionsInKernelsReadArgumentsOnceAndStoreNoTemporaries) {
  int64_t loaded = 0, stored = 0;
  Program warmUp = withPtx(stepOf(multiplyAdd(DType::F32, {6, 64})));
  bool asOne = false;
  outcome(warmUp, 1, {"cuda:0", true}, asOne); // loads the driver
  if (!sectorsSinceLastCall(loaded, stored))
    GTEST_SKIP() << "only the stand-in of NVIDIA's driver counts sectors";
  for (const ReducedShape &reduced : kReducedShapes)
    for (bool ofArgument : {false, true}) { // the second kernel sums an argument of bf16
      Function kernel =
          ofArgument ? summing(reduced, false) : reducing(DType::F32, reduced.shape, reduced.dimensions, false);
      auto reduction = package::ptxReduction(kernel);
      ASSERT_TRUE(reduction);
      outcome(withPtx(stepOf(kernel)), 1, {"cuda:0", true}, asOne);
      EXPECT_TRUE(asOne);
      ASSERT_TRUE(sectorsSinceLastCall(loaded, stored));
      constexpr double kSteps = 2, kSector = 32;
      const double arguments = ofArgument ? 1 : 2, reductions = ofArgument ? 1 : 3;
      double ofTensor = double(elementsOf(reduced.shape)) * (ofArgument ? 2 : 4) / kSector;
      // Each result, and each of its pieces, may be a sector of its own. Each row may read the broadcast row anew.
      double ofResults = reductions * double((reduction->plan.pieces + 1) * reduction->plan.kept);
      double ofBroadcasts = ofArgument ? 0 : ofTensor;
      SCOPED_TRACE(testing::PrintToString(reduced.shape));
      EXPECT_LE(double(loaded), kSteps * (1.1 * arguments * ofTensor + ofBroadcasts + ofResults));
      EXPECT_GE(double(loaded), kSteps * arguments * ofTensor);
      EXPECT_LE(double(stored), kSteps * ofResults);
    }
}

/// Returns why the GPU does not use the program's code after `change`; the message, if it cannot load the code.
template <typename F> std::string unusedAfter(F change, bool &isError) {
  Program program = withPtx(stepOf(multiplyAdd(DType::F32, {6, 64})));
  auto changed = std::make_shared<package::NativeCode>(*program.native);
  change(*changed);
  program.native = changed;
  auto device = runtime::createDevice("cuda:0");
  EXPECT_TRUE(device) << device.error().message;
  auto code = (*device)->loadCode(program, runtime::CodeUse::Run);
  isError = !code;
  if (!code)
    return code.error().message;
  EXPECT_EQ((*code)->has("multiply.add"), (*code)->reasonUnused().empty());
  return (*code)->reasonUnused();
}

TEST(Ptx, CodeThatDoesNotFitIsNotUsed) {
  bool isError = false;
  auto unused = [&](auto change) {
    std::string why = unusedAfter([&](package::NativeCode &code) { change(code, code.images[0]); }, isError);
    EXPECT_FALSE(isError);
    return why;
  };
  using package::NativeCode, package::NativeImage;
  EXPECT_EQ(unused([](NativeCode &, NativeImage &) {}), "");
  EXPECT_EQ(unused([](NativeCode &, NativeImage &image) { image.kind = "x86-64"; }),
            "it is x86-64, this device runs ptx");
  EXPECT_EQ(unused([](NativeCode &, NativeImage &image) { image.interface = 9; }),
            "its interface is 9, this runtime has 3");
  EXPECT_EQ(unused([](NativeCode &, NativeImage &image) { image.isa = "sm_999"; }).substr(0, 30),
            "it is for sm_999, this GPU is ");
  EXPECT_EQ(unused([](NativeCode &, NativeImage &image) { image.code.clear(); }),
            "its file kernels-sm_80.ptx is missing");
  // An image for newer GPUs does not hide the one that fits.
  EXPECT_EQ(unused([](NativeCode &code, NativeImage &image) {
              NativeImage newer = image;
              newer.isa = "sm_999";
              code.images.push_back(newer);
            }),
            "");
}

TEST(Ptx, TextThatTheDriverRefusesIsAnError) {
  bool isError = false;
  std::string message = unusedAfter(
      [](package::NativeCode &code) { code.images[0].code.resize(code.images[0].code.size() / 2); }, isError);
  EXPECT_TRUE(isError);
  EXPECT_NE(message.find("cannot compile 'kernels-sm_80.ptx' of the package ("), std::string::npos) << message;
  message = unusedAfter(
      [](package::NativeCode &code) {
        std::string &text = code.images[0].code;
        for (size_t at = 0; (at = text.find("kernel0_", at)) != std::string::npos;)
          text[at + 6] = '1';
      },
      isError);
  EXPECT_TRUE(isError);
  EXPECT_NE(message.find("cannot find the kernel 'kernel0_multiply_add' in 'kernels-sm_80.ptx'"), std::string::npos)
      << message;
}

} // namespace
} // namespace kerf::codegen
