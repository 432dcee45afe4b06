// SPDX-License-Identifier: Apache-2.0
#include "Library.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <sstream>
#include <vector>

namespace kerf::runtime::ascend {

namespace {
std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Returns the files that may be the library, the preferred ones first.
std::vector<std::string> candidates(const std::string &name) {
  std::vector<std::string> files;
  std::istringstream folders(variable("KERF_ASCEND_LIBRARIES"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty())
      files.push_back(folder + "/" + name);
  for (const char *root : {"ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"})
    if (std::string path = variable(root); !path.empty())
      files.push_back(path + "/lib64/" + name);
  files.push_back("/usr/local/Ascend/ascend-toolkit/latest/lib64/" + name);
  std::erase_if(files, [](const std::string &file) { return !std::filesystem::exists(file); });
  files.push_back(name);
  return files;
}
} // namespace

Result<void *> openLibrary(const std::string &name) {
  std::string why;
  for (const std::string &file : candidates(name)) {
    if (void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL)) // CANN's libraries find each other's symbols
      return handle;
    if (const char *text = dlerror(); text && why.empty())
      why = text;
  }
  return Error{why};
}

} // namespace kerf::runtime::ascend
