// SPDX-License-Identifier: Apache-2.0

// Internal functions of the Package library: one reader for each tensor file format, checks of sizes and nesting that
// come from files, and the errors of readers.
#pragma once

#include "kerf/Package/TensorFile.h"

#include <string_view>

namespace kerf {

/// Reads a .safetensors file. Fails if the header is malformed or an entry does not match the file.
Result<TensorMap> readSafetensors(const std::string &path);
/// Reads a .npz archive, stored or deflated. Fails if the archive or an array in it is malformed or a checksum
/// is wrong.
Result<TensorMap> readNpz(const std::string &path);
/// Reads all .npy files of a folder, each under its name without ".npy". Fails if there is none or one is malformed.
Result<TensorMap> readNpyFolder(const std::string &path);

/// Returns the number of elements of a shape, or nothing if a size is negative or the number of bytes, for any element
/// type, might not fit in 63 bits.
std::optional<int64_t> checkedElements(const Shape &shape);

/// Fails if objects and arrays of a JSON text are nested more than 100 deep, so that the recursive JSON parser cannot
/// overflow the stack.
Status checkNesting(std::string_view json);

/// The remedy for a faulty program.json or machine code.
inline constexpr std::string_view kCompileAgain = "compile the model again";
/// The remedy for a faulty .npy or .npz file.
inline constexpr std::string_view kWriteAgain = "write the file again";
/// The remedy for a faulty .safetensors file or its index.
inline constexpr std::string_view kDownloadAgain = "write or download the file again";

/// Returns an error with the text `message; wayOut`, or with `message` alone where it names a way out behind a "; "
/// itself.
inline Error errorWithWayOut(std::string message, std::string_view wayOut) {
  if (message.find("; ") == std::string::npos)
    message.append("; ").append(wayOut);
  return {std::move(message)};
}

} // namespace kerf
