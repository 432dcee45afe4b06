// SPDX-License-Identifier: Apache-2.0
#include "Cudnn.h"
#include "Library.h"

#include <array>
#include <dlfcn.h>
#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {
constexpr std::string_view kWayOut = "install cuDNN (pip install nvidia-cudnn-cu13), name its folder in "
                                     "KERF_CUDA_LIBRARIES, or set KERF_CUDNN=off to use Kerf's own kernels, which are "
                                     "much slower";

Result<Cudnn> resolveCudnn() {
  auto library = openLibrary("libcudnn_graph.so.9");
  if (!library)
    return Error{fmt::format("cuDNN, which computes attention and convolutions on GPUs, cannot be loaded ({}); {}",
                             library.error().message, kWayOut),
                 ExitStatus::Infeasible};
  Cudnn cudnn;
  std::string_view missing;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library->handle, name));
    if (!function && missing.empty())
      missing = name;
  };
#define KERF_LOAD(name, exported, ...) find(cudnn.name, exported);
  KERF_CUDNN_FUNCTIONS(KERF_LOAD)
#undef KERF_LOAD
  find(cudnn.getVersion, "cudnnGetVersion");
  find(cudnn.getErrorString, "cudnnGetErrorString");
  find(cudnn.getLastErrorString, "cudnnGetLastErrorString");
  cudnn.version = cudnn.getVersion ? int64_t(cudnn.getVersion()) : 0;
  auto text = [](int64_t version) { return fmt::format("{}.{}", version / 10000, version / 100 % 100); };
  if (cudnn.version < kLowestCudnn)
    return Error{fmt::format("cuDNN at {} has version {}, but {} is the lowest that Kerf runs with; {}", library->file,
                             text(cudnn.version), text(kLowestCudnn), kWayOut),
                 ExitStatus::Infeasible};
  if (!missing.empty())
    return Error{
        fmt::format("cuDNN {} at {} has no function {}; {}", text(cudnn.version), library->file, missing, kWayOut),
        ExitStatus::Infeasible};
  return cudnn;
}
} // namespace

Result<const Cudnn *> loadCudnn() {
  static const Result<Cudnn> &cudnn =
      *new Result<Cudnn>(resolveCudnn()); // stays for what is destroyed at the end of the process
  if (!cudnn)
    return cudnn.error();
  return &*cudnn;
}

Status loadRuntimeCompiler() {
  static const bool found = openLibrary("libnvrtc.so.13") || openLibrary("libnvrtc.so.12");
  if (found)
    return ok();
  return Error{"cuDNN has no engine for an instruction, because NVIDIA's run-time compiler (libnvrtc.so.13, or "
               "libnvrtc.so.12 with CUDA 12) cannot be loaded; install it (pip install nvidia-cuda-nvrtc, or "
               "nvidia-cuda-nvrtc-cu12), name its folder in KERF_CUDA_LIBRARIES, or set KERF_CUDNN=off to use Kerf's "
               "own kernels, which are much slower",
               ExitStatus::Infeasible};
}

Error cudnnError(const Cudnn &cudnn, CudnnResult result, std::string_view what) {
  std::array<char, 1024> text = {};
  cudnn.getLastErrorString(text.data(), text.size());
  std::string_view last = text.data();
  return {fmt::format("cuDNN {}.{}.{} cannot {}: it says '{}' ({}){}{}; set KERF_CUDNN=off to use Kerf's own kernels",
                      cudnn.version / 10000, cudnn.version / 100 % 100, cudnn.version % 100, what,
                      cudnn.getErrorString(result), result, last.empty() ? "" : ": ", last)};
}

} // namespace kerf::runtime::cuda
