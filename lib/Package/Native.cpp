// SPDX-License-Identifier: Apache-2.0
#include "kerf/Package/Native.h"
#include "Readers.h"
#include "kerf/Package/Ptx.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <zlib.h>

namespace kerf::package {

namespace {
Status checkKernel(const NativeCode &native, size_t kernel, const Program &program) {
  const std::string &name = native.kernels[kernel];
  auto function = std::find_if(program.functions.begin(), program.functions.end(),
                               [&](const Function &function) { return function.name == name; });
  if (function == program.functions.end() || !function->kernel)
    return Error{fmt::format("there is code for '{}', but the program has no kernel of that name", name)};
  if (uint32_t found = checksumOf(writeFunction(*function)); found != native.checksums[kernel])
    return Error{fmt::format("function '{}' has the checksum {}, but its code was compiled for {}; compile the model "
                             "again, or remove \"native\" from the program",
                             name, found, native.checksums[kernel])};
  if (auto space = kernelSpace(*function); !space)
    return space.error();
  return ok();
}

Status checkImage(const NativeCode &native, const NativeImage &image) {
  if (image.isa.empty() || !std::all_of(image.isa.begin(), image.isa.end(), [](char c) {
        return c == '-' || c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
      }))
    return Error{fmt::format(
        "an image is for the instruction set '{}': its name must consist of lower-case letters, digits, '-' "
        "and '_'",
        image.isa)};
  if (!isKnownImage(image))
    return ok(); // images for other devices are not checked
  if (isHostImage(image) && image.entries.size() != native.kernels.size())
    return Error{fmt::format("code for {} has {} entries for {} kernels", image.isa, image.entries.size(),
                             native.kernels.size())};
  if (image.code.empty())
    return ok();
  if (uint32_t found = checksumOf(image.code); found != image.checksum)
    return Error{fmt::format("'{}' has the checksum {}, but the program says {}: the file is damaged or belongs to "
                             "another program; compile the model again",
                             imageFileName(image), found, image.checksum)};
  for (int64_t entry : image.entries)
    if (entry < 0 || entry >= int64_t(image.code.size()))
      return Error{fmt::format("a kernel begins at byte {} of '{}', which has {} bytes", entry, imageFileName(image),
                               image.code.size())};
  return ok();
}
} // namespace

std::string imageFileName(const NativeImage &image) {
  return fmt::format("kernels-{}.{}", image.isa, image.kind == kPtxImage ? "ptx" : "bin");
}

bool isKnownImage(const NativeImage &image) { return isHostImage(image) || isPtxImage(image); }

bool isHostImage(const NativeImage &image) { return image.kind == kHostImage && image.interface == kNativeInterface; }

uint32_t checksumOf(std::string_view bytes) {
  return uint32_t(crc32_z(0, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
}

Status checkNative(const NativeCode &native, const Program &program) {
  if (native.checksums.size() != native.kernels.size())
    return Error{fmt::format("native: {} checksums are given for {} kernels; compile the model again",
                             native.checksums.size(), native.kernels.size())};
  for (size_t k = 0; k < native.kernels.size(); ++k)
    if (Status status = checkKernel(native, k, program); !status)
      return errorWithWayOut(fmt::format("native: {}", status.error().message), kCompileAgain);
  std::set<std::string_view> isas;
  for (const NativeImage &image : native.images) {
    if (!isas.insert(image.isa).second)
      return Error{fmt::format("native: two images are for {}; compile the model again", image.isa)};
    if (Status status = checkImage(native, image); !status)
      return errorWithWayOut(fmt::format("native: {}", status.error().message), kCompileAgain);
  }
  return ok();
}

} // namespace kerf::package
