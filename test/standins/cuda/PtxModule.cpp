// SPDX-License-Identifier: Apache-2.0
// Queries of a loaded module: its kernels, and the addresses of its variables.
#include "PtxInst.h"

#include <algorithm>

namespace kerf::standin::ptx {

void Module::link() {
  for (const auto &function : functions)
    for (const Fixup &fixup : function->fixups)
      function->image[size_t(fixup.slot / kWarp)] = fixup.variable->address + uint64_t(fixup.addend);
}

const Function *Module::entry(std::string_view name) const {
  for (const auto &function : functions)
    if (function->isEntry && function->name == name)
      return function.get();
  return nullptr;
}

Variable *Module::variable(std::string_view name) {
  for (const auto &variable : variables)
    if (variable->name == name)
      return variable.get();
  return nullptr;
}

std::vector<std::byte> Module::image(const Variable &of) {
  std::vector<std::byte> bytes = of.initial;
  bytes.resize(of.bytes);
  for (const Relocation &relocation : of.relocations) {
    uint64_t address = 0;
    if (const Variable *target = variable(relocation.symbol))
      address = target->address;
    else
      for (const auto &function : functions)
        if (function->name == relocation.symbol)
          address = kCodeWindow + uint64_t(function->index);
    address += uint64_t(relocation.addend);
    std::memcpy(bytes.data() + relocation.offset, &address, relocation.bytes);
  }
  return bytes;
}

const std::vector<Parameter> &parametersOf(const Function &kernel) { return kernel.parameters; }
size_t parameterBytesOf(const Function &kernel) { return kernel.parameterBytes; }
size_t staticSharedBytesOf(const Function &kernel) { return kernel.sharedBytes; }
uint32_t maxThreadsOf(const Function &kernel) { return kernel.maxThreads; }
size_t localBytesOf(const Function &kernel) { return kernel.localBytes; }
const std::string &nameOf(const Function &kernel) { return kernel.name; }
int registersOf(const Function &kernel) { return std::min(kernel.registers, 255); }

} // namespace kerf::standin::ptx
