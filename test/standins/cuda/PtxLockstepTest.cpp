// SPDX-License-Identifier: Apache-2.0
// Tests of warps whose lanes separate and meet again.
#include "PtxTestSupport.h"

#include <gtest/gtest.h>

using namespace kerf::standin::ptx;

namespace {

/// Stores %r2 of each thread, whose number in the grid is in %r3, and leaves %rd2 as it was.
const std::string kNumber = "mov.u32 %r16, %ctaid.x; mov.u32 %r17, %ntid.x; mad.lo.s32 %r3, %r16, %r17, %r1;\n";
const std::string kStore = "mul.wide.u32 %rd3, %r3, 4; add.s64 %rd3, %rd2, %rd3; st.global.u32 [%rd3], %r2;\n";

/// Runs a kernel that stores one number for each thread, with lanes together and with each lane alone. Expects that
/// both execute as many instructions, and returns what they stored.
std::vector<uint32_t> numbersOf(const std::string &text, uint32_t threads, uint32_t blocks = 1) {
  std::vector<uint32_t> in(64, 0), results[2];
  uint64_t instructions[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    Launch launch;
    launch.grid.x = blocks;
    launch.block.x = threads;
    launch.lanes = i == 0 ? Lanes::Together : Lanes::Alone;
    results[i].assign(size_t(threads) * blocks, 0xDEAD);
    auto fault = runKernel(text, in, results[i], launch, &instructions[i]);
    EXPECT_FALSE(fault) << fault->text;
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(instructions[0], instructions[1]);
  return results[0];
}

constexpr uint32_t kSizes[] = {1, 2, 5, 6, 7, 31, 32, 33, 63, 64, 65, 100};

std::string faultOf(const std::string &text, Extent block) {
  std::vector<uint32_t> in(64), out(1024);
  Launch launch;
  launch.block = block;
  auto fault = runKernel(text, in, out, launch);
  return fault ? fault->text : "";
}

} // namespace

TEST(PtxLockstep, NestedBranchesMeetBehindThem) {
  const std::string text =
      kernel(kNumber +
             "mov.u32 %r2, 0; and.b32 %r4, %r1, 1; setp.eq.s32 %p1, %r4, 0; @%p1 bra $even;\n"
             "and.b32 %r5, %r1, 2; setp.eq.s32 %p2, %r5, 0; @%p2 bra $one; add.s32 %r2, %r2, 3000;\n"
             "bra.uni $inner; $one: add.s32 %r2, %r2, 1000; $inner: add.s32 %r2, %r2, 7; bra.uni $join;\n"
             "$even: add.s32 %r2, %r2, 2000; setp.gt.u32 %p3, %r1, 20; @%p3 add.s32 %r2, %r2, 50;\n"
             "$join: add.s32 %r2, %r2, %r1;\n" +
             kStore);
  for (uint32_t threads : kSizes) {
    std::vector<uint32_t> out = numbersOf(text, threads);
    for (uint32_t i = 0; i < threads; ++i)
      EXPECT_EQ(out[i], i + (i % 2 ? (i & 2 ? 3007u : 1007u) : i > 20 ? 2050u : 2000u)) << threads << " " << i;
  }
}

TEST(PtxLockstep, LoopsEndForEachLaneByItself) {
  // Adds 1 .. tid % 11 without multiples of 3, and leaves the loop early where the sum exceeds 30.
  const std::string text =
      kernel(kNumber +
             "mov.u32 %r2, 0; mov.u32 %r4, 0; rem.u32 %r5, %r1, 11; $loop: setp.ge.u32 %p1, %r4, %r5;\n"
             "@%p1 bra $end; add.s32 %r4, %r4, 1; rem.u32 %r6, %r4, 3; setp.eq.s32 %p2, %r6, 0; @%p2 bra $loop;\n"
             "add.s32 %r2, %r2, %r4; setp.gt.u32 %p3, %r2, 30; @%p3 bra $end; bra.uni $loop; $end:\n" +
             kStore);
  auto expected = [](uint32_t i) {
    uint32_t sum = 0;
    for (uint32_t k = 1; k <= i % 11 && sum <= 30; ++k)
      sum += k % 3 ? k : 0;
    return sum;
  };
  for (uint32_t threads : kSizes) {
    std::vector<uint32_t> out = numbersOf(text, threads, 3);
    for (uint32_t i = 0; i < 3 * threads; ++i)
      EXPECT_EQ(out[i], expected(i % threads)) << threads << " " << i;
  }
}

TEST(PtxLockstep, LanesThatHaveEndedAreNotWaitedFor) {
  // Every third thread ends. The others add up: those of their warp times 1000, and those of the block.
  const std::string text =
      kernel(kNumber + "mov.u32 %r2, 7; rem.u32 %r4, %r1, 3; setp.eq.s32 %p1, %r4, 0;\n" + kStore +
                 "@%p1 exit; vote.sync.ballot.b32 %r5, !%p1, -1; popc.b32 %r5, %r5; bar.red.popc.u32 %r6, 0, %p1;\n"
                 "mov.u32 %r7, sum; setp.eq.s32 %p2, %r1, 1; @%p2 st.shared.u32 [%r7], 0; bar.sync 0;\n"
                 "atom.shared.add.u32 %r8, [%r7], 1; bar.sync 0; ld.shared.u32 %r2, [%r7]; add.s32 %r2, %r2, %r6;\n"
                 "mad.lo.s32 %r2, %r5, 1000, %r2;\n" +
                 kStore,
             ".shared .align 4 .u32 sum;\n");
  std::vector<uint32_t> out = numbersOf(text, 70);
  for (uint32_t i = 0; i < 70; ++i) {
    uint32_t left = 0;
    for (uint32_t other = i / 32 * 32; other < std::min(i / 32 * 32 + 32, 70u); ++other)
      left += other % 3 != 0;
    EXPECT_EQ(out[i], i % 3 == 0 ? 7 : left * 1000 + 46) << i;
  }
}

TEST(PtxLockstep, CallsInOneBranchReturnToIt) {
  const std::string function = ".func (.param .b32 r) twice(.param .b32 a)\n{ .reg .b32 %r<4>; .reg .pred %p<2>;\n"
                               "ld.param.b32 %r1, [a]; and.b32 %r2, %r1, 4; setp.eq.s32 %p1, %r2, 0; @%p1 bra $z;\n"
                               "add.s32 %r1, %r1, 100; $z: add.s32 %r3, %r1, %r1; st.param.b32 [r], %r3; ret; }\n";
  const std::string call = "{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r2; call.uni (q), twice, (p);"
                           "ld.param.b32 %r2, [q]; }\n";
  const std::string text =
      kernel(kNumber + "mov.u32 %r2, %r1; and.b32 %r4, %r1, 1; setp.eq.s32 %p1, %r4, 0;\n" + "@%p1 bra $even;" + call +
                 "bra.uni $join; $even: add.s32 %r2, %r2, 1;" + call + call + "$join: add.s32 %r2, %r2, 5;\n" + kStore,
             function);
  auto twice = [](uint32_t a) { return 2 * (a & 4 ? a + 100 : a); };
  std::vector<uint32_t> out = numbersOf(text, 77);
  for (uint32_t i = 0; i < 77; ++i)
    EXPECT_EQ(out[i], (i % 2 ? twice(i) : twice(twice(i + 1))) + 5) << i;
}

TEST(PtxLockstep, RecursionIsAsDeepAsEachLaneNeeds) {
  // Fibonacci numbers, by two recursions in each call.
  const std::string function =
      ".func (.param .b32 r) fib(.param .b32 n);\n"
      ".func (.param .b32 r) fib(.param .b32 n)\n{ .reg .b32 %r<9>; .reg .pred %p<2>; ld.param.b32 %r1, [n];\n"
      "setp.lt.u32 %p1, %r1, 2; @%p1 bra $leaf; sub.s32 %r2, %r1, 1; sub.s32 %r3, %r1, 2;\n"
      "{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r2; call.uni (q), fib, (p); ld.param.b32 %r4, [q]; }\n"
      "{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r3; call.uni (q), fib, (p); ld.param.b32 %r5, [q]; }\n"
      "add.s32 %r1, %r4, %r5; $leaf: st.param.b32 [r], %r1; ret; }\n";
  const std::string text = kernel(kNumber +
                                      "rem.u32 %r4, %r1, 12; { .param .b32 p; .param .b32 q; st.param.b32 [p], %r4;"
                                      "call.uni (q), fib, (p); ld.param.b32 %r2, [q]; }\n" +
                                      kStore,
                                  function);
  constexpr uint32_t kFibonacci[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
  std::vector<uint32_t> out = numbersOf(text, 40);
  for (uint32_t i = 0; i < 40; ++i)
    EXPECT_EQ(out[i], kFibonacci[i % 12]) << i;
}

TEST(PtxLockstep, BlocksOfThreeDimensionsNumberTheirThreads) {
  const std::string text = kernel(
      "mov.u32 %r4, %tid.y; mov.u32 %r5, %tid.z; mov.u32 %r6, %ntid.x; mov.u32 %r7, %ntid.y;\n"
      "mad.lo.s32 %r3, %r5, %r7, %r4; mad.lo.s32 %r3, %r3, %r6, %r1; mov.u32 %r8, %warpid; mov.u32 %r9, %laneid;\n"
      "mad.lo.s32 %r2, %r8, 32, %r9; shl.b32 %r10, %r5, 24; shl.b32 %r11, %r4, 16; or.b32 %r2, %r2, %r10;\n"
      "or.b32 %r2, %r2, %r11;\n" +
      kStore);
  std::vector<uint32_t> in(1), out(105);
  Launch launch;
  launch.block = {3, 5, 7};
  auto fault = runKernel(text, in, out, launch);
  ASSERT_FALSE(fault) << fault->text;
  for (uint32_t i = 0; i < 105; ++i)
    EXPECT_EQ(out[i], i | (i / 3 % 5) << 16 | (i / 15) << 24);
}

TEST(PtxLockstep, LanesThatWaitForEachOtherGetTurns) {
  // Lane by lane, backwards: each waits until the next one of the block has set its flag. The instructions that lanes
  // execute while they wait come before or behind those of the ones that they wait for.
  for (const char *layout : {"setp.eq.u32 %p1, %r1, 69; @%p1 bra $set; $spin: ld.volatile.global.u32 %r4, [%rd3+4];\n"
                             "setp.eq.u32 %p2, %r4, 0; @%p2 bra $spin; $set: st.volatile.global.u32 [%rd3], 1;",
                             "setp.ne.u32 %p1, %r1, 69; @%p1 bra $spin; $set: st.volatile.global.u32 [%rd3], 1; ret;\n"
                             "$spin: ld.volatile.global.u32 %r4, [%rd3+4]; setp.eq.u32 %p2, %r4, 0;\n"
                             "@%p2 bra $spin; bra.uni $set;"}) {
    std::vector<uint32_t> in(1), out(72, 0);
    auto fault =
        runKernel(kernel("mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd2, %rd3;\n" + std::string(layout)), in, out, 70);
    ASSERT_FALSE(fault) << fault->text;
    EXPECT_EQ(out[0], 1u);
  }
}

TEST(PtxLockstep, FaultsNameTheLane) {
  // The block has rows of five threads; thread (3,4,0) is lane 23 of the first warp, and (4,8,0) lane 12 of the second.
  const std::string number = "mov.u32 %r4, %tid.y; mad.lo.s32 %r3, %r4, 5, %r1; mul.wide.u32 %rd3, %r3, 4;\n"
                             "add.s64 %rd3, %rd2, %rd3;\n";
  auto inThread = [&](int thread, const std::string &body) {
    return faultOf(kernel(number + "setp.eq.u32 %p1, %r3, " + std::to_string(thread) + ";\n" + body), {5, 9, 1});
  };
  auto contains = [](const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; };
  std::string text = inThread(23, "@%p1 add.s64 %rd3, %rd3, 2; st.global.u32 [%rd3], %r3;");
  EXPECT_TRUE(contains(text, "thread (3,4,0): misaligned address")) << text;
  text = inThread(44, "selp.b64 %rd4, 0, %rd3, %p1; ld.global.u32 %r5, [%rd4];");
  EXPECT_TRUE(contains(text, "thread (4,8,0): address 0x0 lies in no allocation")) << text;
  text = inThread(23, "@!%p1 bra $end; ld.shared.u32 %r5, [8]; $end:");
  EXPECT_TRUE(contains(text, "thread (3,4,0): access outside of the block's shared memory")) << text;
  text = inThread(44, "@!%p1 bra $end; trap; $end:");
  EXPECT_TRUE(contains(text, "thread (4,8,0): the kernel executed `trap`")) << text;
  text = inThread(44, "selp.b32 %r5, 0x1000, -1, %p1; bar.warp.sync %r5;");
  EXPECT_EQ(text, ""); // this lane waits for nobody, and the others until it has ended
  text = inThread(44, "selp.b32 %r5, 1, -1, %p1; bar.warp.sync %r5;");
  EXPECT_TRUE(contains(text, "thread (4,8,0): the lane is not in its own mask")) << text;
  text = inThread(23, "selp.b32 %r5, 9, 0, %p1; $t: .branchtargets $end, $end; brx.idx %r5, $t; $end:");
  EXPECT_TRUE(contains(text, "thread (3,4,0): index 9 is outside of the branch table")) << text;
}

TEST(PtxLockstep, ShufflesAndVotesInBranchesKeepToTheirMasks) {
  // Odd and even lanes sum within themselves; the even lanes in a loop that runs longer.
  const std::string text =
      kernel(kNumber +
             "and.b32 %r4, %r1, 1; setp.eq.s32 %p1, %r4, 0; mov.u32 %r2, %r1; mov.u32 %r5, 16; @%p1 bra $even;\n"
             "$odd: shfl.sync.bfly.b32 %r6, %r2, %r5, 31, 0xAAAAAAAA; add.s32 %r2, %r2, %r6; shr.u32 %r5, %r5, 1;\n"
             "setp.gt.u32 %p2, %r5, 1; @%p2 bra $odd; setp.gt.u32 %p3, %r1, 8;\n"
             "vote.sync.ballot.b32 %r7, %p3, 0xAAAAAAAA; bra.uni $join;\n"
             "$even: shfl.sync.bfly.b32 %r6, %r2, %r5, 31, 0x55555555; max.u32 %r2, %r2, %r6; shr.u32 %r5, %r5, 1;\n"
             "setp.gt.u32 %p2, %r5, 1; @%p2 bra $even; redux.sync.add.u32 %r7, 1, 0x55555555;\n"
             "$join: shl.b32 %r7, %r7, 9; bar.warp.sync -1; activemask.b32 %r8; add.s32 %r2, %r2, %r7;\n"
             "not.b32 %r8, %r8; add.s32 %r2, %r2, %r8;\n" +
             kStore);
  std::vector<uint32_t> out = numbersOf(text, 32);
  for (uint32_t i = 0; i < 32; ++i)
    EXPECT_EQ(out[i], i % 2 ? 256 + (0xAAAAAA00u << 9) : 30u + (16u << 9)) << i;
}

TEST(PtxLockstep, UnwrittenRegistersHoldThePoisonPattern) {
  // The registers are those of another block's threads that have written them; only lane 3 writes it here.
  const std::string text =
      kernel(kNumber +
             "setp.eq.u32 %p1, %r16, 0; @%p1 bra $write; setp.ne.u32 %p2, %r1, 3; @%p2 bra $read;\n"
             "$write: mov.u32 %r9, %r1; $read: mov.u32 %r2, %r9;\n" +
             kStore);
  std::vector<uint32_t> out = numbersOf(text, 40, 2);
  for (uint32_t i = 0; i < 80; ++i)
    EXPECT_EQ(out[i], i < 40 ? i : i == 43 ? 3 : 0x7FA7BAD1u) << i;
}

TEST(PtxLockstep, LanesThatHaveMetExecuteTogether) {
  // Each of two additions is one instruction for all lanes, so that lane i of the first one finds i, of the second 32 +
  // i.
  const std::string add = "atom.global.add.u32 %r6, [%rd1], 1; atom.global.add.u32 %r7, [%rd1], 1;\n"
                          "mad.lo.s32 %r2, %r6, 1000, %r7;\n";
  for (const char *before :
       {"and.b32 %r4, %r1, 5; setp.eq.s32 %p1, %r4, 0; @%p1 bra $a; setp.eq.s32 %p2, %r4, 4; @%p2 bra $b;\n"
        "add.s32 %r5, %r5, 1; $b: add.s32 %r5, %r5, 2; bra.uni $join; $a: add.s32 %r5, %r5, 3; $join:\n",
        "mov.u32 %r4, %r1; $loop: setp.eq.s32 %p1, %r4, 0; @%p1 bra $end; sub.s32 %r4, %r4, 1; bra.uni $loop; $end:\n",
        "setp.gt.u32 %p1, %r1, 9; @%p1 add.s32 %r5, %r5, 1;\n"}) {
    std::vector<uint32_t> in = {0}, out(32);
    auto fault = runKernel(kernel(kNumber + before + add + kStore), in, out, 32);
    ASSERT_FALSE(fault) << fault->text;
    for (uint32_t i = 0; i < 32; ++i)
      EXPECT_EQ(out[i], i * 1000 + 32 + i) << before;
  }
}

TEST(PtxLockstep, RegistersOfInnerBlocksHideOuterOnes) {
  const std::string text = kernel(kNumber +
                                  "mov.u32 %r2, 5; add.s32 %r2, %r2, %r1;\n"
                                  "{ .reg .b32 %r2; mov.u32 %r2, 100; add.s32 %r4, %r2, %r2; }\n"
                                  "add.s32 %r2, %r2, %r4;\n" +
                                  kStore);
  std::vector<uint32_t> out = numbersOf(text, 33);
  for (uint32_t i = 0; i < 33; ++i)
    EXPECT_EQ(out[i], 205 + i);
}

TEST(PtxLockstep, EveryBlockBeginsWithoutCarry) {
  const std::string text =
      kernel(kNumber + "addc.u32 %r2, 0, 0; add.cc.u32 %r4, -1, %r1;\n" + kStore); // carries, except in thread 0
  EXPECT_EQ(numbersOf(text, 40, 3), std::vector<uint32_t>(120, 0));
}

TEST(PtxLockstep, LocalMemoryEndsWithTheFunctionsOwn) {
  const std::string function = ".func deep()\n{ .local .align 4 .b8 room[64]; .reg .b32 %r<2>; mov.u32 %r1, 1;\n"
                               "st.local.u32 [room+60], %r1; ret; }\n";
  auto body = [&](const std::string &at) {
    return kernel(".local .align 4 .b8 own[16]; call.uni deep;\nst.local.u32 [own+" + at + "], %r1;", function);
  };
  EXPECT_EQ(faultOf(body("12"), {32, 1, 1}), "");
  std::string text = faultOf(body("16"), {32, 1, 1});
  EXPECT_NE(text.find("thread (0,0,0): access outside of the thread's local memory"), std::string::npos) << text;
}
