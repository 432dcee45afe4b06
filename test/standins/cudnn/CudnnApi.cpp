// SPDX-License-Identifier: Apache-2.0
// A stand-in for NVIDIA's cuDNN on machines without GPUs: its graph API over the memory and the streams of the stand-in
// driver (../cuda). It keeps to cuDNN's rules about descriptors, refuses graphs that cuDNN would refuse, and computes
// what a graph says when the stream reaches it.
#include "CudnnState.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>

// From the stand-in driver.
extern "C" int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data);
extern "C" void *kerfStandinMemory(const void *address, size_t bytes); // null if the bytes are not device memory

#define KERF_CUDNN_API extern "C" __attribute__((visibility("default")))

namespace kerf::standin::cudnn {

namespace {
constexpr int kDescriptorType = 15;
thread_local char lastError[512] = "";

struct Handle {
  void *stream = nullptr;
};

// The registries are never destroyed, because a process may close its GPUs after the library's static objects are gone.
std::mutex &mutex = *new std::mutex; // guards the registries
std::map<void *, std::shared_ptr<Descriptor>> &descriptors = *new std::map<void *, std::shared_ptr<Descriptor>>;
std::set<void *> &handles = *new std::set<void *>;
std::atomic<int64_t> executions = 0;

std::string wish() {
  const char *value = std::getenv("KERF_STANDIN_CUDNN");
  return value ? value : "";
}

std::shared_ptr<Descriptor> find(void *descriptor) {
  std::lock_guard lock(mutex);
  auto found = descriptors.find(descriptor);
  return found == descriptors.end() ? nullptr : found->second;
}

int checkTensor(const Descriptor &descriptor) {
  std::vector<int64_t> dims = integersOf(descriptor, 902), strides = integersOf(descriptor, 903);
  int64_t alignment = integerOf(descriptor, 900, 0);
  if (bytesOfElement(int(integerOf(descriptor, 901, -1))) == 0)
    return fail(kUnsupportedData, "the stand-in has no such type of tensors");
  if (dims.size() != strides.size() || dims.empty() || alignment <= 0 || (alignment & (alignment - 1)) != 0)
    return fail(kBadParameter, "a tensor needs as many strides as dimensions, and an alignment that is a power of two");
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] < 1 || strides[d] < 1)
      return fail(kBadParameter, "the dimensions and strides of a tensor are at least 1");
  return kSuccess;
}

int finalizeGraph(Descriptor &descriptor) {
  auto graph = std::make_shared<Graph>();
  if (int status = readGraph(descriptor.values[801].references, *graph))
    return status;
  descriptor.graph = graph;
  return kSuccess;
}

/// One execution: the graph, the host's addresses of its tensors, and the constants.
struct Job {
  std::shared_ptr<const Graph> graph;
  std::vector<std::byte *> memory;
  std::vector<std::vector<std::byte>> constants;
  std::byte *workspace = nullptr;
  int64_t workspaceBytes = 0;
};

/// Finds the memory of the graph's tensors among the addresses of a variant pack.
int fillJob(const Graph &graph, const Descriptor &pack, Job &job) {
  std::vector<int64_t> ids = integersOf(pack, 1000), addresses = integersOf(pack, 1001);
  if (ids.size() != addresses.size())
    return fail(kBadParameter, "a variant pack has as many ids as addresses");
  job.memory.resize(graph.tensors.size(), nullptr);
  job.constants.resize(graph.tensors.size());
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor &tensor = graph.tensors[i];
    if (tensor.isVirtual)
      continue;
    size_t at = 0;
    while (at < ids.size() && ids[at] != tensor.id)
      ++at;
    if (at == ids.size() || addresses[at] == 0)
      return fail(kNullPointer, "a tensor of the graph has no address");
    auto *address = reinterpret_cast<std::byte *>(addresses[at]);
    int64_t bytes = tensor.span() * bytesOfElement(tensor.type);
    if (tensor.isByValue) {
      job.constants[i].assign(address, address + bytes);
      job.memory[i] = job.constants[i].data();
      continue;
    }
    if (addresses[at] % tensor.alignment != 0)
      return fail(kMisaligned, "a tensor's address does not have its alignment");
    job.memory[i] = static_cast<std::byte *>(kerfStandinMemory(address, size_t(bytes)));
    if (!job.memory[i])
      return fail(kBadParameter, "a tensor is not in the GPU's memory");
  }
  return kSuccess;
}
} // namespace

int fail(int status, const std::string &text) {
  std::snprintf(lastError, sizeof lastError, "%s", text.c_str());
  return status;
}

} // namespace kerf::standin::cudnn

using namespace kerf::standin::cudnn;

KERF_CUDNN_API size_t cudnnGetVersion() { return wish() == "old" ? 90100 : 91900; }

KERF_CUDNN_API const char *cudnnGetErrorString(int status) {
  switch (status) {
  case kSuccess:
    return "CUDNN_STATUS_SUCCESS";
  case kExecutionFailed:
    return "CUDNN_STATUS_EXECUTION_FAILED";
  default:
    return status >= 3000 && status < 4000 ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
  }
}

KERF_CUDNN_API void cudnnGetLastErrorString(char *text, size_t bytes) { std::snprintf(text, bytes, "%s", lastError); }

KERF_CUDNN_API int cudnnCreate(void **handle) {
  std::lock_guard lock(mutex);
  *handle = new Handle;
  handles.insert(*handle);
  return kSuccess;
}

KERF_CUDNN_API int cudnnDestroy(void *handle) {
  std::lock_guard lock(mutex);
  if (!handles.erase(handle))
    return fail(kBadParameter, "there is no such handle");
  delete static_cast<Handle *>(handle);
  return kSuccess;
}

KERF_CUDNN_API int cudnnSetStream(void *handle, void *stream) {
  std::lock_guard lock(mutex);
  if (!handles.count(handle))
    return fail(kBadParameter, "there is no such handle");
  static_cast<Handle *>(handle)->stream = stream;
  return kSuccess;
}

KERF_CUDNN_API int cudnnBackendCreateDescriptor(int kind, void **made) {
  auto descriptor = std::make_shared<Descriptor>();
  descriptor->kind = kind;
  std::lock_guard lock(mutex);
  descriptors[descriptor.get()] = descriptor;
  *made = descriptor.get();
  return kSuccess;
}

KERF_CUDNN_API int cudnnBackendDestroyDescriptor(void *handle) {
  std::lock_guard lock(mutex);
  return descriptors.erase(handle) ? int(kSuccess) : fail(kBadParameter, "there is no such descriptor");
}

KERF_CUDNN_API int cudnnBackendSetAttribute(void *handle, int attribute, int type, int64_t count, const void *values) {
  std::shared_ptr<Descriptor> descriptor = find(handle);
  if (!descriptor || !values || count < 1)
    return fail(kNullPointer, "an attribute needs a descriptor and values");
  if (descriptor->isFinal)
    return fail(kBadParameter, "a finalized descriptor cannot be changed");
  if (int status = checkAttribute(descriptor->kind, attribute, type, true))
    return status;
  Value value{type, count, {}, {}};
  if (type != kDescriptorType) {
    auto *bytes = static_cast<const std::byte *>(values);
    value.bytes.assign(bytes, bytes + size_t(count) * bytesOfType(type));
  }
  for (int64_t i = 0; type == kDescriptorType && i < count; ++i) {
    std::shared_ptr<Descriptor> one = find(static_cast<void *const *>(values)[i]);
    if (!one || !one->isFinal)
      return fail(kNotFinalized, "attribute " + std::to_string(attribute) + " names a descriptor that is not final");
    value.references.push_back(one);
  }
  descriptor->values[attribute] = std::move(value);
  return kSuccess;
}

KERF_CUDNN_API int cudnnBackendFinalize(void *handle) {
  std::shared_ptr<Descriptor> descriptor = find(handle);
  if (!descriptor)
    return fail(kNullPointer, "there is no such descriptor");
  if (int status = checkComplete(*descriptor))
    return status;
  int status = kSuccess;
  if (descriptor->kind == 17)
    status = checkTensor(*descriptor);
  if (descriptor->kind == 15)
    status = finalizeGraph(*descriptor);
  if (descriptor->kind == 4) {
    descriptor->graph = referenceOf(*descriptor, 201)->graph;
    status = checkPattern(*descriptor->graph);
  }
  if (descriptor->kind == 5) {
    Reference configuration = referenceOf(*descriptor, 401);
    descriptor->graph = configuration->graph;
    descriptor->engine = configuration->engine;
  }
  descriptor->isFinal = status == kSuccess;
  return status;
}

KERF_CUDNN_API int cudnnBackendGetAttribute(void *handle, int attribute, int type, int64_t room, int64_t *count,
                                            void *values) {
  std::shared_ptr<Descriptor> descriptor = find(handle);
  if (!descriptor || !descriptor->isFinal)
    return fail(kNotFinalized, "only finalized descriptors are read");
  if (int status = checkAttribute(descriptor->kind, attribute, type, false))
    return status;
  auto give = [&](auto number) {
    *count = 1;
    std::memcpy(values, &number, sizeof number);
    return int(kSuccess);
  };
  switch (attribute) {
  case 202: { // the proposals of the heuristics' modes A and fallback; the latter has none of its own
    std::vector<int64_t> engines;
    if (integerOf(*descriptor, 200, 0) == 3)
      engines = enginesOf(*descriptor->graph);
    *count = room == 0 ? int64_t(engines.size()) : std::min<int64_t>(room, int64_t(engines.size()));
    for (int64_t i = 0; i < *count && room > 0; ++i) {
      std::shared_ptr<Descriptor> one = find(static_cast<void **>(values)[i]);
      if (!one || one->kind != 3)
        return fail(kWrongKind, "the heuristics fill engine configurations");
      one->graph = descriptor->graph;
      one->engine = engines[size_t(i)];
      one->isFinal = true;
    }
    return kSuccess;
  }
  case 300: {
    std::shared_ptr<Descriptor> one = find(*static_cast<void **>(values));
    if (!one || one->kind != 2)
      return fail(kWrongKind, "a configuration fills an engine");
    one->graph = descriptor->graph;
    one->engine = descriptor->engine;
    one->isFinal = true;
    *count = 1;
    return kSuccess;
  }
  case 402:
    return give(workspaceOf(*descriptor->graph, descriptor->engine));
  case 1301:
    return give(descriptor->engine);
  case 1303: {
    std::vector<int> notes = notesOf(*descriptor->graph, descriptor->engine);
    *count = std::min<int64_t>(room, int64_t(notes.size()));
    std::memcpy(values, notes.data(), size_t(*count) * sizeof(int));
    return kSuccess;
  }
  default:
    return fail(kBadParameter, "the stand-in does not give attribute " + std::to_string(attribute));
  }
}

KERF_CUDNN_API int cudnnBackendExecute(void *handle, void *planHandle, void *packHandle) {
  std::shared_ptr<Descriptor> plan = find(planHandle), pack = find(packHandle);
  {
    std::lock_guard lock(mutex);
    if (!handles.count(handle))
      return fail(kBadParameter, "there is no such handle");
  }
  if (!plan || !pack || plan->kind != 5 || pack->kind != 16 || !plan->isFinal || !pack->isFinal)
    return fail(kNotFinalized, "an execution needs a plan and a variant pack that are final");
  int64_t number = ++executions;
  if (wish() == std::to_string(number))
    return fail(kExecutionFailed, "KERF_STANDIN_CUDNN lets execution " + wish() + " fail");
  if (!mayRun(*plan->graph, plan->engine))
    return fail(kExecutionFailed, "Kerf must not run engine " + std::to_string(plan->engine));
  auto job = std::make_unique<Job>();
  job->graph = plan->graph;
  if (int status = fillJob(*plan->graph, *pack, *job))
    return status;
  job->workspaceBytes = workspaceOf(*plan->graph, plan->engine);
  job->workspace = static_cast<std::byte *>(
      kerfStandinMemory(reinterpret_cast<void *>(integerOf(*pack, 1003, 0)), size_t(job->workspaceBytes)));
  if (!job->workspace)
    return fail(kTooSmall, "the workspace is smaller than the plan says");
  auto run = [](void *data) {
    const Job &queued = *static_cast<Job *>(data);
    std::memset(queued.workspace, 0xFF, size_t(queued.workspaceBytes));
    evaluate(*queued.graph, queued.memory);
  };
  // A recorded step runs the job each time that its graph is launched, so jobs live as long as the program.
  static std::deque<std::unique_ptr<Job>> jobs;
  std::lock_guard lock(mutex);
  jobs.push_back(std::move(job));
  return cuLaunchHostFunc(static_cast<Handle *>(handle)->stream, run, jobs.back().get()) == 0
             ? int(kSuccess)
             : fail(kExecutionFailed, "the driver does not take the work");
}

/// Returns the number of executions so far: a test asks whether cuDNN has computed anything.
KERF_CUDNN_API int64_t kerfStandinCudnnExecutions() { return executions; }
