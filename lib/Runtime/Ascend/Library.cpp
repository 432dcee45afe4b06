// SPDX-License-Identifier: Apache-2.0
#include "Library.h"

#include <dlfcn.h>

namespace kerf::runtime::ascend {

Result<Library> openLibrary(const std::string &name) {
  std::vector<std::string> files = inFolders(environmentVariable("KERF_ASCEND_LIBRARIES"), name);
  for (const char *root : {"ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"})
    if (std::string path = environmentVariable(root); !path.empty())
      files.push_back(path + "/lib64/" + name);
  files.push_back("/usr/local/Ascend/ascend-toolkit/latest/lib64/" + name);
  return openFirst(std::move(files), name, RTLD_NOW | RTLD_GLOBAL); // CANN's libraries find each other's symbols
}

} // namespace kerf::runtime::ascend
