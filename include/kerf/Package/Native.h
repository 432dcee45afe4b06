// SPDX-License-Identifier: Apache-2.0

// Native code: machine code for a program's kernels, which are functions of pointwise ops and reductions. This header
// says what a package records about the code and how a kernel's elements are laid out. A runtime without code for its
// processor runs the same functions op by op, with bit-identical results.
#pragma once

#include "kerf/Package/RowKernel.h"

namespace kerf::package {

/// NativeImage::kind of machine code for x86-64 processors. A device uses only images of the kinds that it knows.
inline constexpr std::string_view kHostImage = "x86-64";
/// Version of the calling interface (NativeEntry) of images of kind kHostImage. Images of another version are ignored.
inline constexpr int64_t kNativeInterface = 3;
/// Number of running results that a kernel keeps for a row that it reduces (see NativeBuffer).
inline constexpr int64_t kReductionLanes = 16;
/// Location of a kernel's argument or result. Element (row, column) lies `row` * `rowStride` + `column` elements after
/// `data`; an argument that a broadcast reads lies contiguously at `data`. The arguments and results of a row kernel
/// (RowKernel.h) have the stride of their own shape, e.g. 1 for one element in each row. The result of a reduction is
/// instead a buffer of running results, f64 for sums and otherwise of the register type, into which the kernel combines
/// elements. If the reduction keeps columns, element (row, column) goes into running result (row, column); otherwise it
/// goes into (row, column % kReductionLanes), and a call must begin at column 0.
struct NativeBuffer {
  void *data = nullptr;  // address of element (0, 0)
  int64_t rowStride = 0; // distance from one row to the next, in elements
};
/// Entry point of a kernel's machine code: computes columns [columnBegin, columnEnd) of rows [rowBegin, rowEnd) of
/// the kernel's KernelSpace. `buffers` holds the kernel's arguments, then its results; `routines` holds the addresses
/// of NativeCode::routines. Returns how many indices of lookups (take_along and its gradient) are outside of their row;
/// the results of these rows mean nothing.
using NativeEntry = int64_t (*)(const NativeBuffer *buffers, const void *const *routines, int64_t rowBegin,
                                int64_t rowEnd, int64_t columnBegin, int64_t columnEnd);

/// Code of all kernels for one instruction set. The code of a kHostImage is one block of machine code without
/// references to anything outside, so that it can be mapped at any page. The code of PTX images is described in Ptx.h.
struct NativeImage {
  std::string isa;              // instruction set, e.g. "x86-64-v3": lower-case letters, digits, '-' and '_'
  std::vector<int64_t> entries; // for each kernel: byte offset of its entry point in `code`; empty for PTX
  uint32_t checksum = 0;        // CRC-32 of `code`
  std::string code;             // the code; stored in the file imageFileName(), not in program.json
  std::string kind = std::string(kHostImage); // what can execute the code
  int64_t interface = kNativeInterface;       // version of the calling interface of this `kind`
};
/// Returns true if the image is of kind kHostImage and of interface version kNativeInterface.
bool isHostImage(const NativeImage &image);
/// Returns true if this version of Kerf has a device that can use the image: it is a host image or PTX (Ptx.h).
bool isKnownImage(const NativeImage &image);
/// Returns the name of the file in the package that holds the image's code, e.g. "kernels-x86-64-v3.bin" or
/// "kernels-sm_80.ptx".
std::string imageFileName(const NativeImage &image);

/// Native code of a program: which functions have code, and the code for each instruction set.
struct NativeCode {
  std::vector<std::string> kernels; // names of the program's functions that have code
  std::vector<uint32_t> checksums;  // for each of `kernels`: CRC-32 of the text that writeFunction returns
  /// Names of the runtime's routines that host code calls, in the order of the address table that it is given:
  /// "OP.f32", "OP.f64", or "OP.tanh.f32" where the op has the attribute `approximate`, and "top_k.f32" for a row.
  std::vector<std::string> routines;
  std::vector<NativeImage> images; // within a kind, from the oldest instruction set to the newest
};

/// Returns the CRC-32 checksum of `bytes`.
uint32_t checksumOf(std::string_view bytes);
/// Checks that the counts, offsets and checksums of the native code agree with each other and with the program's
/// functions. Checks an image's code only if NativeImage::code is not empty.
Status checkNative(const NativeCode &native, const Program &program);

/// The iteration space of a kernel. Neighbouring dimensions that no broadcast and no reduction treats differently are
/// merged: [16, 64, 8, 8] with a [64] broadcast along dimension 1 becomes 16 x 64 x 64. The last dimension is the
/// columns; the other dimensions together count the rows.
struct KernelSpace {
  Shape sizes; // merged sizes; the last is the number of columns
  /// For each broadcast, strides in elements over `sizes`: the operand's element is the sum of index * stride. The last
  /// stride is 0 or 1.
  std::vector<std::vector<int64_t>> broadcasts;
  /// Strides over `sizes` of the result element that an element is reduced into; empty for a kernel without reductions.
  std::vector<int64_t> reduced;
  /// For each value of a row kernel (RowKernel.h), its role. Empty for other kernels; both lists above are empty for
  /// row kernels.
  std::vector<RowRole> roles;
  /// Returns the number of rows: the product of all sizes but the last.
  int64_t rows() const;
  /// Returns the number of columns: the last size.
  int64_t columns() const { return sizes.back(); }
};
/// Fewest columns that a kernel with several rows may have; ops with shorter rows are not fused into kernels.
inline constexpr int64_t kShortestRow = 16;

/// A tensor that is broadcast into a larger shape: tensor dimension d is dimension `dimensions`[d] of the larger shape.
struct BroadcastView {
  Shape shape;                     // shape of the tensor before the broadcast
  std::vector<int64_t> dimensions; // for each dimension of the tensor: its dimension in the larger shape
};
/// Returns the iteration space of a kernel over `shape` that reads `broadcasts` and, optionally, reduces into a result
/// described by `reduction` (as if that result were broadcast back to `shape`). Returns nothing if rows would be
/// shorter than kShortestRow, or if a row of a broadcast would be neither one repeated element nor contiguous.
std::optional<KernelSpace> kernelSpace(const Shape &shape, const std::vector<BroadcastView> &broadcasts,
                                       const std::optional<BroadcastView> &reduction = {});
/// Returns the iteration space of a function that is a kernel, with its broadcasts in the order of the function's body.
/// Fails with a message that names the op or type that no kernel can have.
Result<KernelSpace> kernelSpace(const Function &function);

/// Returns the `reduce` instruction of the kernel whose result is `value`, or null if `value` is no reduction's result.
const Instruction *reductionOf(const Function &kernel, int value);

/// Returns true if the kernel's result `result` may share memory with its argument `argument` of the same size: the
/// result is no reduction's, and no broadcast reads the argument. In a row kernel both have a row's elements.
bool mayOverwrite(const Function &kernel, int argument, int result);

} // namespace kerf::package
