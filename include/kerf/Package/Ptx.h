// SPDX-License-Identifier: Apache-2.0
// Code for NVIDIA GPUs: images of kind kPtxImage hold PTX, the text that NVIDIA's driver compiles. Each kernel of
// NativeCode::kernels is one entry of the text. The compiler that writes an entry and the runtime that launches it
// agree on this header.
//
// An entry takes one parameter: an array of addresses, one for each argument of the function, one for each of its
// storedValues, and one for each reduction that it computes (PtxReduction.h), in this order. All of them are dense
// tensors at addresses that are multiples of kPtxAlignment. Any grid of up to kMostPtxBlocks blocks of kPtxThreads
// threads computes everything: the threads share the work items in turn.
//
// Where a reduction is computed in several pieces, the entry writes one result of each piece, [pieces, kept], which the
// runtime combines: numbers of f64 for sums and for f64, and of f32 for other maxima and minima.
#pragma once

#include "kerf/Package/PtxReduction.h"

namespace kerf::package {

/// NativeImage::kind of PTX. The isa of such an image is the oldest GPU that runs it, for example "sm_80".
inline constexpr std::string_view kPtxImage = "ptx";
/// Version of the interface of PTX images, which this header describes. Images of another version are ignored.
inline constexpr int64_t kPtxInterface = 3;
/// Alignment in bytes of every tensor that an entry reads or writes.
inline constexpr int64_t kPtxAlignment = 256;
/// Number of threads of a block.
inline constexpr int64_t kPtxThreads = 256;
/// Most blocks of a grid, so that no thread's count of work items overflows.
inline constexpr int64_t kMostPtxBlocks = 4096;

/// Returns true if the image is of kind kPtxImage and of interface version kPtxInterface.
bool isPtxImage(const NativeImage &image);
/// Returns the compute capability of a PTX image's isa, 80 for "sm_80"; nothing for any other form.
std::optional<int> ptxCapability(std::string_view isa);
/// Returns the name of the entry for kernel number `kernel` of NativeCode::kernels, whose function is `name`. PTX
/// allows fewer characters in names than packages.
std::string ptxEntry(size_t kernel, std::string_view name);

/// Returns the values that an entry stores: the results that are no reductions, in their order, and then, if the entry
/// does not compute the reductions, the values that are reduced and that are neither among them nor arguments. The
/// runtime reduces them afterwards.
std::vector<int> storedValues(const Function &kernel);

/// The work items of an entry that computes no reductions: an item is a vector of neighbouring elements of a row, or
/// one element.
struct PtxItems {
  int64_t width = 1;    // elements of a vector
  int64_t vectors = 0;  // number of vectors; items [0, vectors) are vectors
  int64_t elements = 0; // number of single elements after the last vector
  int64_t count() const { return vectors + elements; }
};
/// Returns the work items of a kernel. Vectors have 16 bytes of the narrowest floating type among the arguments and
/// stored values of the kernel's size, or fewer where rows are not whole numbers of such vectors.
PtxItems ptxItems(const Function &kernel, const KernelSpace &space);

} // namespace kerf::package
