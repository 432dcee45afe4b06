// SPDX-License-Identifier: Apache-2.0
// Adds what the user can do to the messages of model readers.
#pragma once

#include "kerf/Support/Result.h"

#include <string_view>

namespace kerf::frontend {

/// The remedy for an ONNX node that cannot be imported.
inline constexpr std::string_view kWriteNodeDifferently =
    "write this part of the module in another way and export the model again (docs/exporting.md)";
/// The remedy for a damaged or inconsistent ONNX file.
inline constexpr std::string_view kExportAgain = "export the model again (docs/exporting.md)";
/// The remedy for a StableHLO operation that cannot be imported.
inline constexpr std::string_view kWriteOperationDifferently =
    "write this part of the function in another way (docs/stablehlo.md lists what is read)";
/// The remedy for damaged or inconsistent StableHLO text.
inline constexpr std::string_view kLowerAgain = "lower the function again as docs/stablehlo.md shows";
/// The remedy for a signature.json that does not fit the StableHLO text.
inline constexpr std::string_view kWriteSignatureAgain =
    "lower the function and write its signature.json again as docs/stablehlo.md shows";
/// The remedy for a configuration that no model has.
inline constexpr std::string_view kCorrectConfiguration = "correct the configuration, or export the model to ONNX";
/// The remedy for kerf IR that is not a model.
inline constexpr std::string_view kCorrectIr = "correct the IR, or write it again with `kerf import -o`";

/// Returns `error` with `; wayOut` at the end of its message. Returns `error` unchanged where the message names a way
/// out behind a "; " itself, and for failed internal checks, which are bugs of Kerf.
inline Error withWayOut(Error error, std::string_view wayOut) {
  if (error.status != ExitStatus::InternalCheck && error.message.find("; ") == std::string::npos)
    error.message.append("; ").append(wayOut);
  return error;
}

} // namespace kerf::frontend
