// SPDX-License-Identifier: Apache-2.0
#include "PtxCode.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace kerf::runtime::cuda {

namespace {
Result<int> capabilityOf(const Context &context) {
  DeviceNumber handle = 0;
  int major = 0, minor = 0;
  for (DriverResult result : {context.driver.deviceGet(&handle, context.number()),
                              context.driver.deviceGetAttribute(&major, kMajorVersion, handle),
                              context.driver.deviceGetAttribute(&minor, kMinorVersion, handle)})
    if (Status status = context.check(result, "tell its capability"); !status)
      return status.error();
  return 10 * major + minor;
}

/// An image that the GPU can run, or why there is none.
struct Choice {
  const package::NativeImage *image = nullptr;
  std::string whyNone = {};
};

Choice chooseImage(const package::NativeCode &code, int capability) {
  std::set<std::string> kinds, interfaces;
  std::vector<std::string> missing, tooNew;
  Choice best;
  int bestCapability = 0;
  for (const package::NativeImage &image : code.images) {
    kinds.insert(image.kind);
    if (image.kind != package::kPtxImage)
      continue;
    std::optional<int> needed = package::ptxCapability(image.isa);
    if (!package::isPtxImage(image))
      interfaces.insert(std::to_string(image.interface));
    else if (!needed || *needed > capability)
      tooNew.push_back(image.isa);
    else if (image.code.empty())
      missing.push_back(package::imageFileName(image));
    else if (*needed > bestCapability)
      best.image = &image, bestCapability = *needed;
  }
  if (best.image)
    return best;
  if (!missing.empty())
    return {nullptr, fmt::format("its file {} is missing", fmt::join(missing, " and "))};
  if (!tooNew.empty())
    return {nullptr, fmt::format("it is for {}, this GPU is sm_{}", fmt::join(tooNew, " and "), capability)};
  if (!interfaces.empty())
    return {nullptr, fmt::format("its interface is {}, this runtime has {}", fmt::join(interfaces, " and "),
                                 package::kPtxInterface)};
  return {nullptr, fmt::format("it is {}, this device runs {}", fmt::join(kinds, " and "), package::kPtxImage)};
}

Status loadModule(const std::shared_ptr<Context> &context, const package::NativeCode &native,
                  const package::NativeImage &image, PtxCode &code) {
  if (Status status = context->use(); !status)
    return status;
  BindTimer timer(*context, "ptx");
  std::string log(4096, '\0');
  int options[] = {kErrorLog, kErrorLogBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  DriverModule module = nullptr;
  DriverResult result = context->driver.moduleLoadDataEx(&module, image.code.c_str(), 2, options, values);
  if (result != 0)
    return driverError(
        context->driver, result, context->number(),
        fmt::format("compile '{}' of the package ({}); train with <no-native>, or compile the model again",
                    package::imageFileName(image), log.c_str()));
  code.module = std::shared_ptr<void>(module, [context](void *module) {
    if (context->use())
      context->driver.moduleUnload(module);
  });
  for (size_t k = 0; k < native.kernels.size(); ++k) {
    if (!code.has(native.kernels[k]))
      continue;
    std::string entry = package::ptxEntry(k, native.kernels[k]);
    if (Status status = context->check(
            context->driver.moduleGetFunction(&code.kernels.at(native.kernels[k]).entry, module, entry.c_str()),
            fmt::format("find the kernel '{}' in '{}'", entry, package::imageFileName(image)));
        !status)
      return status;
  }
  return ok();
}
} // namespace

Result<std::shared_ptr<const PtxCode>> loadPtx(const std::shared_ptr<Context> &context, const package::Program &program,
                                               CodeUse use) {
  auto code = std::make_shared<PtxCode>();
  if (!program.native)
    return std::shared_ptr<const PtxCode>(code);
  const std::vector<std::string> &names = program.native->kernels;
  for (const package::Function &function : program.functions) {
    if (std::find(names.begin(), names.end(), function.name) == names.end())
      continue;
    auto space = package::kernelSpace(function);
    if (!space)
      return space.error();
    if (!space->roles.empty())
      continue; // PTX has no row kernels (kerf/Package/RowKernel.h)
    code->kernels[function.name] = {&function, std::move(*space)};
  }
  if (use == CodeUse::Plan || code->kernels.empty())
    return std::shared_ptr<const PtxCode>(code);
  auto capability = capabilityOf(*context);
  if (!capability)
    return capability.error();
  Choice choice = chooseImage(*program.native, *capability);
  if (!choice.image) {
    code->kernels.clear();
    code->whyUnused = choice.whyNone;
  } else if (Status loaded = loadModule(context, *program.native, *choice.image, *code); !loaded) {
    return loaded.error();
  }
  return std::shared_ptr<const PtxCode>(code);
}

} // namespace kerf::runtime::cuda
