// SPDX-License-Identifier: Apache-2.0
// Machine code of a program's kernels: what a package says of it, and how a kernel's elements lie. A runtime without
// code for its processor runs the same functions op by op, with the same bits.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::package {

/// Of the call below. Code of another interface is not used.
inline constexpr int64_t kNativeInterface = 1;
/// `buffers`: of the arguments, then of the results. `routines`: of NativeCode::routines. Units [begin, end) of the
/// kernel's are computed: see KernelSpace.
using NativeEntry = void (*)(void *const *buffers, const void *const *routines, int64_t begin, int64_t end);

/// Code for one instruction set: one block without references to anything outside, which runs at any page of memory.
struct NativeImage {
  std::string isa;              // "x86-64-v3"
  std::vector<int64_t> entries; // of each kernel: where it begins
  uint32_t checksum = 0;        // CRC-32 of `code`
  std::string code;             // not in program.json: in a file beside it
};
/// "kernels-x86-64-v3.bin".
std::string fileOf(const NativeImage &image);

struct NativeCode {
  int64_t interface = kNativeInterface;
  std::vector<std::string> kernels;  // functions of the program
  std::vector<uint32_t> checksums;   // of each: CRC-32 of writeFunction
  std::vector<std::string> routines; // of the runtime that the code calls, in the order of its table: "gelu.f32"
  std::vector<NativeImage> images;   // worst first
};

uint32_t checksumOf(std::string_view bytes);
/// Counts, offsets and checksums agree, with each other and with the program's functions. `code` is not looked at where
/// it is empty.
Status checkNative(const NativeCode &native, const Program &program);

/// How a kernel does a pointwise op: by instructions of its own, by a routine of the runtime, which is named "OP.f32"
/// or "OP.tanh.f32" where the op has `approximate`, or not at all. Floating types and bool alone.
enum class KernelOp { None, Inline, Routine };
KernelOp kernelOp(std::string_view op);

/// The elements of a kernel, neighbouring dimensions put together that no broadcast tells apart: [16, 64, 8, 8] with a
/// [64] along the second is 16 x 64 x 64. A unit is a row of the last dimension, or one element where there is one
/// dimension alone.
struct KernelSpace {
  Shape sizes;
  /// Of each broadcast: the element of its operand is the sum of index * stride over `sizes`. The last is 0 or 1.
  std::vector<std::vector<int64_t>> broadcasts;
  int64_t units() const;
  int64_t elementsOfUnit() const { return sizes.size() > 1 ? sizes.back() : 1; }
};

/// Rows of broadcasts shorter than this are not worth a kernel.
inline constexpr int64_t kShortestRow = 16;

/// `shape` with tensors broadcast into it: of each its shape, and the dimension of each of its dimensions. Nothing
/// where rows would be shorter than kShortestRow, or their elements neither all one nor neighbours.
struct BroadcastOf {
  Shape shape;
  std::vector<int64_t> dimensions;
};
std::optional<KernelSpace> kernelSpace(const Shape &shape, const std::vector<BroadcastOf> &broadcasts);
/// Of a function that is a kernel, its broadcasts in the order of its body. An Error says what in it no kernel has.
Result<KernelSpace> kernelSpace(const Function &function);

/// A kernel's result may be written over its argument `argument` of the same bytes: it reads that element by element.
bool mayOverwrite(const Function &kernel, int argument);

} // namespace kerf::package
