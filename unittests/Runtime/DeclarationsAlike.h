// SPDX-License-Identifier: Apache-2.0
// Compares the types of two declarations of one C function.
#pragma once

#include <type_traits>

namespace kerf::runtime::cuda {

/// Whether two types are passed alike: both pointers, or both numbers or structs of the same size.
template <typename A, typename B> constexpr bool passedAlike() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>)
    return std::is_void_v<A> && std::is_void_v<B>;
  else
    return sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
           std::is_class_v<A> == std::is_class_v<B> && std::is_floating_point_v<A> == std::is_floating_point_v<B>;
}
template <typename R, typename S, typename... A, typename... B> constexpr bool alike(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B))
    return false;
  else
    return passedAlike<R, S>() && (passedAlike<A, B>() && ...);
}
#define KERF_ALIKE(table, name, function)                                                                              \
  static_assert(alike(decltype(table::name)(nullptr), decltype (&function)(nullptr)), #function)

} // namespace kerf::runtime::cuda
