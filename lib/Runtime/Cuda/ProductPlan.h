// SPDX-License-Identifier: Apache-2.0
// A dot_general as one batch of products of cuBLASLt, with copies of the operands whose layout the library cannot read.
#pragma once

#include "Gemm.h"

namespace kerf::runtime::cuda {

/// One operand of a product: its dimensions, and whether the library reads a copy that is dense in the order batch,
/// free, contracted.
struct ProductSide {
  ProductDims dims;
  bool copies = false;
};

/// How a dot_general becomes products of cuBLASLt. The row-major result of `left` and `right` is the column-major
/// result of `right` and `left`: matrix A of the Gemm is the right operand, and matrix B the left one. With a third
/// operand, the Gemm adds this operand to the product.
struct ProductPlan {
  Gemm gemm;
  ProductSide left, right;
};

/// Returns the plan of a product whose operands have the same floating type; nothing if Kerf's own kernel runs it: the
/// sum has no terms, the library does not have the types or sizes, or an operand of a small product would be copied.
std::optional<ProductPlan> planOf(const CallRequest &r, bool tf32);
/// Sets the places of the factors, which may be copies in scratch memory, and of the workspace. Appends the copies, and
/// adds the scratch bytes.
Status addOperands(Calls &calls, const CallRequest &r, const ProductPlan &plan, GemmPlaces &places);

/// Returns the calls of a planned product: copies of operands, and the call of the library. `places` has the addresses
/// of the operands, the result and the scales.
Result<Calls> callsOfPlan(const CallRequest &r, const ProductPlan &plan, GemmPlaces places);
/// Returns the calls of a dot_general with 8-bit factors.
Result<Calls> callFloat8Product(const CallRequest &r);

} // namespace kerf::runtime::cuda
