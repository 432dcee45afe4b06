// SPDX-License-Identifier: Apache-2.0
// The PTX of Kernels/, which the build embeds in compressed form (embed.py).
#include "Context.h"

#include <charconv>
#include <zlib.h>

namespace kerf::runtime::cuda {

namespace {
/// A file of kernels for all element types. `parts` has the type and the bytes of each part: "f32 120,bf16 118,...".
struct Text {
  std::string_view file, parts;
  size_t bytes, packedBytes;
  const char *packed;
};
constexpr Text kTexts[] = {
#include "KernelTexts.inc"
};

std::string unpacked(const Text &text) {
  std::string whole(text.bytes, '\0');
  uLongf bytes = whole.size();
  int status = uncompress(reinterpret_cast<Bytef *>(whole.data()), &bytes, reinterpret_cast<const Bytef *>(text.packed),
                          text.packedBytes);
  return status == Z_OK && bytes == whole.size() ? whole : "";
}

/// Returns the parts of a file that belong to a type, one after the other.
std::string partsOf(const Text &text, std::string_view type) {
  const std::string whole = unpacked(text);
  std::string chosen;
  size_t begin = 0;
  for (std::string_view rest = text.parts; !rest.empty();) {
    std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    size_t space = part.find(' '), bytes = 0;
    std::from_chars(part.data() + space + 1, part.data() + part.size(), bytes);
    if (begin + bytes <= whole.size() && part.substr(0, space) == type)
      chosen.append(whole, begin, bytes);
    begin += bytes;
  }
  return chosen;
}
} // namespace

std::string kernelText(std::string_view file, DType type) {
  for (const Text &text : kTexts)
    if (text.file == file)
      return partsOf(text, toString(type));
  return "";
}

} // namespace kerf::runtime::cuda
