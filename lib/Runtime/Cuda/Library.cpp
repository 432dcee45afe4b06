// SPDX-License-Identifier: Apache-2.0
#include "Library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>

namespace kerf::runtime::cuda {

Result<Library> openLibrary(const std::string &name) {
  std::vector<std::string> files = inFolders(environmentVariable("KERF_CUDA_LIBRARIES"), name);
  std::vector<std::string> roots;
  for (const char *root : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (std::string path = environmentVariable(root); !path.empty())
      roots.push_back(path + "/lib/python3*/site-packages");
  if (std::string home = environmentVariable("HOME"); !home.empty())
    roots.push_back(home + "/.local/lib/python3*/site-packages");
  roots.emplace_back("/usr/local/lib/python3*/dist-packages");
  roots.emplace_back("/usr/local/lib/python3*/site-packages");
  for (const std::string &root : roots) {
    glob_t found = {};
    if (glob(fmt::format("{}/nvidia/*/lib/{}", root, name).c_str(), 0, nullptr, &found) == 0)
      files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
  }
  return openFirst(std::move(files), name, RTLD_NOW | RTLD_LOCAL);
}

} // namespace kerf::runtime::cuda
