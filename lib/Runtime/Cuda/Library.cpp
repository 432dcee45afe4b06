// SPDX-License-Identifier: Apache-2.0
#include "Library.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <glob.h>
#include <sstream>
#include <vector>

namespace kerf::runtime::cuda {

namespace {
std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// Returns the files that may be the library, the preferred ones first.
std::vector<std::string> candidates(const std::string &name) {
  std::vector<std::string> files;
  std::istringstream folders(variable("KERF_CUDA_LIBRARIES"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty())
      files.push_back(folder + "/" + name);
  std::vector<std::string> roots;
  for (const char *root : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (std::string path = variable(root); !path.empty())
      roots.push_back(path + "/lib/python3*/site-packages");
  if (std::string home = variable("HOME"); !home.empty())
    roots.push_back(home + "/.local/lib/python3*/site-packages");
  roots.emplace_back("/usr/local/lib/python3*/dist-packages");
  roots.emplace_back("/usr/local/lib/python3*/site-packages");
  for (const std::string &root : roots) {
    glob_t found = {};
    if (glob(fmt::format("{}/nvidia/*/lib/{}", root, name).c_str(), 0, nullptr, &found) == 0)
      files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
  }
  std::erase_if(files, [](const std::string &file) { return !std::filesystem::exists(file); });
  files.push_back(name);
  return files;
}
} // namespace

Result<Library> openLibrary(const std::string &name) {
  std::string why;
  for (const std::string &file : candidates(name)) {
    if (void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
      return Library{handle, file};
    if (const char *text = dlerror(); text && why.empty())
      why = text;
  }
  return Error{why};
}

} // namespace kerf::runtime::cuda
