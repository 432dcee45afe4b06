// SPDX-License-Identifier: Apache-2.0
// Inner loops for the widest vector registers of this machine. The body that is passed to `dispatch` is compiled once
// for each instruction set, and the best version that the processor supports is run. Loops may call the functions of
// FastMath.h, which the compiler can vectorize.
#pragma once

#include "../../FastMath.h"
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <type_traits>

namespace kerf::runtime::kernels {

/// An instruction set for which loops are compiled. `Baseline` is the one that the whole program is compiled for.
enum class Isa { Baseline, Avx2, Avx512 };
/// An instruction set as a type, which `dispatch` passes to its body.
template <Isa isa> using IsaTag = std::integral_constant<Isa, isa>;

#if defined(__x86_64__)
/// Returns the environment variable KERF_ISA, with which tests run the code of narrower instruction sets on any
/// machine: avx512 (without matrix units), avx2 or baseline. Where it is not set, everything that the processor has is
/// allowed.
inline std::string_view allowedIsa() {
  const char *variable = std::getenv("KERF_ISA");
  return variable ? variable : "";
}
/// Returns the widest instruction set that the processor supports and KERF_ISA allows.
inline Isa findIsa() {
  const std::string_view allowed = allowedIsa();
  bool fma = __builtin_cpu_supports("fma") && allowed != "baseline";
  bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  if (fma && avx512 && allowed != "avx2")
    return Isa::Avx512;
  return fma && __builtin_cpu_supports("avx2") ? Isa::Avx2 : Isa::Baseline;
}
#endif

/// Returns the instruction set that `dispatch` uses on this machine.
inline Isa bestIsa() {
#if defined(__x86_64__)
  static const Isa isa = findIsa();
  return isa;
#else
  return Isa::Baseline;
#endif
}

#if defined(__x86_64__)
/// The instruction sets of Isa::Avx512, for the attribute gnu::target.
#define KERF_AVX512 "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"

template <typename F, typename... A>
[[gnu::flatten, gnu::noinline, gnu::target(KERF_AVX512 ",prefer-vector-width=512")]] void runAvx512(F body,
                                                                                                    A... arguments) {
  body(IsaTag<Isa::Avx512>{}, arguments...);
}
template <typename F, typename... A>
[[gnu::flatten, gnu::noinline, gnu::target("avx2,fma")]] void runAvx2(F body, A... arguments) {
  body(IsaTag<Isa::Avx2>{}, arguments...);
}
#endif
template <typename F, typename... A> [[gnu::flatten, gnu::noinline]] void runBaseline(F body, A... arguments) {
  body(IsaTag<Isa::Baseline>{}, arguments...);
}

/// Calls body(IsaTag, arguments...), compiled for the best instruction set of this machine. Arguments are passed by
/// value, because loops over plain pointers vectorize best.
template <typename F, typename... A> void dispatch(F body, A... arguments) {
#if defined(__x86_64__)
  switch (bestIsa()) {
  case Isa::Avx512:
    return runAvx512(body, arguments...);
  case Isa::Avx2:
    return runAvx2(body, arguments...);
  case Isa::Baseline:
    break;
  }
#endif
  runBaseline(body, arguments...);
}

} // namespace kerf::runtime::kernels
