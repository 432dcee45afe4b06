// SPDX-License-Identifier: Apache-2.0

// Row kernels: kernels that read their own reductions. Each row of a matrix is computed in one go, in the first-level
// cache: an op may read the reduction of the same row, as the codecs of gradients do, whose scale is the largest
// element of a block. An op may also choose some of a row's elements, as sparse codecs do.
#pragma once

#include "kerf/Package/Package.h"

namespace kerf::package {

/// The elements of a value of a row kernel with R rows of C columns, as its shape says. C is the largest second
/// dimension of all values.
enum class RowRole : uint8_t {
  One,    // []: one element for all rows
  PerRow, // [R]: one element for each row
  Row,    // [R, C]: a row's elements
  Part,   // [R, W] with W below C: some of a row's elements, or several in a byte
  Shared  // [W], an argument that a broadcast repeats for each row
};

/// Most columns of a row kernel: the values that a row keeps between two of its loops stay close to the processor.
inline constexpr int64_t kLongestRow = 4096;

/// Returns whether sizes R and C suit a row kernel: the columns are a multiple of kReductionLanes and at most
/// kLongestRow.
bool isRowSpace(int64_t rows, int64_t columns);

/// Returns whether an instruction of a row kernel reads or writes a row in memory: it packs, slices or chooses
/// elements.
bool isRowOp(const Instruction &instruction);

/// Returns whether the kernel is a row kernel: an op of it reads a reduction, or is a row op.
bool isRowKernel(const Function &kernel);

/// Returns whether the instruction is a broadcast of one row to all rows.
bool repeatsRow(const Function &kernel, const Instruction &instruction);

/// The rows, the columns and the role of each value of a row kernel.
struct RowRoles {
  int64_t rows = 0, columns = 0;
  std::vector<RowRole> roles;
};
/// Returns the roles of the values of a row kernel. Fails with a message that names the op that no row kernel can have.
Result<RowRoles> rowRoles(const Function &kernel);

} // namespace kerf::package
