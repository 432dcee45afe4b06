// SPDX-License-Identifier: Apache-2.0
#include "kerf/Runtime/Cpu/Native.h"
#include "kerf/Runtime/Cpu/Kernels.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <sys/mman.h>

namespace kerf::runtime {

namespace {
/// Returns the program's compiled kernels with their iteration spaces, without machine code.
Result<std::shared_ptr<NativeKernels>> describeKernels(const package::Program &program) {
  auto native = std::make_shared<NativeKernels>();
  if (!program.native)
    return native;
  for (const package::Function &function : program.functions) {
    if (std::find(program.native->kernels.begin(), program.native->kernels.end(), function.name) ==
        program.native->kernels.end())
      continue;
    auto space = package::kernelSpace(function);
    if (!space)
      return space.error();
    native->kernels[function.name] = {&function, std::move(*space)};
  }
  return native;
}

/// Copies machine code to new memory that can be executed and not written. Returns null if the system refuses.
std::shared_ptr<const void> mapCode(const std::string &code) {
  void *memory = mmap(nullptr, code.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return nullptr;
  std::shared_ptr<const void> owner(
      memory, [bytes = code.size()](const void *memory) { munmap(const_cast<void *>(memory), bytes); });
  std::memcpy(memory, code.data(), code.size());
  return mprotect(memory, code.size(), PROT_READ | PROT_EXEC) == 0 ? owner : nullptr;
}

/// Returns why no image of the package is for host processors and this runtime's interface, or "" if one is.
std::string whyForeign(const package::NativeCode &code) {
  std::set<std::string> kinds, interfaces;
  for (const package::NativeImage &image : code.images) {
    if (package::isHostImage(image))
      return "";
    kinds.insert(image.kind);
    if (image.kind == package::kHostImage)
      interfaces.insert(std::to_string(image.interface));
  }
  if (!interfaces.empty())
    return fmt::format("its interface is {}, this runtime has {}", fmt::join(interfaces, " and "),
                       package::kNativeInterface);
  return fmt::format("it is {}, this device runs {}", fmt::join(kinds, " and "), package::kHostImage);
}

/// Loads the best image that this processor can run. Returns why none can be used, or "" on success.
std::string loadImage(const package::NativeCode &code, NativeKernels &native) {
  if (std::string why = whyForeign(code); !why.empty())
    return why;
  const package::NativeImage *best = nullptr;
  std::vector<std::string> isas, missing;
  for (const package::NativeImage &image : code.images) {
    if (!package::isHostImage(image))
      continue;
    isas.push_back(image.isa);
    if (image.code.empty())
      missing.push_back(image.isa);
    else if (processorHas(image.isa))
      best = &image;
  }
  if (!best && !missing.empty())
    return fmt::format("its file for {} is missing", fmt::join(missing, " and for "));
  if (!best)
    return fmt::format("it is for {}, which this processor does not have", fmt::join(isas, " and "));
  for (const std::string &name : code.routines) {
    const void *found = routine(name);
    if (!found)
      return fmt::format("it calls '{}', which this runtime does not have", name);
    native.routines.push_back(found);
  }
  native.memory = mapCode(best->code);
  if (!native.memory)
    return fmt::format("the system maps no memory for code: {}", std::strerror(errno));
  for (size_t k = 0; k < code.kernels.size(); ++k) {
    NativeKernel &kernel = native.kernels.at(code.kernels[k]);
    kernel.entry = reinterpret_cast<package::NativeEntry>(reinterpret_cast<uintptr_t>(native.memory.get()) +
                                                          uintptr_t(best->entries[k]));
    kernel.routines = native.routines.data();
  }
  native.isa = best->isa;
  return "";
}
} // namespace

const NativeKernel *NativeKernels::find(std::string_view function) const {
  auto found = kernels.find(function);
  return found == kernels.end() ? nullptr : &found->second;
}

Result<std::shared_ptr<const NativeKernels>> loadNative(const package::Program &program, CodeUse use) {
  auto native = describeKernels(program);
  if (!native)
    return native.error();
  NativeKernels &found = **native;
  if (use == CodeUse::Plan)
    return std::shared_ptr<const NativeKernels>(std::move(*native));
  if (found.whyUnused.empty() && !found.kernels.empty())
    found.whyUnused = loadImage(*program.native, found);
  if (!found.whyUnused.empty())
    found.kernels.clear();
  return std::shared_ptr<const NativeKernels>(std::move(*native));
}

bool mayOverwriteOnHost(const package::Instruction &instruction, const package::Function *function, int operand,
                        int result) {
  return function ? package::mayOverwrite(*function, operand, result) : mayOverwrite(instruction, operand, result);
}

BindRequest hostRequest(const KernelRequest &request, ThreadTeam *team) {
  BindRequest host{
      request.instruction, request.operands, request.results, request.mesh, request.rank, request.scratch, team};
  if (request.function)
    host.native = static_cast<const NativeKernels *>(request.code)->find(request.function->name);
  return host;
}

bool processorHas(std::string_view isa) {
#if defined(__x86_64__)
  return (isa == "x86-64-v3" && __builtin_cpu_supports("x86-64-v3")) ||
         (isa == "x86-64-v4" && __builtin_cpu_supports("x86-64-v4"));
#else
  return false;
#endif
}

} // namespace kerf::runtime
