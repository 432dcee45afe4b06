// SPDX-License-Identifier: Apache-2.0
#include "CublasLt.h"
#include "Library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {
constexpr int kDriverOf13 = 13000; // 1000 * major: the oldest driver that libraries of CUDA 13 run with

std::string wayOut(bool driverTakes13) {
  return fmt::format("install the newest one (pip install {}), name its folder in KERF_CUDA_LIBRARIES, or set "
                     "KERF_CUBLASLT=off to multiply with Kerf's own kernel, which is much slower",
                     driverTakes13 ? "nvidia-cublas" : "nvidia-cublas-cu12");
}

std::string versionText(int version) {
  // Versions before 12 have another form: 1000 * major + 100 * minor + patch.
  int unit = version < 100000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", version / unit, version % unit / 100, version % 100);
}

/// Opens the newest library that the driver runs with.
Result<Library> open(bool driverTakes13) {
  auto newest = openLibrary(driverTakes13 ? "libcublasLt.so.13" : "libcublasLt.so.12");
  if (newest || !driverTakes13)
    return newest;
  auto older = openLibrary("libcublasLt.so.12");
  return older ? older : newest;
}

Result<CublasLt> resolveCublasLt() {
  auto driver = loadDriver();
  if (!driver)
    return driver.error();
  bool driverTakes13 = (*driver)->version >= kDriverOf13;
  auto library = open(driverTakes13);
  if (!library)
    return Error{fmt::format("cuBLASLt, which multiplies matrices, cannot be loaded ({}); {}", library.error().message,
                             wayOut(driverTakes13)),
                 ExitStatus::Infeasible};
  CublasLt lt;
  lt.file = library->file;
  std::string missing;
  auto find = [&](const char *exported) {
    void *function = dlsym(library->handle, exported);
    if (!function && missing.empty())
      missing = exported;
    return function;
  };
#define KERF_LOAD(name, exported, ...) lt.name = reinterpret_cast<decltype(lt.name)>(find(exported));
  KERF_CUBLASLT_FUNCTIONS(KERF_LOAD)
#undef KERF_LOAD
  lt.getVersion = reinterpret_cast<decltype(lt.getVersion)>(find("cublasLtGetVersion"));
  lt.getStatusString = reinterpret_cast<decltype(lt.getStatusString)>(find("cublasLtGetStatusString"));
  if (!missing.empty())
    return Error{fmt::format("cuBLASLt at {} has no function {}: it is older than {}; {}", lt.file, missing,
                             versionText(kLowestCublasLt), wayOut(driverTakes13)),
                 ExitStatus::Infeasible};
  lt.version = int(lt.getVersion());
  if (lt.version < kLowestCublasLt)
    return Error{fmt::format("cuBLASLt at {} has version {}, but {} is the lowest that Kerf runs with; {}", lt.file,
                             versionText(lt.version), versionText(kLowestCublasLt), wayOut(driverTakes13)),
                 ExitStatus::Infeasible};
  return lt;
}
} // namespace

Result<const CublasLt *> loadCublasLt() {
  static const Result<CublasLt> library = resolveCublasLt();
  if (!library)
    return library.error();
  return &*library;
}

Error cublasError(const CublasLt &library, CublasStatus status, int device, std::string_view what) {
  return {fmt::format("GPU {} cannot {}: cuBLASLt {} says '{}' ({}); set KERF_CUBLASLT=off to multiply with "
                      "Kerf's own kernel, which is much slower",
                      device, what, versionText(library.version), library.getStatusString(status), status)};
}

Result<const CublasHandle *> cublasOf(Context &context) {
  if (context.cublas)
    return context.cublas.get();
  auto library = loadCublasLt();
  if (!library)
    return library.error();
  if (Status status = context.use(); !status)
    return status.error();
  void *handle = nullptr;
  if (CublasStatus status = (*library)->create(&handle))
    return cublasError(**library, status, context.number(), "start cuBLASLt");
  context.cublas = std::make_shared<const CublasHandle>(**library, handle);
  return context.cublas.get();
}

} // namespace kerf::runtime::cuda
