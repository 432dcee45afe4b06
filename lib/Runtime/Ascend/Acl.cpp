// SPDX-License-Identifier: Apache-2.0
#include "Acl.h"
#include "Library.h"

#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>

namespace kerf::runtime::ascend {

namespace {
/// Opens the libraries of operators: the four of newer releases, or the single one of older releases. They are never
/// used together, because both define the same operators.
Status openOperators(Acl &acl) {
  auto open = [&acl](const char *name) {
    auto library = openLibrary(name);
    if (library) {
      acl.operators.push_back(library->handle);
      acl.libraries += fmt::format("{}{}", acl.libraries.empty() ? "" : ", ", name);
    } else if (acl.unopened.empty()) {
      acl.unopened = fmt::format("{} cannot be opened ({})", name, library.error().message);
    }
    return library ? ok() : Status(library.error());
  };
  for (const char *name : {"libopapi_math.so", "libopapi_nn.so", "libopapi_transformer.so", "libopapi_cv.so"})
    (void)open(name);
  if (!acl.operators.empty())
    return ok();
  if (Status old = open("libopapi.so"); !old)
    return Error{fmt::format("CANN's operators cannot be loaded: neither libopapi_math.so and its like ({}) nor "
                             "libopapi.so ({}); install the operators of CANN (Ascend-cann-kernels or cann-ops), or "
                             "name their folder in KERF_ASCEND_LIBRARIES",
                             acl.unopened, old.error().message),
                 ExitStatus::Infeasible};
  acl.unopened.clear(); // an older release has no others
  return ok();
}

/// Returns the text for Acl::release.
std::string releaseOf(const Acl &acl) {
  AclPackageVersion cann = {};
  if (acl.getCannVersion && acl.getCannVersion(kPackageCann, &cann) == 0 && cann.version[0] != '\0')
    return {cann.version, strnlen(cann.version, sizeof cann.version)};
  int32_t major = 0, minor = 0, patch = 0;
  if (acl.getVersion && acl.getVersion(&major, &minor, &patch) == 0)
    return fmt::format("with AscendCL {}.{}.{}", major, minor, patch);
  return "of an unknown release";
}

Result<Acl> load() {
  Acl acl;
  std::vector<void *> libraries;
  for (const char *name : {"libascendcl.so", "libnnopbase.so"}) {
    auto library = openLibrary(name);
    if (!library)
      return Error{fmt::format("AscendCL, which drives Ascend NPUs, cannot be loaded ({}); install CANN and source its "
                               "set_env.sh, or name the libraries' folder in KERF_ASCEND_LIBRARIES",
                               library.error().message),
                   ExitStatus::Infeasible};
    libraries.push_back(library->handle);
  }
  std::string missing;
  auto find = [&](const char *exported) -> void * {
    for (void *library : libraries)
      if (void *found = dlsym(library, exported))
        return found;
    if (missing.empty())
      missing = exported;
    return nullptr;
  };
#define KERF_LOAD(name, exported, ...) acl.name = reinterpret_cast<decltype(acl.name)>(dlsym(libraries[0], exported));
  KERF_ACL_OPTIONAL_FUNCTIONS(KERF_LOAD)
#undef KERF_LOAD
#define KERF_LOAD(name, exported, ...) acl.name = reinterpret_cast<decltype(acl.name)>(find(exported));
  KERF_ACL_FUNCTIONS(KERF_LOAD)
  KERF_LOAD(getRecentErrMsg, "aclGetRecentErrMsg")
  KERF_LOAD(getSocName, "aclrtGetSocName")
  KERF_LOAD(createTensor, "aclCreateTensor")
  KERF_LOAD(createScalar, "aclCreateScalar")
  KERF_LOAD(createIntArray, "aclCreateIntArray")
  KERF_LOAD(createBoolArray, "aclCreateBoolArray")
#undef KERF_LOAD
  acl.release = releaseOf(acl);
  if (!missing.empty())
    return Error{
        fmt::format("CANN {} has no function {}, which Kerf needs; install CANN 8.1 or newer", acl.release, missing),
        ExitStatus::Infeasible};
  // Another part of the process, such as torch-npu, may have called it before.
  if (AclResult result = acl.init(nullptr); result != 0 && result != kAlreadyInitialized)
    return aclError(acl, result, -1, "initialize AscendCL");
  if (Status opened = openOperators(acl); !opened)
    return opened.error();
  return acl;
}
} // namespace

Result<const Acl *> loadAcl() {
  static const Result<Acl> acl = load();
  if (!acl)
    return acl.error();
  return &*acl;
}

Error aclError(const Acl &acl, AclResult result, int device, std::string_view what) {
  const char *recent = acl.getRecentErrMsg ? acl.getRecentErrMsg() : nullptr;
  std::string text = recent && *recent ? fmt::format(": {}", recent) : "";
  while (text.ends_with('\n'))
    text.pop_back();
  std::string who = device < 0 ? "CANN" : fmt::format("NPU {}", device);
  return {fmt::format("{} cannot {}: AscendCL's error {}{}; the log files of CANN (~/ascend/log) have more", who, what,
                      result, text),
          result == kOutOfMemory ? ExitStatus::Infeasible : ExitStatus::BadInput};
}

} // namespace kerf::runtime::ascend
