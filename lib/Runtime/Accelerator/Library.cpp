// SPDX-License-Identifier: Apache-2.0
#include "Library.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <sstream>

namespace kerf::runtime {

std::string environmentVariable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> inFolders(const std::string &folders, const std::string &file) {
  std::vector<std::string> files;
  std::istringstream list(folders);
  for (std::string folder; std::getline(list, folder, ':');)
    if (!folder.empty())
      files.push_back(folder + "/" + file);
  return files;
}

Result<Library> openFirst(std::vector<std::string> files, const std::string &name, int flags) {
  std::erase_if(files, [](const std::string &file) { return !std::filesystem::exists(file); });
  files.push_back(name);
  std::string why;
  for (const std::string &file : files) {
    if (void *handle = dlopen(file.c_str(), flags))
      return Library{handle, file};
    if (const char *text = dlerror(); text && why.empty())
      why = text;
  }
  return Error{why};
}

} // namespace kerf::runtime
