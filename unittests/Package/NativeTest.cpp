// SPDX-License-Identifier: Apache-2.0
#include "kerf/Package/Native.h"
#include "kerf/Package/Ptx.h"

#include <gtest/gtest.h>

namespace kerf::package {
namespace {

using Strides = std::vector<std::vector<int64_t>>;

TEST(KernelSpace, PutsTogetherWhatNoBroadcastTellsApart) {
  auto whole = kernelSpace({16, 64, 8, 8}, {});
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->sizes, (Shape{65536}));
  EXPECT_EQ(whole->rows(), 1);
  EXPECT_EQ(whole->columns(), 65536);

  auto channels = kernelSpace({16, 64, 8, 8}, {{{64}, {1}}, {{}, {}}});
  ASSERT_TRUE(channels);
  EXPECT_EQ(channels->sizes, (Shape{16, 64, 64}));
  EXPECT_EQ(channels->broadcasts, (Strides{{0, 1, 0}, {0, 0, 0}}));
  EXPECT_EQ(channels->rows(), 1024);
  EXPECT_EQ(channels->columns(), 64);

  auto bias = kernelSpace({4, 128, 3, 12, 64}, {{{3, 12, 64}, {2, 3, 4}}});
  ASSERT_TRUE(bias);
  EXPECT_EQ(bias->sizes, (Shape{512, 2304}));
  EXPECT_EQ(bias->broadcasts, (Strides{{0, 1}}));

  auto columns = kernelSpace({6, 20}, {{{6, 1}, {0, 1}}, {{6, 20}, {0, 1}}});
  ASSERT_TRUE(columns);
  EXPECT_EQ(columns->broadcasts, (Strides{{1, 0}, {20, 1}}));

  auto scalar = kernelSpace({1, 1}, {{{1}, {1}}});
  ASSERT_TRUE(scalar);
  EXPECT_EQ(scalar->sizes, (Shape{1}));
}

TEST(KernelSpace, RefusesShortRowsAndOtherOrders) {
  EXPECT_FALSE(kernelSpace({16, 512, 2, 2}, {{{512}, {1}}})); // rows of 4
  EXPECT_FALSE(kernelSpace({32, 64}, {{{64, 32}, {1, 0}}}));  // transposed
  EXPECT_FALSE(kernelSpace({32, 64}, {{{63}, {1}}}));         // of another size
  EXPECT_FALSE(kernelSpace({32, 64}, {{{64}, {2}}}));         // no such dimension
  EXPECT_FALSE(kernelSpace({32, 64}, {{{64}, {}}}));
}

TEST(KernelSpace, ReductionsLieAsBroadcastsOfTheirResults) {
  auto channels = kernelSpace({16, 64, 8, 8}, {}, BroadcastView{{64}, {1}});
  ASSERT_TRUE(channels);
  EXPECT_EQ(channels->sizes, (Shape{16, 64, 64}));
  EXPECT_EQ(channels->reduced, (std::vector<int64_t>{0, 1, 0}));
  EXPECT_TRUE(channels->broadcasts.empty());

  auto rows = kernelSpace({4, 128, 768}, {{{768}, {2}}}, BroadcastView{{768}, {2}});
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->sizes, (Shape{512, 768}));
  EXPECT_EQ(rows->reduced, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(rows->broadcasts, (Strides{{0, 1}}));

  auto all = kernelSpace({4, 128, 768}, {}, BroadcastView{{}, {}});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->sizes, (Shape{393216}));
  EXPECT_EQ(all->reduced, (std::vector<int64_t>{0}));

  // Several rows that are reduced into one result: the lanes continue where the row before ended.
  EXPECT_TRUE(kernelSpace({4, 48}, {{{48}, {1}}}, BroadcastView{{}, {}}));
  EXPECT_FALSE(kernelSpace({4, 40}, {{{40}, {1}}}, BroadcastView{{}, {}}));
  EXPECT_FALSE(kernelSpace({4, 8}, {}, BroadcastView{{4}, {0}}));
}

/// Returns a program with the kernel x + bias, and 8 bytes of code for the kernel.
Program nativeSample(NativeCode *native = nullptr) {
  Value matrix{DType::F32, {3, 64}}, row{DType::F32, {64}};
  Function kernel{"kernel",
                  {matrix, row, matrix, matrix},
                  {0, 1},
                  {3},
                  {{"broadcast_in_dim", {1}, {2}, {{"broadcast_dimensions", {1}}}, ""},
                   {"add", {0, 2}, {3}, nlohmann::ordered_json::object(), ""}},
                  true};
  Function main{"main", {matrix, row, matrix}, {0, 1}, {2}, {{"call", {0, 1}, {2}, {{"callee", "kernel"}}, "sum"}}};
  Program program;
  program.mesh.axes = {{"data", 1}};
  program.functions = {kernel, main};
  program.entry = "main";
  program.args = {{ArgKind::Input, "x", DType::F32, {3, 64}, {3, 64}, Sharding::replicated(2)},
                  {ArgKind::Parameter, "bias", DType::F32, {64}, {64}, Sharding::replicated(1)}};
  program.results = {{"y", Sharding::replicated(2), {3, 64}}};
  std::string code = "\xc3, a ret";
  NativeCode made;
  made.kernels = {"kernel"};
  made.checksums = {checksumOf(writeFunction(kernel))};
  made.images = {{"x86-64-v3", {0}, checksumOf(code), code}};
  program.native = std::make_shared<NativeCode>(native ? *native : made);
  return program;
}

/// Returns a kernel that computes -x and the maximum of -x in each row.
Function reducingKernel() {
  Value matrix{DType::BF16, {3, 64}};
  return {"kernel",
          {matrix, matrix, {DType::BF16, {3}}},
          {0},
          {1, 2},
          {{"negate", {0}, {1}, nlohmann::ordered_json::object(), ""},
           {"reduce", {1}, {2}, {{"dimensions", {1}}, {"kind", "max"}}, ""}},
          true};
}

TEST(Native, ReadsWhatItWrites) {
  std::string text = writeProgram(nativeSample());
  auto read = readProgram(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(writeProgram(*read), text);
  EXPECT_TRUE(read->functions[0].kernel);
  EXPECT_FALSE(read->functions[1].kernel);
  EXPECT_EQ(read->native->images[0].checksum, nativeSample().native->images[0].checksum);
  EXPECT_EQ(imageFileName(read->native->images[0]), "kernels-x86-64-v3.bin");
}

TEST(Native, PtxIsReadAsItIsWrittenAndChecked) {
  NativeCode native = *nativeSample().native;
  native.images.push_back({"sm_80", {}, checksumOf("text"), "text", std::string(kPtxImage), kPtxInterface});
  Program program = nativeSample(&native);
  Status status = checkProgram(program);
  EXPECT_TRUE(status) << status.error().message;
  auto read = readProgram(writeProgram(program));
  ASSERT_TRUE(read) << read.error().message;
  const NativeImage &image = read->native->images[1];
  EXPECT_TRUE(isPtxImage(image));
  EXPECT_EQ(image.checksum, checksumOf("text"));
  EXPECT_EQ(imageFileName(image), "kernels-sm_80.ptx");
  native.images[1].code = "other";
  status = checkProgram(nativeSample(&native));
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("'kernels-sm_80.ptx' has the checksum"), std::string::npos);
}

TEST(Native, PtxIsForAnArchitectureAndNewerOnes) {
  EXPECT_EQ(ptxCapability("sm_80"), 80);
  EXPECT_EQ(ptxCapability("sm_120"), 120);
  for (const char *other : {"sm_90a", "sm_", "sm_-1", "x86-64-v3", ""})
    EXPECT_FALSE(ptxCapability(other)) << other;
}

TEST(Native, NamesOfEntriesAreThoseThatPtxAllows) {
  EXPECT_EQ(ptxEntry(0, "fused_add"), "kernel0_fused_add");
  EXPECT_EQ(ptxEntry(12, "a.b/c"), "kernel12_a_b_c");
}

TEST(Native, ValuesThatAreOnlyReducedAreStoredUnlessTheEntryReducesThem) {
  Function kernel = reducingKernel();
  EXPECT_EQ(storedValues(kernel), (std::vector<int>{1})); // a result
  kernel.results = {2};
  EXPECT_EQ(storedValues(kernel), std::vector<int>());
  for (Value &value : kernel.values)
    value.shape[value.shape.size() == 2 ? 1 : 0] = value.shape.size() == 2 ? 68 : 3; // not whole sectors of bf16
  EXPECT_EQ(storedValues(kernel), (std::vector<int>{1}));
  kernel.body[1].operands = {0};
  kernel.results = {2, 1};
  EXPECT_EQ(storedValues(kernel), (std::vector<int>{1})); // the argument is reduced where it is
}

TEST(Native, WorkItemsAreVectorsOfSixteenBytes) {
  auto itemsOf = [](DType dtype, const Shape &shape, bool bias) {
    Function kernel{"kernel",
                    {{dtype, shape}, {dtype, {shape.back()}}, {dtype, shape}, {dtype, shape}},
                    {0, 1},
                    {3},
                    {{"broadcast_in_dim", {1}, {2}, {{"broadcast_dimensions", {int64_t(shape.size()) - 1}}}, ""},
                     {"add", {0, bias ? 2 : 0}, {3}, nlohmann::ordered_json::object(), ""}},
                    true};
    if (!bias)
      kernel.body.erase(kernel.body.begin());
    auto space = kernelSpace(kernel);
    EXPECT_TRUE(space);
    PtxItems items = ptxItems(kernel, *space);
    return std::vector<int64_t>{items.width, items.vectors, items.elements};
  };
  EXPECT_EQ(itemsOf(DType::F32, {3, 64}, true), (std::vector<int64_t>{4, 48, 0}));
  EXPECT_EQ(itemsOf(DType::BF16, {3, 64}, true), (std::vector<int64_t>{8, 24, 0}));
  EXPECT_EQ(itemsOf(DType::F64, {3, 64}, true), (std::vector<int64_t>{2, 96, 0}));
  EXPECT_EQ(itemsOf(DType::F32, {3, 33}, false), (std::vector<int64_t>{4, 24, 3})); // rows are merged
  EXPECT_EQ(itemsOf(DType::F32, {3, 33}, true), (std::vector<int64_t>{1, 99, 0}));
  EXPECT_EQ(itemsOf(DType::BF16, {3, 34}, true), (std::vector<int64_t>{2, 51, 0}));
  EXPECT_EQ(itemsOf(DType::F32, {0, 64}, true), (std::vector<int64_t>{4, 0, 0}));
}

TEST(Native, OnlyWhatIsReadElementByElementMayBeOverwritten) {
  EXPECT_TRUE(mayOverwrite(nativeSample().functions[0], 0, 0));
  EXPECT_FALSE(mayOverwrite(nativeSample().functions[0], 1, 0));
  Function reducing = reducingKernel();
  EXPECT_TRUE(mayOverwrite(reducing, 0, 0));
  EXPECT_FALSE(mayOverwrite(reducing, 0, 1));
}

template <typename F> std::string faultAfter(F change) {
  NativeCode native = *nativeSample().native;
  Program program = nativeSample();
  change(native, program);
  program.native = std::make_shared<NativeCode>(native);
  Status status = checkProgram(program);
  return status ? "" : status.error().message;
}

TEST(Native, FaultsSayWhatDoesNotFit) {
  EXPECT_EQ(faultAfter([](NativeCode &, Program &) {}), "");
  auto expect = [](const std::string &message, const std::string &part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(faultAfter([](NativeCode &native, Program &) { native.kernels = {"main"}; }),
         "there is code for 'main', but the program has no kernel of that name");
  expect(faultAfter([](NativeCode &, Program &program) { program.functions[0].body[1].op = "subtract"; }),
         "its code was compiled for");
  expect(faultAfter([](NativeCode &native, Program &) { native.checksums.clear(); }),
         "0 checksums are given for 1 kernels");
  expect(faultAfter([](NativeCode &native, Program &) { native.images[0].code += "x"; }),
         "'kernels-x86-64-v3.bin' has the checksum");
  expect(faultAfter([](NativeCode &native, Program &) { native.images[0].entries = {8}; }),
         "a kernel begins at byte 8 of 'kernels-x86-64-v3.bin', which has 8 bytes");
  expect(faultAfter([](NativeCode &native, Program &) { native.images[0].entries = {}; }),
         "has 0 entries for 1 kernels");
  expect(faultAfter([](NativeCode &native, Program &) { native.images[0].isa = "../x86"; }),
         "an image is for the instruction set '../x86'");
  expect(faultAfter([](NativeCode &native, Program &) { native.images.push_back(native.images[0]); }),
         "two images are for x86-64-v3");
  // Images of another interface version or for another device are not checked.
  for (auto [kind, interface] : {std::pair("x86-64", int64_t(7)), {"ptx", kPtxInterface + 1}})
    EXPECT_EQ(faultAfter([&](NativeCode &native, Program &) {
                native.images[0].kind = kind;
                native.images[0].interface = interface;
                native.images[0].entries = {100, 200};
              }),
              "");
}

TEST(Native, KernelsAreOfPointwiseOpsOverOneShape) {
  auto fault = [](auto change) {
    Function kernel = nativeSample().functions[0];
    change(kernel);
    auto space = kernelSpace(kernel);
    return space ? "" : space.error().message;
  };
  EXPECT_EQ(fault([](Function &) {}), "");
  EXPECT_EQ(fault([](Function &kernel) { kernel.body[1].op = "all_reduce"; }),
            "kernel 'kernel': all_reduce is no op that a kernel can contain");
  EXPECT_EQ(fault([](Function &kernel) { kernel.values[0].shape = {64, 3}; }),
            "kernel 'kernel': an operand of add has shape [64, 3], but the kernel has shape [3, 64]");
  EXPECT_EQ(
      fault([](Function &kernel) { kernel.body[0].attrs = {{"broadcast_dimensions", {0}}}; }),
      "kernel 'kernel': its rows have fewer than 16 elements, or a broadcast or reduction does not fit its shape or is "
      "not contiguous along the rows");
  EXPECT_EQ(fault([](Function &kernel) { kernel.results.clear(); }), "kernel 'kernel': it has no results");
}

TEST(Native, KernelsReduceWhatTheyMakeOverTheSameDimensions) {
  auto fault = [](auto change) {
    Function kernel = reducingKernel();
    change(kernel);
    auto space = kernelSpace(kernel);
    return space ? "" : space.error().message;
  };
  EXPECT_EQ(fault([](Function &) {}), "");
  EXPECT_EQ(fault([](Function &kernel) { kernel.values[2].dtype = DType::F32; }), "");
  EXPECT_EQ(fault([](Function &kernel) { std::swap(kernel.results[0], kernel.results[1]); }), "");
  std::string otherwise = "kernel 'kernel': reduce of [3, 64] does not give ";
  EXPECT_EQ(fault([](Function &kernel) { kernel.values[2].dtype = DType::F64; }), otherwise + "f64[3]");
  EXPECT_EQ(fault([](Function &kernel) { kernel.values[2].shape = {64}; }), otherwise + "bf16[64]");
  EXPECT_EQ(fault([](Function &kernel) { kernel.body[1].attrs["dimensions"] = {0}; }), otherwise + "bf16[3]");
  EXPECT_EQ(fault([](Function &kernel) { kernel.body[1].attrs["dimensions"] = {2}; }), otherwise + "bf16[3]");
  EXPECT_EQ(fault([](Function &kernel) { kernel.body[1].attrs["kind"] = "mean"; }), otherwise + "bf16[3]");
  EXPECT_EQ(fault([](Function &kernel) {
              for (Value &value : kernel.values)
                value.dtype = DType::Bool;
            }),
            otherwise + "bool[3]");
  EXPECT_EQ(fault([](Function &kernel) {
              kernel.values.push_back({DType::BF16, {64}});
              kernel.body.push_back({"reduce", {1}, {3}, {{"dimensions", {0}}, {"kind", "sum"}}, ""});
            }),
            "kernel 'kernel': its reductions are over different dimensions");
  EXPECT_EQ(fault([](Function &kernel) {
              kernel.values.push_back({DType::BF16, {3, 64}});
              kernel.body.push_back({"broadcast_in_dim", {2}, {3}, {{"broadcast_dimensions", {0}}}, ""});
            }),
            "kernel 'kernel': reduce does not fit rows of a kernel"); // row kernels have sums in float32 only
  EXPECT_EQ(
      fault([](Function &kernel) {
        for (Value &value : kernel.values)
          value.shape.back() = value.shape.size() == 2 ? 8 : 3;
      }),
      "kernel 'kernel': its rows have fewer than 16 elements, or a broadcast or reduction does not fit its shape or is "
      "not contiguous along the rows");
}

} // namespace
} // namespace kerf::package
