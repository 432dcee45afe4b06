// SPDX-License-Identifier: Apache-2.0
// The PTX of Kernels/, which the build embeds in compressed form (embed.py).
#include "Context.h"

#include <zlib.h>

namespace kerf::runtime::cuda {

namespace {
struct Text {
  std::string_view file, type; // "Elementwise", "f32"
  size_t bytes, packedBytes;
  const char *packed;
};
constexpr Text kTexts[] = {
#include "KernelTexts.inc"
};
} // namespace

std::string kernelText(std::string_view file, DType type) {
  for (const Text &text : kTexts) {
    if (text.file != file || text.type != toString(type))
      continue;
    std::string whole(text.bytes, '\0');
    uLongf bytes = whole.size();
    int status = uncompress(reinterpret_cast<Bytef *>(whole.data()), &bytes,
                            reinterpret_cast<const Bytef *>(text.packed), text.packedBytes);
    return status == Z_OK && bytes == whole.size() ? whole : "";
  }
  return "";
}

} // namespace kerf::runtime::cuda
