// SPDX-License-Identifier: Apache-2.0
// Checks on random kernels of all ops and types that compiled code gives the same bits as the runtime gives op by op:
// for sizes with and without partial vectors, with and without final reductions, for any number of threads, and with
// arguments that are updated in place.
#include "kerf/Codegen/Codegen.h"
#include "RandomKernels.h"
#include "kerf/Runtime/Cpu/Native.h"

#include <gtest/gtest.h>

namespace kerf::codegen {
namespace {

using package::Function;
using package::Program;

const std::vector<std::string> kAll = {std::begin(kInstructionSets), std::end(kInstructionSets)};

/// Returns the outcome on this machine's processor, and checks that compiled code runs where it is asked for.
std::vector<std::string> outcomeHere(const Program &program, uint32_t seed, bool useNative, int64_t threads) {
  bool asOne = false;
  std::vector<std::string> texts = outcome(program, seed, {"cpu", useNative, threads}, asOne);
  EXPECT_EQ(asOne, useNative && runtime::processorHas(kInstructionSets[0]));
  return texts;
}

/// Expects that the program's kernels give the same bits as the ops one by one, in all instruction sets that the
/// processor has, on one and three threads.
void expectTheBitsOfTheOps(Program program, uint32_t seed) {
  Status checked = package::checkProgram(program);
  ASSERT_TRUE(checked) << checked.error().message;
  std::vector<std::string> expected = outcomeHere(program, seed, false, 1);
  for (const std::string &isa : kAll) {
    if (!runtime::processorHas(isa))
      continue;
    auto native = compileKernels(program, {isa});
    ASSERT_TRUE(native) << native.error().message;
    program.native = *native;
    checked = package::checkProgram(program);
    ASSERT_TRUE(checked) << checked.error().message;
    for (int64_t threads : {1, 3}) {
      std::vector<std::string> got = outcomeHere(program, seed, true, threads);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_TRUE(got[i] == expected[i]) << isa << ", " << threads << " threads, tensor " << i << ":\n"
                                           << package::writeFunction(program.functions[0]);
    }
  }
}

TEST(Codegen, CodeGivesTheBitsOfTheOpsOneByOne) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expectTheBitsOfTheOps(stepOf(randomKernel(seed)), seed);
    if (HasFatalFailure())
      return;
  }
}

TEST(Codegen, TruthValuesAreCompared) {
  for (const char *direction : {"EQ", "NE", "LT", "LE", "GT", "GE"}) {
    Function kernel;
    kernel.name = "kernel";
    kernel.kernel = true;
    int x = addArg(kernel, DType::F32, {40}), y = addArg(kernel, DType::F32, {40});
    int less = addOp(kernel, "compare", {x, y}, DType::Bool, {40}, {{"direction", "LT"}});
    int equal = addOp(kernel, "compare", {x, x}, DType::Bool, {40}, {{"direction", direction}});
    kernel.results = {addOp(kernel, "compare", {less, equal}, DType::Bool, {40}, {{"direction", direction}})};
    SCOPED_TRACE(direction);
    expectTheBitsOfTheOps(stepOf(kernel), 1);
  }
}

/// Returns a kernel as a codec has it: codes of `bits` bits of x + e by a scale that is a reduction of the row, packed,
/// and what they leave of x + e, which may replace e.
Function codecKernel(const char *kind, int64_t bits, Shape rows) {
  Function kernel;
  kernel.name = "kernel";
  kernel.kernel = true;
  const Shape each{rows[0]}, packed{rows[0], rows[1] * bits / 8};
  auto like = [&](int value, const Shape &dimensions, DType dtype) {
    return addOp(kernel, "broadcast_in_dim", {value}, dtype, rows, {{"broadcast_dimensions", dimensions}});
  };
  auto number = [&](double value) {
    return like(addOp(kernel, "constant", {}, DType::F32, {}, {{"value", {value}}}), {}, DType::F32);
  };
  int e = addArg(kernel, DType::F32, rows), x = addArg(kernel, DType::F32, rows), key = addArg(kernel, DType::I32, {});
  int sum = addOp(kernel, "add", {x, e}, DType::F32, rows);
  int scale = addOp(kernel, "reduce", {sum}, DType::F32, each, {{"kind", kind}, {"dimensions", {1}}});
  int size = addOp(kernel, "abs", {scale}, DType::F32, each);
  int sizes = like(size, {0}, DType::F32);
  int u = addOp(kernel, "random", {like(key, {}, DType::I32)}, DType::F32, rows);
  int moved = addOp(kernel, "add", {addOp(kernel, "divide", {sum, sizes}, DType::F32, rows), u}, DType::F32, rows);
  int low = addOp(kernel, "maximum", {addOp(kernel, "minimum", {moved, number(7)}, DType::F32, rows), number(-8)},
                  DType::F32, rows);
  int missing = addOp(kernel, "is_nan", {low}, DType::Bool, rows);
  int code = addOp(kernel, "select", {missing, number(3), low}, DType::F32, rows);
  int bytes =
      addOp(kernel, "pack", {addOp(kernel, "convert", {code}, DType::I8, rows)}, DType::I8, packed, {{"bits", bits}});
  int back =
      addOp(kernel, "convert", {addOp(kernel, "unpack", {bytes}, DType::I8, rows, {{"bits", bits}})}, DType::F32, rows);
  int left =
      addOp(kernel, "subtract", {sum, addOp(kernel, "multiply", {back, sizes}, DType::F32, rows)}, DType::F32, rows);
  kernel.results = {left, bytes, size, scale};
  return kernel;
}

TEST(Codegen, RowKernelsGiveTheBitsOfTheOpsOneByOne) {
  uint32_t seed = 0;
  for (const char *kind : {"sum", "max", "min"})
    for (int64_t bits : {1, 2, 4})
      for (const Shape &rows : {Shape{1, 128}, Shape{7, 256}, Shape{130, 384}, Shape{5, 1024}}) {
        SCOPED_TRACE(testing::Message() << kind << " " << bits << " bits, " << shapeText(rows));
        expectTheBitsOfTheOps(stepOf(codecKernel(kind, bits, rows)), ++seed);
        if (HasFatalFailure())
          return;
      }
}

TEST(Codegen, RowKernelsRefuseWhatDoesNotFit) {
  auto reasonOf = [](auto change) {
    Function kernel = codecKernel("max", 2, {3, 64});
    change(kernel);
    auto space = package::kernelSpace(kernel);
    return space ? std::string() : space.error().message;
  };
  EXPECT_EQ(reasonOf([](Function &) {}), "");
  EXPECT_NE(reasonOf([](Function &kernel) { kernel.values[0].shape = {3, 65}; }), "");
  EXPECT_NE(reasonOf([](Function &kernel) { kernel.values[0].shape = {4, 64}; }), "");
  EXPECT_NE(reasonOf([](Function &kernel) { kernel.results[0] = kernel.args[0]; }), "");
  for (const char *op : {"reduce", "pack", "unpack", "add"})
    EXPECT_NE(reasonOf([&](Function &kernel) {
                for (package::Instruction &instruction : kernel.body)
                  if (instruction.op == op)
                    instruction.operands = {kernel.args[2]};
              }),
              "")
        << op;
}

TEST(Codegen, CodeForGpusLeavesRowKernelsOut) {
  auto native = compileKernels(stepOf(codecKernel("max", 2, {3, 64})), {kAll[0], "sm_80"});
  ASSERT_TRUE(native) << native.error().message;
  ASSERT_EQ((*native)->images.size(), 2u);
  EXPECT_EQ((*native)->images[0].entries.size(), 1u);
  EXPECT_EQ((*native)->images[1].code.find(".entry"), std::string::npos);
}

/// Returns a program that computes y = tanh(x + x) of 40 elements.
Program small() {
  Function kernel;
  kernel.name = "kernel";
  kernel.kernel = true;
  int x = addArg(kernel, DType::F32, {40});
  kernel.results = {addOp(kernel, "tanh", {addOp(kernel, "add", {x, x}, DType::F32, {40})}, DType::F32, {40})};
  Program program = stepOf(kernel);
  auto native = compileKernels(program, kAll);
  EXPECT_TRUE(native) << native.error().message;
  program.native = *native;
  return program;
}

TEST(Codegen, TheSameProgramHasTheSameCode) {
  Program a = small(), b = small();
  ASSERT_EQ(a.native->images.size(), 2u);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(a.native->images[i].code, b.native->images[i].code);
  EXPECT_EQ(a.native->routines, std::vector<std::string>{"tanh.f32"});
}

TEST(Codegen, AProgramWithoutKernelsHasNoCode) {
  Program program = small();
  program.functions[0].kernel = false;
  auto native = compileKernels(program, kAll);
  ASSERT_TRUE(native) << native.error().message;
  EXPECT_EQ(*native, nullptr);
}

/// Returns why the runtime does not use the program's code after `change`.
template <typename F> std::string unusedAfter(F change) {
  Program program = small();
  auto changed = std::make_shared<package::NativeCode>(*program.native);
  change(*changed);
  program.native = changed;
  auto loaded = runtime::loadNative(program);
  EXPECT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ((*loaded)->find("kernel") == nullptr, !(*loaded)->reasonUnused().empty());
  return (*loaded)->reasonUnused();
}

TEST(Codegen, CodeThatDoesNotFitIsNotUsed) {
  if (!runtime::processorHas(kInstructionSets[0]))
    GTEST_SKIP() << "this processor has none of the instruction sets that code is made for";
  EXPECT_EQ(unusedAfter([](package::NativeCode &) {}), "");
  EXPECT_EQ(unusedAfter([](package::NativeCode &code) {
              for (package::NativeImage &image : code.images)
                image.isa = image.isa.back() == '3' ? "z80" : "z90";
            }),
            "it is for z80 and z90, which this processor does not have");
  EXPECT_EQ(unusedAfter([](package::NativeCode &code) { code.routines = {"tanh.f16"}; }),
            "it calls 'tanh.f16', which this runtime does not have");
  EXPECT_EQ(unusedAfter([](package::NativeCode &code) {
              for (package::NativeImage &image : code.images)
                image.interface = 7;
            }),
            "its interface is 7, this runtime has 2");
  EXPECT_EQ(unusedAfter([](package::NativeCode &code) {
              code.images.resize(1);
              code.images[0].kind = "ptx";
            }),
            "it is ptx, this device runs x86-64");
  // Missing files.
  EXPECT_NE(unusedAfter([](package::NativeCode &code) {
              for (package::NativeImage &image : code.images)
                image.code.clear();
            }),
            "");
}

} // namespace
} // namespace kerf::codegen
