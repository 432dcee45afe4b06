// SPDX-License-Identifier: Apache-2.0
#include "NativeCollectives.h"

namespace kerf::runtime::cuda {

namespace {
constexpr LibraryNumbers::Type kTypes[] = {
    {DType::I8, 0, false},  {DType::U8, 1, false},  {DType::I32, 2, false}, {DType::U32, 3, false},
    {DType::I64, 4, false}, {DType::U64, 5, false}, {DType::F16, 6, true},  {DType::F32, 7, true},
    {DType::F64, 8, true},  {DType::BF16, 9, true},
};
constexpr LibraryNumbers::Combine kCombines[] = {{"sum", 0}, {"max", 2}, {"min", 3}};
} // namespace

const LibraryNumbers &ncclNumbers() {
  static constexpr LibraryNumbers numbers{kTypes, kCombines, kNcclBytes};
  return numbers;
}

} // namespace kerf::runtime::cuda
