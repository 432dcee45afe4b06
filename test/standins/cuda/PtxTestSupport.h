// SPDX-License-Identifier: Apache-2.0
// Texts of kernels, and their launches on memory of the host, for tests of the PTX interpreter.
#pragma once

#include "Ptx.h"

#include <cstdint>

namespace kerf::standin::ptx {

/// The lines that every PTX text begins with.
inline const std::string kHead = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// A kernel `k(in, out)` whose body finds its inputs' address in %rd1 and its outputs' in %rd2, and %tid.x in %r1.
inline std::string kernel(const std::string &body, const std::string &before = "") {
  return kHead + before +
         ".visible .entry k(.param .u64 k_0, .param .u64 .ptr .align 8 k_1)\n{\n"
         ".reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<9>; .reg .f64 %fd<9>;\n"
         "ld.param.u64 %rd1, [k_0]; ld.param.u64 %rd2, [k_1]; mov.u32 %r1, %tid.x;\n" +
         body + "\nret;\n}\n";
}

/// Runs `k` with the grid, block, dynamic memory and kind of lanes of `launch`. The addresses of the vectors are those
/// of the host. Adds the number of executed instructions to `*instructions`.
template <class In, class Out>
std::optional<Fault> runKernel(const std::string &text, std::vector<In> &in, std::vector<Out> &out, Launch launch,
                               uint64_t *instructions = nullptr) {
  auto module = Module::parse(text);
  std::vector<std::vector<std::byte>> variables;
  for (auto &variable : module->variables)
    if (variable->space != Space::Shared) {
      variables.push_back(module->image(*variable));
      variable->address = reinterpret_cast<uint64_t>(variables.back().data());
    }
  module->link();
  uint64_t addresses[] = {reinterpret_cast<uint64_t>(in.data()), reinterpret_cast<uint64_t>(out.data())};
  launch.arguments = std::as_bytes(std::span(addresses));
  launch.find = [&](uint64_t address, Region &region) {
    auto contains = [&](void *data, size_t bytes) {
      region = {reinterpret_cast<uint64_t>(data), bytes, static_cast<std::byte *>(data)};
      return address - region.address < bytes;
    };
    for (auto &variable : variables)
      if (contains(variable.data(), variable.size()))
        return true;
    return contains(in.data(), in.size() * sizeof(In)) || contains(out.data(), out.size() * sizeof(Out));
  };
  return run(*module->entry("k"), launch, instructions);
}

/// Runs `k` with blocks of one dimension.
template <class In, class Out>
std::optional<Fault> runKernel(const std::string &text, std::vector<In> &in, std::vector<Out> &out, uint32_t threads,
                               uint32_t dynamicBytes = 0, uint32_t blocks = 1) {
  Launch launch;
  launch.grid.x = blocks;
  launch.block.x = threads;
  launch.dynamicSharedBytes = dynamicBytes;
  return runKernel(text, in, out, launch);
}

} // namespace kerf::standin::ptx
