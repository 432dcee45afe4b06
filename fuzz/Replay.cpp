// SPDX-License-Identifier: Apache-2.0
// A driver without libFuzzer: it runs the target once on every file of the arguments, folders included, in order.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int main(int count, char **arguments) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const char *argument : std::vector<const char *>(arguments + 1, arguments + count)) {
    if (fs::is_directory(argument)) {
      for (const fs::directory_entry &entry : fs::recursive_directory_iterator(argument))
        if (entry.is_regular_file())
          files.push_back(entry.path());
    } else {
      files.emplace_back(argument);
    }
  }
  std::sort(files.begin(), files.end());
  for (const fs::path &path : files) {
    std::cerr << path.string() << std::endl; // the last name printed is that of the input that ended the process
    std::ifstream file(path, std::ios::binary);
    if (!file) {
      std::cerr << "cannot be read" << std::endl;
      return 1;
    }
    std::vector<uint8_t> bytes(std::istreambuf_iterator<char>(file), {});
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::cout << files.size() << " inputs" << std::endl;
  return files.empty(); // no files at all is a failure
}
