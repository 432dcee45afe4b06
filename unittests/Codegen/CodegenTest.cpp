// SPDX-License-Identifier: Apache-2.0
// Checks on random kernels of all ops and types that compiled code gives the same bits as the runtime gives op by op:
// for sizes with and without partial vectors, with and without final reductions, for any number of threads, and with
// arguments that are updated in place.
#include "kerf/Codegen/Codegen.h"
#include "RandomKernels.h"
#include "kerf/Runtime/Cpu/Native.h"
#include "kerf/Runtime/Executor.h"

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

/// Returns a kernel as a sparse codec has it: of each row of x + e the `count` largest elements above a threshold,
/// which is one of the largest of every `stride`-th element or, where few elements are above it, a smaller one. The
/// places are sent in 16 bits. Each element is weighted by its column, and what is sent is taken from x + e, which may
/// replace e.
Function sparseKernel(const Shape &rows, int64_t count, int64_t stride, bool hidesNan) {
  Function kernel;
  kernel.name = "kernel";
  kernel.kernel = true;
  const Shape each{rows[0]}, one{rows[0], 1}, sample{rows[0], (rows[1] - 1 + stride - 1) / stride},
      largest{rows[0], std::min(count, sample[1])}, sent{rows[0], count};
  auto op = [&](const char *name, std::vector<int> operands, const Shape &shape, DType dtype = DType::F32,
                nlohmann::ordered_json attrs = nlohmann::ordered_json::object()) {
    return addOp(kernel, name, std::move(operands), dtype, shape, std::move(attrs));
  };
  auto like = [&](int value, const Shape &dimensions, const Shape &shape) {
    return op("broadcast_in_dim", {value}, shape, DType::F32, {{"broadcast_dimensions", dimensions}});
  };
  auto number = [&](double value, const Shape &shape) {
    int scalar = op("constant", {}, {}, DType::F32, {{"value", {value}}});
    return shape.empty() ? scalar : like(scalar, {}, shape);
  };
  auto pick = [&](int from, const Shape &shape) {
    int values = op("top_k", {from}, shape), places = addValue(kernel, DType::I32, shape);
    kernel.body.back().results.push_back(places);
    return std::pair(values, places);
  };
  int e = addArg(kernel, DType::F32, rows), x = addArg(kernel, DType::F32, rows),
      weights = addArg(kernel, DType::F32, {rows[1]});
  int sum = op("add", {op("multiply", {x, like(weights, {1}, rows)}, rows), e}, rows);
  int size = op("abs", {sum}, rows);
  if (hidesNan)
    size = op("select", {op("is_nan", {sum}, rows, DType::Bool), number(7, rows), size}, rows);
  int every = op("slice", {size}, sample, DType::F32, {{"start", {0, 1}}, {"limit", rows}, {"strides", {1, stride}}});
  int best = pick(every, largest).first;
  auto bestAt = [&](int64_t at) {
    return op(
        "reshape",
        {op("slice", {best}, one, DType::F32, {{"start", {0, at}}, {"limit", {rows[0], at + 1}}, {"strides", {1, 1}}})},
        each);
  };
  int first = bestAt(0), second = bestAt(largest[1] - 1);
  int ones =
      op("convert", {op("compare", {size, like(first, {0}, rows)}, rows, DType::Bool, {{"direction", "GE"}})}, rows);
  int above = op("reduce", {ones}, each, DType::F32, {{"kind", "sum"}, {"dimensions", {1}}});
  int few = op("compare", {above, number(double(count), each)}, each, DType::Bool, {{"direction", "LT"}});
  int threshold = op("select", {few, second, first}, each);
  int isAbove = op("compare", {size, like(threshold, {0}, rows)}, rows, DType::Bool, {{"direction", "GE"}});
  auto [sizes, places] = pick(op("select", {isAbove, size, number(0, rows)}, rows), sent);
  int elements = op("take_along", {sum, places}, sent, DType::F32, {{"batch_dims", 1}, {"size", rows[1]}});
  int isSent = op("compare", {sizes, like(threshold, {0}, sent)}, sent, DType::Bool, {{"direction", "GE"}});
  int values = op("select", {isSent, elements, number(0, sent)}, sent);
  int inBytes = op("convert", {places}, sent, DType::I16);
  int back = op("convert", {inBytes}, sent, DType::I32);
  int decoded = op("take_along_backward", {back, values}, rows, DType::F32, {{"batch_dims", 1}, {"size", rows[1]}});
  int left = op("subtract", {sum, decoded}, rows);
  kernel.results = {left, values, places, sizes, decoded, above};
  return kernel;
}

TEST(Codegen, KernelsOfSparseCodecsGiveTheBitsOfTheOpsOneByOne) {
  uint32_t seed = 0;
  for (const Shape &rows : {Shape{1, 128}, Shape{7, 256}, Shape{40, 4096}, Shape{5, 1024}})
    for (int64_t count : {1, 40, 110})
      for (int64_t stride : {1, 4, 9})
        for (bool hidesNan : {false, true}) {
          SCOPED_TRACE(testing::Message() << count << " of " << shapeText(rows) << ", stride " << stride);
          expectTheBitsOfTheOps(stepOf(sparseKernel(rows, count, stride, hidesNan)), ++seed);
          if (HasFatalFailure())
            return;
        }
}

TEST(Codegen, AnIndexOutsideOfItsRowEndsTheStep) {
  Function kernel;
  kernel.name = "kernel";
  kernel.kernel = true;
  int x = addArg(kernel, DType::F32, {3, 64}), places = addArg(kernel, DType::I32, {3, 5});
  kernel.results = {addOp(kernel, "take_along", {x, places}, DType::F32, {3, 5}, {{"batch_dims", 1}, {"size", 64}}),
                    addOp(kernel, "take_along_backward", {places, kernel.body[0].results[0]}, DType::F32, {3, 64},
                          {{"batch_dims", 1}, {"size", 64}})};
  Program program = stepOf(kernel);
  auto native = compileKernels(program, kAll);
  ASSERT_TRUE(native) << native.error().message;
  program.native = *native;
  auto communicators = runtime::createThreadCommunicators(1);
  auto device = runtime::createDevice("cpu", {.threads = 1});
  ASSERT_TRUE(device) << device.error().message;
  auto executor = runtime::Executor::create(program, **device, *communicators[0], {});
  ASSERT_TRUE(executor) << executor.error().message;
  auto run = [&](std::vector<int32_t> indices) {
    for (const runtime::ArgumentPiece &piece : (*executor)->arguments())
      if (piece.tensor.dtype == DType::I32) {
        EXPECT_TRUE((*device)->copyIn(piece.tensor.data, indices.data(), piece.tensor.bytes()));
      }
    Status done = (*executor)->step();
    return done ? "" : done.error().message;
  };
  EXPECT_EQ(run({0, 1, 2, 3, 63, -1, -64, 5, 5, 5, 60, 61, 62, 63, 0}), "");
  std::string message = run({0, 1, 2, 3, 64, -1, -65, 5, 5, 5, 60, 61, 62, 63, 2000000000});
  EXPECT_NE(message.find("6 indices are outside of their rows of at most 64 elements; check the input data"),
            std::string::npos)
      << message;
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
  auto sparse = [](auto change) {
    Function kernel = sparseKernel({3, 64}, 4, 4, true);
    change(kernel);
    auto space = package::kernelSpace(kernel);
    return space ? std::string() : space.error().message;
  };
  EXPECT_EQ(sparse([](Function &) {}), "");
  for (const char *op : {"slice", "reshape", "top_k", "take_along", "take_along_backward"})
    EXPECT_NE(sparse([&](Function &kernel) {
                for (package::Instruction &instruction : kernel.body)
                  if (instruction.op == op)
                    instruction.operands.back() = kernel.args[2];
              }),
              "")
        << op;
  EXPECT_NE(sparse([](Function &kernel) {
              for (package::Instruction &instruction : kernel.body)
                if (instruction.op == "take_along")
                  instruction.attrs["size"] = 63;
            }),
            "");
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
            "its interface is 7, this runtime has 3");
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
