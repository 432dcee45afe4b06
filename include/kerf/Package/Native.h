// SPDX-License-Identifier: Apache-2.0
// Machine code of a program's kernels: what a package says of it, and how a kernel's elements lie. A runtime without
// code for its processor runs the same functions op by op, with the same bits.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::package {

/// The kind of image that holds machine code for x86-64, and the version of its interface, the call below. A device
/// uses images of the kinds and interfaces that it knows.
inline constexpr std::string_view kHostImage = "x86-64";
inline constexpr int64_t kNativeInterface = 2;
/// Where the elements of a kernel's argument or result are: that of (row, column) `row` * `rowStride` + `column`
/// elements after `data`. What is broadcast lies whole at `data`. In place of a reduction's result there are running
/// ones, f64 of sums and else as wide as registers, that what is reduced is combined with: of (row, column) where
/// columns are kept; where they are reduced of (row, column % kReductionLanes), and columns begin at 0.
inline constexpr int64_t kReductionLanes = 16;
struct NativeBuffer {
  void *data = nullptr;
  int64_t rowStride = 0;
};
/// `buffers`: of the arguments, then of the results. `routines`: of NativeCode::routines. Columns [columnBegin,
/// columnEnd) of rows [rowBegin, rowEnd) of the kernel's are computed: see KernelSpace.
using NativeEntry = void (*)(const NativeBuffer *buffers, const void *const *routines, int64_t rowBegin, int64_t rowEnd,
                             int64_t columnBegin, int64_t columnEnd);

/// Code for one instruction set. Of kHostImage: one block without references to anything outside, which runs at any
/// page of memory.
struct NativeImage {
  std::string isa;              // "x86-64-v3"; small letters, digits and '-'
  std::vector<int64_t> entries; // of each kernel: where it begins
  uint32_t checksum = 0;        // CRC-32 of `code`
  std::string code;             // not in program.json: in a file beside it
  std::string kind = std::string(kHostImage);
  int64_t interface = kNativeInterface; // of `kind`
};
/// True of an image that the host's processors may run.
bool isHostImage(const NativeImage &image);
/// "kernels-x86-64-v3.bin".
std::string fileOf(const NativeImage &image);

struct NativeCode {
  std::vector<std::string> kernels; // functions of the program
  std::vector<uint32_t> checksums;  // of each: CRC-32 of writeFunction
  /// Routines of the runtime that host images call, in the order of its table: "OP.f32", "OP.f64", and "OP.tanh.f32"
  /// where the op has `approximate`.
  std::vector<std::string> routines;
  std::vector<NativeImage> images; // of a kind, worst first
};

uint32_t checksumOf(std::string_view bytes);
/// Counts, offsets and checksums agree, with each other and with the program's functions. `code` is not looked at where
/// it is empty.
Status checkNative(const NativeCode &native, const Program &program);

/// The elements of a kernel, neighbouring dimensions put together that no broadcast and no reduction tells apart:
/// [16, 64, 8, 8] with a [64] along the second is 16 x 64 x 64. The last dimension are the columns, the others count
/// rows.
struct KernelSpace {
  Shape sizes;
  /// Of each broadcast: the element of its operand is the sum of index * stride over `sizes`. The last is 0 or 1.
  std::vector<std::vector<int64_t>> broadcasts;
  /// Of a kernel that ends in reductions, likewise: the element of their results that an element goes into.
  std::vector<int64_t> reduced;
  int64_t rows() const;
  int64_t columns() const { return sizes.back(); }
};

/// Rows of broadcasts shorter than this are not worth a kernel.
inline constexpr int64_t kShortestRow = 16;

/// `shape` with tensors broadcast into it: of each its shape, and the dimension of each of its dimensions. A reduction
/// of it lies as the broadcast of its result would. Nothing where rows would be shorter than kShortestRow, or elements
/// of them neither all one nor neighbours.
struct BroadcastOf {
  Shape shape;
  std::vector<int64_t> dimensions;
};
std::optional<KernelSpace> kernelSpace(const Shape &shape, const std::vector<BroadcastOf> &broadcasts,
                                       const std::optional<BroadcastOf> &reduction = {});
/// Of a function that is a kernel, its broadcasts in the order of its body. An Error says what in it no kernel has.
Result<KernelSpace> kernelSpace(const Function &function);

/// The reduction that makes `value`; null where none does.
const Instruction *reductionOf(const Function &kernel, int value);

/// A kernel's result may be written over its argument of the same bytes: it reads that element by element.
bool mayOverwrite(const Function &kernel, int argument, int result);

} // namespace kerf::package
