// SPDX-License-Identifier: Apache-2.0
// Compares warps that run together with lanes that run alone, by random programs.
#include "PtxTestSupport.h"

#include <array>
#include <gtest/gtest.h>
#include <random>

using namespace kerf::standin::ptx;

namespace {

constexpr uint32_t kWords = 32; // that each thread has in the kernel's output

/// Writes random programs in which every loop ends. Registers may be read before anything has written them.
class Program {
public:
  explicit Program(uint64_t seed) : random(seed) {}

  /// Returns a kernel and the function that it calls. Where `apart` is set, every register has a slot of its own.
  std::string text(bool apart) const {
    const std::string registers = ".reg .pred %p<5>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .b64 %rd<12>;"
                                  ".reg .f32 %f<8>; .reg .f64 %fd<4>;\n";
    const std::string separate = apart ? "{ .reg .b32 %unused; }\n" : "";
    return kHead + ".shared .align 8 .b8 area[2048];\n" + ".func (.param .b32 result) mix(.param .b32 n)\n{\n" +
           registers + separate + "ld.param.b32 %r1, [n];\nand.b32 %r1, %r1, 3;\n" + function +
           "setp.eq.u32 %p4, %r1, 0; @%p4 bra $leaf; sub.u32 %r31, %r1, 1;\n"
           "{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r31; call.uni (q), mix, (p);"
           " ld.param.b32 %r31, [q]; }\nadd.u32 %r2, %r2, %r31;\n"
           "$leaf: st.param.b32 [result], %r2; ret;\n}\n"
           ".visible .entry k(.param .u64 k_0, .param .u64 k_1)\n{\n" +
           registers + separate +
           "ld.param.u64 %rd1, [k_0]; ld.param.u64 %rd2, [k_1]; mov.u32 %r1, %tid.x; mov.u32 %r30, %ntid.x;\n"
           "mov.u32 %r29, %ctaid.x; mad.lo.s32 %r30, %r29, %r30, %r1; mul.wide.u32 %rd3, %r30, 128;\n"
           "add.s64 %rd2, %rd2, %rd3; shl.b32 %r29, %r1, 3; mov.u32 %r30, area; add.s32 %r30, %r30, %r29;\n"
           "st.shared.u64 [%r30], 0;\n" +
           body + end() + "ret;\n}\n";
  }

  /// Makes the program: `text` returns it.
  void make() {
    prefix = "$f";
    isFunction = true;
    statements(function, 2, 6);
    prefix = "$k";
    isFunction = false;
    for (int part = 0; part < 3; ++part) {
      statements(body, 3, 10);
      meet();
    }
  }

private:
  uint32_t below(uint32_t n) { return uint32_t(random() % n); }
  template <size_t N> std::string oneOf(const char *const (&names)[N]) { return names[below(uint32_t(N))]; }
  std::string number(const std::string &of, uint32_t first, uint32_t count) {
    return of + std::to_string(first + below(count));
  }
  std::string word() { return number("%r", 2, 10); }
  std::string wide() { return number("%rd", 4, 5); }
  std::string single() { return number("%f", 1, 6); }
  std::string twice() { return number("%fd", 1, 3); }
  std::string half() { return number("%h", 1, 3); }
  std::string predicate() { return number("%p", 1, 3); }
  std::string wordOrNumber() { return below(4) ? word() : std::to_string(int32_t(random())); }
  std::string label() { return prefix + std::to_string(labels++); }

  void statements(std::string &to, int depth, uint32_t most) {
    for (uint32_t count = 1 + below(most); count > 0; --count)
      statement(to, depth);
  }

  void statement(std::string &to, int depth) {
    uint32_t kind = below(depth > 0 ? 20 : 14);
    if (kind < 14) {
      if (below(6) == 0)
        to += (below(2) ? "@" : "@!") + predicate() + " ";
      to += simple() + ";\n";
    } else if (kind < 17) {
      branches(to, depth - 1);
    } else if (kind < 19) {
      loop(to, depth - 1);
    } else if (!isFunction && below(2)) {
      std::string argument = word();
      to += "{ .param .b32 p; .param .b32 q; st.param.b32 [p], " + argument +
            "; call.uni (q), mix, (p); ld.param.b32 " + word() + ", [q]; }\n";
    } else if (!isFunction && below(3) == 0) {
      std::string rest = label();
      to += "setp.ne.u32 %p4, %r1, " + std::to_string(below(70)) + "; @%p4 bra " + rest + ";\n" + end() +
            (below(2) ? "ret;\n" : "exit;\n") + rest + ":\n";
    }
  }

  void branches(std::string &to, int depth) {
    std::string other = label(), join = label();
    to += (below(2) ? "@" : "@!") + predicate() + " bra " + other + ";\n";
    statements(to, depth, 4);
    bool hasElse = below(2);
    to += hasElse ? "bra.uni " + join + ";\n" + other + ":\n" : "";
    if (hasElse)
      statements(to, depth, 4);
    to += hasElse ? join + ":\n" : other + ":\n";
  }

  /// A loop of up to seven turns, with a counter for each depth, and perhaps an early end.
  void loop(std::string &to, int depth) {
    std::string begin = label(), end = label(), counter = "%r" + std::to_string(20 + depth);
    to += "and.b32 " + counter + ", " + word() + ", 7;\n" + begin + ":\nsetp.eq.u32 %p4, " + counter +
          ", 0;\n@%p4 bra " + end + ";\nsub.u32 " + counter + ", " + counter + ", 1;\n";
    statements(to, depth, 4);
    if (below(2))
      to += "@" + predicate() + " bra " + end + ";\n";
    statements(to, depth, 2);
    to += "bra.uni " + begin + ";\n" + end + ":\n";
  }

  std::string simple() {
    switch (below(16)) {
    case 0:
    case 1:
      return oneOf({"add.s32 ", "sub.s32 ", "mul.lo.s32 ", "and.b32 ", "or.b32 ", "xor.b32 ", "min.s32 ", "max.u32 ",
                    "shl.b32 ", "shr.u32 ", "shr.s32 ", "div.s32 ", "rem.u32 ", "mul.hi.u32 ", "add.cc.u32 ",
                    "addc.u32 ", "mul.hi.s32 ", "add.s16x2 "}) +
             word() + ", " + word() + ", " + wordOrNumber();
    case 2:
      return oneOf({"not.b32 ", "neg.s32 ", "popc.b32 ", "clz.b32 ", "brev.b32 ", "abs.s32 ", "bfind.u32 "}) + word() +
             ", " + word();
    case 3:
      return oneOf({"mad.lo.s32 ", "bfe.s32 ", "bfe.u32 ", "prmt.b32 ", "shf.l.wrap.b32 ", "sad.u32 "}) + word() +
             ", " + word() + ", " + wordOrNumber() + ", " + wordOrNumber();
    case 4:
      return "selp.b32 " + word() + ", " + word() + ", " + wordOrNumber() + ", " + predicate();
    case 5:
    case 6:
      return "setp." + oneOf({"eq.s32 ", "ne.u32 ", "lt.s32 ", "hi.u32 ", "ge.s32 "}) + predicate() + ", " + word() +
             ", " + (below(2) ? word() : std::to_string(below(40)));
    case 7:
      return "setp." + oneOf({"lt.and.f32 ", "gtu.or.f32 ", "neu.xor.f32 ", "num.and.f32 "}) + predicate() + "|%p4, " +
             single() + ", " + single() + ", " + predicate();
    case 8:
    case 9:
      return oneOf({"add.rn.f32 ", "sub.rn.f32 ", "mul.rn.f32 ", "div.rn.f32 ", "min.f32 ", "max.NaN.f32 ",
                    "add.rz.f32 ", "mul.rp.f32 ", "mul.rn.ftz.f32 ", "copysign.f32 "}) +
             single() + ", " + single() + ", " + single();
    case 10:
      return below(2) ? "fma.rn.f32 " + single() + ", " + single() + ", " + single() + ", " + single()
                      : oneOf({"sqrt.rn.f32 ", "ex2.approx.f32 ", "neg.f32 ", "abs.f32 ", "rcp.rn.f32 "}) + single() +
                            ", " + single();
    case 11:
      return converting();
    case 12:
      return below(2) ? oneOf({"add.rn.f64 ", "mul.rn.f64 ", "min.f64 ", "div.rn.f64 "}) + twice() + ", " + twice() +
                            ", " + twice()
                      : "fma.rn.f64 " + twice() + ", " + twice() + ", " + twice() + ", " + twice();
    case 13:
      return below(2) ? oneOf({"add.s64 ", "mul.lo.s64 ", "xor.b64 ", "max.s64 ", "shr.s64 "}) + wide() + ", " +
                            wide() + ", " + (below(2) ? wide() : std::to_string(below(60)))
                      : "mul.wide.s32 " + wide() + ", " + word() + ", " + wordOrNumber();
    case 14:
      return moving();
    default:
      return memory();
    }
  }

  std::string converting() {
    switch (below(6)) {
    case 0:
      return "cvt.rn.f32.s32 " + single() + ", " + word();
    case 1:
      return "cvt.rzi.s32.f32 " + word() + ", " + single();
    case 2:
      return "cvt.f64.f32 " + twice() + ", " + single();
    case 3:
      return "cvt.rn.f32.f64 " + single() + ", " + twice();
    case 4:
      return below(2) ? "cvt.rn.f16.f32 " + half() + ", " + single() : "cvt.f32.f16 " + single() + ", " + half();
    default:
      return oneOf({"fma.rn.f16 ", "fma.rn.bf16 "}) + half() + ", " + half() + ", " + half() + ", " + half();
    }
  }

  std::string moving() {
    switch (below(4)) {
    case 0:
      return "mov.b32 " + word() + ", " + single();
    case 1:
      return "mov.b64 " + wide() + ", {" + word() + ", " + word() + "}";
    case 2: // the two registers differ
      return "mov.b64 {%r" + std::to_string(2 + below(5)) + ", %r" + std::to_string(7 + below(5)) + "}, " + wide();
    default:
      return "mov.u32 " + word() + ", " + oneOf({"%laneid", "%warpid", "%tid.x", "%ctaid.x", "%lanemask_lt"});
    }
  }

  /// A load or store of the thread's own words.
  std::string memory() {
    std::string at = std::to_string(4 * below(20));
    if (isFunction)
      return "mov.u32 " + word() + ", " + word();
    switch (below(5)) {
    case 0:
      return "st.global.u32 [%rd2+" + at + "], " + word();
    case 1:
      return "ld.global.s16 " + word() + ", [%rd2+" + at + "]";
    case 2:
      return "ld.global.v2.b32 {%r2, %r9}, [%rd1+" + std::to_string(8 * below(32)) + "]";
    case 3:
      return "st.shared.b32 [%r30+4], " + word();
    default:
      return "ld.shared.u64 " + wide() + ", [%r30]";
    }
  }

  /// Statements for all threads of a block that have not ended.
  void meet() {
    body += "shfl.sync." + oneOf({"up", "down", "bfly", "idx"}) + ".b32 " + word() + "|" + predicate() + ", " + word() +
            ", " + std::to_string(below(32)) + ", " + oneOf({"31", "0", "0x181F", "0x1C00"}) + ", -1;\n";
    body += "vote.sync.ballot.b32 " + word() + ", " + predicate() + ", -1;\n";
    body += "match.any.sync.b32 " + word() + ", " + word() + ", -1;\n";
    body += "bar.red.popc.u32 " + word() + ", 0, " + predicate() + ";\n";
  }

  /// Stores all registers.
  static std::string end() {
    std::string text;
    for (int i = 2; i < 12; ++i)
      text += "st.global.u32 [%rd2+" + std::to_string(4 * i - 8) + "], %r" + std::to_string(i) + ";\n";
    for (int i = 1; i < 7; ++i)
      text += "st.global.f32 [%rd2+" + std::to_string(36 + 4 * i) + "], %f" + std::to_string(i) + ";\n";
    for (int i = 4; i < 9; ++i)
      text += "st.global.u64 [%rd2+" + std::to_string(32 + 8 * i) + "], %rd" + std::to_string(i) + ";\n";
    return text + "st.global.f64 [%rd2+104], %fd1;\nst.global.f64 [%rd2+112], %fd2;\nst.global.b16 [%rd2+120], %h1;\n";
  }

  std::mt19937_64 random;
  std::string prefix, function, body;
  bool isFunction = false;
  int labels = 0;
};

/// The result of a launch: the words that it leaves in memory, how many instructions it ran, and its fault.
struct Outcome {
  std::vector<uint32_t> words;
  uint64_t instructions = 0;
  std::string fault;
};

Outcome outcomeOf(const std::string &text, uint32_t threads, Lanes lanes) {
  std::vector<uint32_t> in(64);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = uint32_t(i * 0x9E3779B1u);
  Outcome outcome;
  outcome.words.assign(size_t(threads) * 2 * kWords, 0xABCD);
  Launch launch;
  launch.grid.x = 2;
  launch.block.x = threads;
  launch.lanes = lanes;
  if (auto fault = runKernel(text, in, outcome.words, launch, &outcome.instructions))
    outcome.fault = fault->text;
  return outcome;
}

} // namespace

TEST(PtxRandom, LanesTogetherDoAsLanesAlone) {
  constexpr uint32_t kSizes[] = {1, 4, 7, 31, 32, 33, 50, 64, 96};
  const char *given = std::getenv("KERF_STANDIN_SEED");
  uint64_t first = given ? std::strtoull(given, nullptr, 10) : 1, count = given ? 1 : 150;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Program program(seed);
    program.make();
    uint32_t threads = kSizes[seed % std::size(kSizes)];
    Outcome together = outcomeOf(program.text(false), threads, Lanes::Together);
    Outcome alone = outcomeOf(program.text(true), threads, Lanes::Alone);
    EXPECT_EQ(together.fault, alone.fault) << "KERF_STANDIN_SEED=" << seed;
    EXPECT_EQ(together.instructions, alone.instructions) << "KERF_STANDIN_SEED=" << seed;
    for (size_t i = 0; i < alone.words.size(); ++i)
      if (together.words[i] != alone.words[i]) {
        ADD_FAILURE() << "word " << i % kWords << " of thread " << i / kWords << " of " << threads << " is "
                      << together.words[i] << ", and " << alone.words[i] << " alone; KERF_STANDIN_SEED=" << seed << "\n"
                      << (given ? program.text(false) : "");
        break;
      }
    if (HasFailure())
      break;
  }
}
