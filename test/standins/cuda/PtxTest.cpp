// SPDX-License-Identifier: Apache-2.0
// Tests of the PTX interpreter with kernels that are written by hand.
#include "PtxTestSupport.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

using namespace kerf::standin::ptx;

namespace {

/// Runs instructions that compute %rd4 from %rd3, and returns %rd4.
uint64_t compute(const std::string &body, uint64_t input = 0) {
  std::vector<uint64_t> in = {input}, out = {0};
  auto fault = runKernel(kernel("ld.global.u64 %rd3, [%rd1];\n" + body + "\nst.global.u64 [%rd2], %rd4;"), in, out, 1);
  EXPECT_FALSE(fault) << fault->text;
  return out[0];
}

std::string parseError(const std::string &text) {
  try {
    Module::parse(text);
  } catch (const ParseError &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST(Ptx, LoopsWithPredicatesAddNumbers) {
  EXPECT_EQ(compute("mov.u64 %rd4, 0; $loop: setp.eq.s64 %p1, %rd3, 0; @%p1 bra $end; add.s64 %rd4, %rd4, %rd3;"
                    "sub.s64 %rd3, %rd3, 1; bra.uni $loop; $end: @!%p1 mov.u64 %rd4, 1;",
                    100),
            5050u);
}

TEST(Ptx, ConversionsClampAndRound) {
  auto toS32 = [](double value) {
    return compute("mov.b64 %fd1, %rd3; cvt.rzi.s32.f64 %r2, %fd1; cvt.u64.u32 %rd4, %r2;",
                   std::bit_cast<uint64_t>(value));
  };
  EXPECT_EQ(int32_t(toS32(1e10)), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(int32_t(toS32(-1e10)), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(int32_t(toS32(-2.9)), -2);
  EXPECT_EQ(toS32(NAN), 0u);
  auto toU8 = [](float value) {
    return compute("cvt.u32.u64 %r2, %rd3; mov.b32 %f1, %r2; cvt.rni.u8.f32 %rs1, %f1; cvt.u64.u16 %rd4, %rs1;",
                   std::bit_cast<uint32_t>(value));
  };
  EXPECT_EQ(toU8(300), 255u);
  EXPECT_EQ(toU8(-5), 0u);
  EXPECT_EQ(toU8(2.5), 2u);
  EXPECT_EQ(toU8(3.5), 4u);
  EXPECT_EQ(compute("cvt.sat.s16.s64 %rs1, %rd3; cvt.u64.u16 %rd4, %rs1;", 100000), 32767u);
  EXPECT_EQ(compute("cvt.s64.s8 %rd4, %rd3;", 0x80), uint64_t(-128));
}

TEST(Ptx, HalvesRoundToNearestEven) {
  auto toHalf = [](double value, const std::string &mode = "rn") {
    return compute("mov.b64 %fd1, %rd3; cvt." + mode + ".f16.f64 %rs1, %fd1; cvt.u64.u16 %rd4, %rs1;",
                   std::bit_cast<uint64_t>(value));
  };
  EXPECT_EQ(toHalf(1), 0x3C00u);
  EXPECT_EQ(toHalf(65519), 0x7BFFu);
  EXPECT_EQ(toHalf(65520), 0x7C00u);
  EXPECT_EQ(toHalf(65520, "rz"), 0x7BFFu);
  EXPECT_EQ(toHalf(0x1p-24), 1u);
  EXPECT_EQ(toHalf(0x1p-25), 0u);
  EXPECT_EQ(toHalf(0x1.8p-24), 2u);
  EXPECT_EQ(toHalf(-0x1p-25, "rm"), 0x8001u);
  EXPECT_EQ(toHalf(1 + 0x1p-11), 0x3C00u);
  EXPECT_EQ(toHalf(1 + 0x1p-11 + 0x1p-40), 0x3C01u); // not rounded twice
  // 1.5 * 1.5 + 0.25 in bf16
  EXPECT_EQ(
      compute(
          "mov.b16 %rs1, 0x3FC0; mov.b16 %rs2, 0x3E80; fma.rn.bf16 %rs3, %rs1, %rs1, %rs2; cvt.u64.u16 %rd4, %rs3;"),
      0x4020u);
}

TEST(Ptx, ShiftsAndFieldsClamp) {
  EXPECT_EQ(compute("shl.b64 %rd4, %rd3, 64;", 1), 0u);
  EXPECT_EQ(compute("shr.s64 %rd4, %rd3, 200;", uint64_t(-5)), uint64_t(-1));
  EXPECT_EQ(compute("bfe.s64 %rd4, %rd3, 4, 4;", 0xF0), uint64_t(-1));
  EXPECT_EQ(compute("bfe.u64 %rd4, %rd3, 60, 32;", 0xA000000000000000), 0xAu);
  EXPECT_EQ(compute("bfi.b64 %rd4, %rd3, 0xFFFF, 4, 4;", 0), 0xFF0Fu);
  EXPECT_EQ(
      compute("mov.b64 {%r2, %r3}, %rd3; prmt.b32 %r4, %r2, %r3, 0x7041; cvt.u64.u32 %rd4, %r4;", 0x8877665544332211),
      0x88115522u);
  EXPECT_EQ(compute("cvt.u32.u64 %r2, %rd3; lop3.b32 %r4, %r2, 0x0F, 0xF0, 0x96; cvt.u64.u32 %rd4, %r4;", 0xFF), 0u);
  EXPECT_EQ(
      compute("mov.b64 {%r2, %r3}, %rd3; shf.l.wrap.b32 %r4, %r2, %r3, 8; cvt.u64.u32 %rd4, %r4;", 0x1122334455667788),
      0x22334455u);
}

TEST(Ptx, IntegerDivisionRoundsToZero) {
  EXPECT_EQ(int64_t(compute("div.s64 %rd4, %rd3, -2;", 7)), -3);
  EXPECT_EQ(int64_t(compute("rem.s64 %rd4, %rd3, 4;", uint64_t(-7))), -3);
  EXPECT_EQ(compute("div.s64 %rd4, %rd3, -1;", uint64_t(1) << 63), uint64_t(1) << 63);
  EXPECT_EQ(compute("mul.hi.u64 %rd4, %rd3, %rd3;", ~uint64_t(0)), ~uint64_t(0) - 1);
  EXPECT_EQ(compute("add.cc.u64 %rd5, %rd3, %rd3; addc.u64 %rd4, 0, 0;", uint64_t(1) << 63), 1u);
}

TEST(Ptx, FlushedSubnormalsBecomeZero) {
  const std::string rest = ".f32 %f2, %f1, 0f3F800000; mov.b32 %r3, %f2; cvt.u64.u32 %rd4, %r3;";
  EXPECT_EQ(compute("cvt.u32.u64 %r2, %rd3; mov.b32 %f1, %r2; mul.rn" + rest, 1), 1u);
  EXPECT_EQ(compute("cvt.u32.u64 %r2, %rd3; mov.b32 %f1, %r2; mul.rn.ftz" + rest, 1), 0u);
}

TEST(Ptx, RoundingModesOfDivisionDiffer) {
  auto third = [](const std::string &mode) {
    return std::bit_cast<double>(compute("mov.f64 %fd1, 0d3FF0000000000000; div." + mode +
                                         ".f64 %fd2, %fd1, 0d4008000000000000; mov.b64 %rd4, %fd2;"));
  };
  EXPECT_EQ(third("rn"), 1.0 / 3);
  EXPECT_EQ(third("rm"), third("rz"));
  EXPECT_EQ(third("rp"), std::nextafter(third("rm"), 1.0));
}

TEST(Ptx, CombinedComparisonsAndSelections) {
  const std::string first = "setp.gt.s64 %p1, %rd3, 5; setp.lt.and.s64 %p2|%p3, %rd3, 10, %p1; ";
  EXPECT_EQ(compute(first + "selp.u64 %rd4, 1, 0, %p2;", 7), 1u);
  EXPECT_EQ(compute(first + "selp.u64 %rd4, 1, 0, %p3;", 7), 0u);
  EXPECT_EQ(compute(first + "selp.u64 %rd4, 1, 0, %p3;", 11), 1u);
  EXPECT_EQ(compute("mov.f64 %fd1, 0d7FF8000000000000; setp.ltu.f64 %p1, %fd1, %fd1; setp.ne.f64 %p2, %fd1, %fd1;"
                    "selp.u64 %rd4, 1, 0, %p1; @%p2 mov.u64 %rd4, 9;"),
            1u);
}

TEST(Ptx, BranchTablesAndCallsWork) {
  const std::string function = ".func (.param .b64 r) twice(.param .b64 a)\n{ .reg .b64 %rd<3>; ld.param.b64 %rd1, [a];"
                               "add.s64 %rd2, %rd1, %rd1; st.param.b64 [r], %rd2; ret; }\n";
  std::vector<uint64_t> in = {0}, out(4);
  auto fault = runKernel(kernel("cvt.u64.u32 %rd3, %r1; $t: .branchtargets $a, $b, $c, $b; brx.idx %r1, $t;\n"
                                "$a: mov.u64 %rd4, 10; bra.uni $done; $b: mov.u64 %rd4, 20; bra.uni $done;"
                                "$c: mov.u64 %rd4, 30; $done:\n"
                                "{ .param .b64 param0; .param .b64 retval0; st.param.b64 [param0], %rd4;"
                                "call.uni (retval0), twice, (param0); ld.param.b64 %rd4, [retval0]; }\n"
                                "shl.b64 %rd5, %rd3, 3; add.s64 %rd2, %rd2, %rd5; st.global.u64 [%rd2], %rd4;",
                                function),
                         in, out, 4);
  ASSERT_FALSE(fault) << fault->text;
  EXPECT_EQ(out, (std::vector<uint64_t>{20, 40, 60, 40}));
}

TEST(Ptx, BlockSumsWithShufflesAndBarriers) {
  std::vector<float> in(256), out(1);
  float sum = 0;
  for (size_t i = 0; i < in.size(); ++i)
    sum += in[i] = float(i);
  auto fault = runKernel(
      kernel(
          "mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd1, %rd3; ld.global.nc.f32 %f1, [%rd3]; mov.u32 %r2, 16;\n"
          "$l: shfl.sync.bfly.b32 %r3, %f1, %r2, 31, -1; mov.b32 %f2, %r3; add.rn.f32 %f1, %f1, %f2;\n"
          "shr.u32 %r2, %r2, 1; setp.ne.s32 %p1, %r2, 0; @%p1 bra $l;\n"
          "shr.u32 %r4, %r1, 5; shl.b32 %r4, %r4, 2; mov.u32 %r5, part; add.s32 %r5, %r5, %r4; and.b32 %r6, %r1, 31;\n"
          "setp.eq.s32 %p2, %r6, 0; @%p2 st.shared.f32 [%r5], %f1; bar.sync 0;\n"
          "setp.ne.s32 %p3, %r1, 0; @%p3 ret; mov.f32 %f3, 0f00000000; mov.u32 %r7, part; add.s32 %r8, %r7, 32;\n"
          "$m: ld.shared.v2.f32 {%f4, %f5}, [%r7]; add.f32 %f3, %f3, %f4; add.f32 %f3, %f3, %f5; add.s32 %r7, %r7, 8;\n"
          "setp.lt.u32 %p4, %r7, %r8; @%p4 bra $m; st.global.f32 [%rd2], %f3;",
          ".shared .align 8 .b8 part[32];\n"),
      in, out, 256);
  ASSERT_FALSE(fault) << fault->text;
  EXPECT_EQ(out[0], sum);
}

TEST(Ptx, ShufflesStayInTheirSegment) {
  // Segments of 8 lanes: mask operand (32 - 8) << 8 | clamp.
  std::vector<uint32_t> in = {0}, out(32 * 4);
  auto fault =
      runKernel(kernel("shfl.sync.up.b32 %r2|%p1, %r1, 1, 0x1800, -1; shfl.sync.down.b32 %r3, %r1, 3, 0x181F, -1;\n"
                       "shfl.sync.idx.b32 %r4, %r1, 2, 0x181F, -1; selp.u32 %r5, 1, 0, %p1;\n"
                       "mul.wide.u32 %rd3, %r1, 16; add.s64 %rd3, %rd2, %rd3;"
                       "st.global.v4.u32 [%rd3], {%r2, %r3, %r4, %r5};"),
                in, out, 32);
  ASSERT_FALSE(fault) << fault->text;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane * 4], lane % 8 == 0 ? lane : lane - 1);
    EXPECT_EQ(out[lane * 4 + 1], lane % 8 > 4 ? lane : lane + 3);
    EXPECT_EQ(out[lane * 4 + 2], lane / 8 * 8 + 2);
    EXPECT_EQ(out[lane * 4 + 3], lane % 8 != 0);
  }
}

TEST(Ptx, AtomicsOfAllBlocksAdd) {
  std::vector<uint32_t> in = {0};
  std::vector<double> out = {0, 0};
  auto fault =
      runKernel(kernel("red.global.add.f64 [%rd2], 0d3FF0000000000000; atom.global.max.u32 %r2, [%rd2+8], %r1;\n"
                       "atom.add.u32 %r2, [%rd1], 1;"),
                in, out, 64, 0, 5);
  ASSERT_FALSE(fault) << fault->text;
  EXPECT_EQ(out[0], 320);
  EXPECT_EQ(in[0], 320u);
  EXPECT_EQ(uint32_t(std::bit_cast<uint64_t>(out[1])), 63u);
}

TEST(Ptx, VotesAndConstantsAndDynamicSharedMemory) {
  std::vector<uint32_t> in = {0}, out(40);
  auto fault =
      runKernel(kernel("and.b32 %r2, %r1, 1; setp.eq.s32 %p1, %r2, 0; vote.sync.ballot.b32 %r3, %p1, -1;\n"
                       "mov.u32 %r4, dyn; shl.b32 %r5, %r1, 2; add.s32 %r4, %r4, %r5; st.shared.u32 [%r4], %r3;\n"
                       "ld.const.u32 %r6, [table+4]; ld.shared.u32 %r7, [%r4]; add.u32 %r7, %r7, %r6;\n"
                       "mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd2, %rd3; st.global.u32 [%rd3], %r7;",
                       ".extern .shared .align 16 .b8 dyn[];\n.const .align 4 .u32 table[2] = {7, 100};\n"
                       ".shared .align 4 .u32 unused;\n"),
                in, out, 40, 160);
  ASSERT_FALSE(fault) << fault->text;
  EXPECT_EQ(out[0], 0x55555555u + 100);
  EXPECT_EQ(out[39], 0x55u + 100);
}

TEST(Ptx, BadAddressesAreFaults) {
  std::vector<uint32_t> in(4), out(4);
  auto beyond = runKernel(kernel("ld.global.u32 %r2, [%rd1+16];"), in, out, 1);
  ASSERT_TRUE(beyond);
  EXPECT_EQ(beyond->code, FaultCode::IllegalAddress);
  EXPECT_NE(beyond->text.find("lies in no allocation"), std::string::npos) << beyond->text;
  auto straddling = runKernel(kernel("ld.global.v2.u64 {%rd3, %rd4}, [%rd1+16];"), in, out, 1);
  ASSERT_TRUE(straddling);
  auto misaligned = runKernel(kernel("st.global.u32 [%rd2+2], %r1;"), in, out, 1);
  ASSERT_TRUE(misaligned);
  EXPECT_EQ(misaligned->code, FaultCode::Misaligned);
  auto shared = runKernel(kernel("ld.shared.u32 %r2, [%r1];"), in, out, 1);
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->code, FaultCode::IllegalAddress);
}

TEST(Ptx, DivergentBarriersAreADeadlock) {
  std::vector<uint32_t> in(1), out(1);
  auto fault = runKernel(kernel("setp.lt.u32 %p1, %r1, 16; @%p1 bra $a; bar.sync 0; bra.uni $e; $a: bar.sync 1; $e:"),
                         in, out, 32);
  ASSERT_TRUE(fault);
  EXPECT_NE(fault->text.find("deadlock"), std::string::npos) << fault->text;
  auto shuffle =
      runKernel(kernel("setp.lt.u32 %p1, %r1, 16; @%p1 bra $a; bar.warp.sync -1; $a: bar.sync 0;"), in, out, 32);
  ASSERT_TRUE(shuffle);
  auto different = runKernel(
      kernel("setp.lt.u32 %p1, %r1, 16; @%p1 bra $a; bar.sync 0; bra.uni $e; $a: bar.sync 0; $e:"), in, out, 32);
  ASSERT_TRUE(different);
  EXPECT_NE(different->text.find("different barriers"), std::string::npos) << different->text;
}

TEST(Ptx, ThreadsThatWaitForAnotherWarpLetItRun) {
  std::vector<uint32_t> in = {0}, out = {0};
  auto fault = runKernel(kernel("setp.eq.u32 %p1, %r1, 32; @%p1 bra $set; $spin: ld.volatile.global.u32 %r2, [%rd1];"
                                "setp.eq.u32 %p2, %r2, 0; @%p2 bra $spin; bra.uni $end;"
                                "$set: st.volatile.global.u32 [%rd1], 1; $end:"),
                         in, out, 33);
  EXPECT_FALSE(fault);
}

TEST(Ptx, UnknownThingsAreErrorsWithTheirLine) {
  EXPECT_EQ(parseError(kernel("\n\nfrobnicate.b32 %r1, %r2;")), "line 10: `frobnicate.b32`: unknown instruction");
  EXPECT_NE(parseError(kernel("add.s32 %r1, %r99, 1;")).find("unknown name %r99"), std::string::npos);
  EXPECT_NE(parseError(kernel("bra $nowhere;")).find("unknown label $nowhere"), std::string::npos);
  EXPECT_NE(parseError(kernel("add.rn.relu.f32 %f1, %f1, %f1;")).find("`.relu` is not supported"), std::string::npos);
  EXPECT_NE(parseError(kernel("ld.global.b128 %rd3, [%rd1];")).find("`.b128` is not supported"), std::string::npos);
  EXPECT_NE(parseError(kernel("add.s8 %rs1, %rs1, 1;")).find("type is not supported"), std::string::npos);
  EXPECT_NE(parseError(kHead + ".visible .entry k()\n{\nret;\n").find("ends inside"), std::string::npos);
  EXPECT_NE(parseError(kernel("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r1}, {%r1}, {%r1}, {%r1};"))
                .find("unknown"),
            std::string::npos);
}
