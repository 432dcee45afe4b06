// SPDX-License-Identifier: Apache-2.0
// Helpers of the fuzz targets. A target is one function over bytes, LLVMFuzzerTestOneInput, called by libFuzzer or by
// the plain loop of Replay.cpp. It ends the process if a reader violates its contract.
#pragma once

#include "kerf/Support/Result.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <unistd.h>

namespace kerf::fuzz {

/// A temporary folder of this process, which is removed with the object.
inline const std::filesystem::path &folder() {
  static const struct Folder {
    std::filesystem::path path = std::filesystem::temp_directory_path() / ("kerf-fuzz-" + std::to_string(getpid()));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
  } folder;
  return folder.path;
}

/// Returns a file with this content; the next call with the same name replaces the file.
inline std::string fileOf(std::string_view content, const std::string &name) {
  std::string path = (folder() / name).string();
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

/// Ends the process because of a violated contract, which a sanitizer cannot detect.
inline void demand(bool kept, const std::string &promise) {
  if (kept)
    return;
  std::cerr << "contract violated: " << promise << std::endl;
  std::abort();
}

/// Checks that the result is a value, or an error with a message and the status of faulty input.
template <typename T> void judge(const Result<T> &result) {
  if (result)
    return;
  demand(!result.error().message.empty(), "an error has a message");
  demand(result.error().status != ExitStatus::InternalCheck,
         "no input fails an internal check of Kerf: " + result.error().message);
}

} // namespace kerf::fuzz
