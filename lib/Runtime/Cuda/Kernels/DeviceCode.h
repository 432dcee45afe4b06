// SPDX-License-Identifier: Apache-2.0
// Helpers of all GPU kernels: numbers of threads, element types, sums over a block, and faults. clang compiles these
// files for GPUs, one module for each file and element type; KERF_TYPE names the type. No CUDA toolkit is needed.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#define KERF_KERNEL extern "C" __attribute__((global)) __attribute__((launch_bounds(1024)))
/// Begins a kernel of blocks of `threads` threads, of which `blocks` share a multiprocessor. NVIDIA's assembler uses
/// the registers of such a share, and does not spill some of them to have more blocks.
#define KERF_KERNEL_SHARING(threads, blocks)                                                                           \
  extern "C" __attribute__((global)) __attribute__((launch_bounds(threads, blocks)))
#define KERF_DEVICE __attribute__((device, always_inline)) inline
#define KERF_SHARED __attribute__((shared)) static

// Functions of plain headers, for the device too.
#define KERF_ERF(x) kerf::runtime::cuda::erfOf(x)
namespace kerf::runtime::cuda {
__attribute__((device)) double erfOf(double) __asm__("_Z3erfd"); // of libclc
}
#pragma clang force_cuda_host_device begin
#include "../../FastMath.h"
#include "../../Philox.h"
#include "Parameters.h"
#include "kerf/Package/Half.h"
#pragma clang force_cuda_host_device end

namespace kerf::runtime::cuda {

/// A 16-bit number in memory. Kernels compute with float.
struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};
/// A boolean in one byte, false if and only if the byte is 0.
struct Bool {
  uint8_t byte;
};

// The element types by the names that KERF_TYPE may have.
using F64 = double;
using F32 = float;
using I64 = int64_t;
using I32 = int32_t;
using I16 = int16_t;
using I8 = int8_t;
using U64 = uint64_t;
using U32 = uint32_t;
using U16 = uint16_t;
using U8 = uint8_t;
/// The element type of this module.
using T = KERF_TYPE;

template <typename E> inline constexpr bool isHalf = std::is_same_v<E, BF16> || std::is_same_v<E, F16>;
template <typename E> inline constexpr bool isFloat = std::is_floating_point_v<E> || isHalf<E>;
/// The type in which kernels compute with elements of type E: float for 16-bit numbers, uint8_t for Bool.
template <typename E>
using Number = std::conditional_t<isHalf<E>, float, std::conditional_t<std::is_same_v<E, Bool>, uint8_t, E>>;
using N = Number<T>;

template <typename E> KERF_DEVICE Number<E> load(const E *x) {
  if constexpr (std::is_same_v<E, BF16>)
    return floatFromBf16(x->bits);
  else if constexpr (std::is_same_v<E, F16>)
    return float(std::bit_cast<_Float16>(x->bits)); // one instruction; the GPU has one for bf16 from sm_90 on only
  else if constexpr (std::is_same_v<E, Bool>)
    return x->byte != 0;
  else
    return *x;
}
template <typename E> KERF_DEVICE void store(E *y, Number<E> x) {
  if constexpr (std::is_same_v<E, BF16>)
    y->bits = std::bit_cast<uint16_t>(__bf16(x));
  else if constexpr (std::is_same_v<E, F16>)
    y->bits = std::bit_cast<uint16_t>(_Float16(x));
  else if constexpr (std::is_same_v<E, Bool>)
    y->byte = x != 0;
  else
    *y = x;
}
/// Returns element i of a tensor of type E.
template <typename E = T> KERF_DEVICE Number<E> at(const void *x, int64_t i) {
  return load(static_cast<const E *>(x) + i);
}
/// Writes element i of a tensor of type E.
template <typename E = T> KERF_DEVICE void put(void *y, int64_t i, Number<E> x) { store(static_cast<E *>(y) + i, x); }

KERF_DEVICE int64_t threadInBlock() { return __nvvm_read_ptx_sreg_tid_x(); }
KERF_DEVICE int64_t threadsOfBlock() { return __nvvm_read_ptx_sreg_ntid_x(); }
KERF_DEVICE int64_t block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
KERF_DEVICE int64_t blocks() { return __nvvm_read_ptx_sreg_nctaid_x(); }
/// The first element of this thread, and the distance to its next, where threads of all blocks share elements.
KERF_DEVICE int64_t firstElement() { return block() * threadsOfBlock() + threadInBlock(); }
KERF_DEVICE int64_t elementStep() { return blocks() * threadsOfBlock(); }

/// Returns the smallest and the largest number of a type; infinities where it has them.
template <typename X> KERF_DEVICE X lowest() {
  if constexpr (std::is_floating_point_v<X>)
    return -X(__builtin_huge_val());
  else
    return std::is_signed_v<X> ? X(uint64_t(1) << (8 * sizeof(X) - 1)) : X(0);
}
template <typename X> KERF_DEVICE X highest() {
  if constexpr (std::is_floating_point_v<X>)
    return X(__builtin_huge_val());
  else
    return std::is_signed_v<X> ? X((uint64_t(1) << (8 * sizeof(X) - 1)) - 1) : X(~uint64_t(0));
}

/// Returns f of the words of x, put together: f takes and returns an int.
template <typename X, typename F> KERF_DEVICE X ofWords(X x, F f) {
  static_assert(sizeof(X) == 4 || sizeof(X) == 8);
  if constexpr (sizeof(X) == 4)
    return std::bit_cast<X>(f(std::bit_cast<int>(x)));
  else {
    uint64_t bits = std::bit_cast<uint64_t>(x);
    uint32_t low = uint32_t(f(int(uint32_t(bits)))), high = uint32_t(f(int(uint32_t(bits >> 32))));
    return std::bit_cast<X>(uint64_t(high) << 32 | low);
  }
}
/// Returns the value of the thread of the same warp whose number differs in the bit `distance`.
template <typename X> KERF_DEVICE X ofOther(X x, int distance) {
  return ofWords(x, [=](int word) { return __nvvm_shfl_sync_bfly_i32(~0u, word, distance, 31); });
}
/// Returns the value of thread number `lane` of the warp.
template <typename X> KERF_DEVICE X ofThread(X x, int lane) {
  return ofWords(x, [=](int word) { return __nvvm_shfl_sync_idx_i32(~0u, word, lane, 31); });
}

/// Combines the values of a warp's 32 threads pairwise, always in the same order, and returns the result to each of
/// them. `combine` must not depend on the order of its arguments.
template <typename X, typename F> KERF_DEVICE X combineWarp(X value, F combine) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, ofOther(value, distance));
  return value;
}

/// Combines the values of a block's threads as combineWarp does. Every thread of the block must call it, and the number
/// of threads must be a multiple of 32.
template <typename X, typename F> KERF_DEVICE X combineBlock(X value, F combine) {
  KERF_SHARED X values[32];
  value = combineWarp(value, combine);
  const int warps = int(threadsOfBlock()) / 32;
  if (warps == 1)
    return value;
  if (threadInBlock() % 32 == 0)
    values[threadInBlock() / 32] = value;
  __nvvm_bar_sync(0);
  value = values[0];
#pragma unroll 2
  for (int warp = 1; warp < warps; ++warp)
    value = combine(value, values[warp]);
  __nvvm_bar_sync(0); // before the next call writes `values`
  return value;
}
template <typename X> KERF_DEVICE X sumOfBlock(X value) {
  return combineBlock(value, [](X a, X b) { return a + b; });
}
/// NaN if any value is NaN.
template <typename X> KERF_DEVICE X larger(X a, X b) { return a > b || a != a ? a : b; }
template <typename X> KERF_DEVICE X smaller(X a, X b) { return a < b || a != a ? a : b; }

/// Returns the place in a tensor of element number `i` of an iteration.
KERF_DEVICE int64_t placeOf(const Walk &walk, int64_t i) {
  int64_t place = 0;
  for (int d = walk.rank - 1; d > 0; --d) {
    place += i % walk.sizes[d] * walk.strides[d];
    i /= walk.sizes[d];
  }
  return walk.rank > 0 ? place + i * walk.strides[0] : place;
}

/// Records a wrong value of the input, unless a fault is recorded already.
KERF_DEVICE void fault(const FaultPlace &place, int64_t value, int64_t where) {
  int32_t none = 0;
  if (!__atomic_compare_exchange_n(&place.record->set, &none, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    return;
  place.record->site = place.site;
  place.record->value = value;
  place.record->where = where;
}

// Functions of LLVM's libclc, which is linked to each module.
#define KERF_MATH1(name)                                                                                               \
  KERF_DEVICE_DECLARE float name##Of(float) __asm__("_Z" KERF_LENGTH_##name #name "f");                                \
  KERF_DEVICE_DECLARE double name##Of(double) __asm__("_Z" KERF_LENGTH_##name #name "d");
#define KERF_DEVICE_DECLARE __attribute__((device))
#define KERF_LENGTH_log "3"
#define KERF_LENGTH_sin "3"
#define KERF_LENGTH_cos "3"
#define KERF_LENGTH_atan "4"
KERF_MATH1(log)
KERF_MATH1(sin)
KERF_MATH1(cos)
KERF_MATH1(atan)
#undef KERF_MATH1
KERF_DEVICE_DECLARE float powOf(float, float) __asm__("_Z3powff");
KERF_DEVICE_DECLARE double powOf(double, double) __asm__("_Z3powdd");

} // namespace kerf::runtime::cuda
