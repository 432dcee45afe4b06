// SPDX-License-Identifier: Apache-2.0
// The stand-in of libnnopbase.so: tensors, scalars, arrays and executors.
#include "Tensors.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

/// The work that the first call of an operator makes and that the second call enqueues.
struct aclOpExecutor {
  std::string name;
  std::function<void()> work;
  std::vector<std::pair<const aclTensor *, uint64_t>> tensors; // with their serial numbers
  uint64_t workspaceBytes = 0;
  bool isRepeatable = false, isUsed = false;
  bool isGone = false; // used up or destroyed; its address is not used again
};

namespace kerf::standin::cann {

namespace {
std::mutex mutex;
std::map<const aclTensor *, uint64_t> tensorsAlive; // serial numbers
std::map<aclOpExecutor *, std::shared_ptr<aclOpExecutor>> executors;
uint64_t serials = 0;

} // namespace

Check::Check(const char *name) : name(name) {
  code = injected(this->name + "GetWorkspaceSize");
  if (code == 0)
    code = needsContext(name);
}

void Check::rule(bool holds, const char *rule, const std::string &text) {
  if (!holds && code == 0)
    code = fail(kBadParameter, rule, name + ": " + text);
}

void Check::tensor(const aclTensor *tensor, uint32_t types, bool isOptional) {
  if (!tensor && isOptional)
    return;
  if (code == 0 && !tensor)
    code = fail(kNullPointer, "null", name + ": a tensor is missing");
  if (code != 0)
    return;
  {
    std::lock_guard lock(mutex);
    if (tensorsAlive.count(tensor) == 0) {
      code = fail(kBadParameter, "lifetime", name + ": a tensor was destroyed or never made");
      return;
    }
  }
  rule(types & bitOf(tensor->type), "dtype", "the operator does not take the type " + std::to_string(tensor->type));
  rule(tensor->format == 2 || tensor->format == 0 || tensor->format == 30 || tensor->format == 47, "format",
       "the format is not ND, NCHW, NCDHW or NCL");
  rule(tensor->elements() > 0, "empty", "a tensor has no elements");
  rule(tensor->data != nullptr, "memory", "a tensor has no memory on the device");
  tensors.push_back(tensor);
}

void Check::result(const aclTensor *result, uint32_t types) {
  tensor(result, types);
  if (code == 0)
    rule(result->isInjective(), "stride", "two elements of a result lie at the same place");
}

void Check::same(const aclTensor *a, const aclTensor *b) {
  if (code == 0)
    rule(a->type == b->type, "dtype",
         "the types " + std::to_string(a->type) + " and " + std::to_string(b->type) + " differ");
}

namespace {
std::string text(const Sizes &sizes) {
  std::string all = "[";
  for (int64_t size : sizes)
    all += std::to_string(size) + " ";
  return all + "]";
}
} // namespace

void Check::sizes(const aclTensor *tensor, const Sizes &expected) {
  if (code == 0)
    rule(tensor->sizes == expected, "shape", text(tensor->sizes) + " instead of " + text(expected));
}

void Check::scalar(const aclScalar *scalar) {
  if (code == 0 && !scalar)
    code = fail(kNullPointer, "null", name + ": a scalar is missing");
}

Sizes Check::broadcast(const Sizes &a, const Sizes &b) {
  Sizes all(std::max(a.size(), b.size()), 1);
  for (const Sizes *one : {&a, &b})
    for (size_t d = 0; d < one->size(); ++d) {
      int64_t &size = all[all.size() - one->size() + d];
      rule(size == 1 || (*one)[d] == 1 || size == (*one)[d], "shape", text(a) + " and " + text(b) + " do not fit");
      size = size == 1 ? (*one)[d] : size;
    }
  return all;
}

int Check::executor(uint64_t *workspace, aclOpExecutor **executor, std::function<void()> work, uint64_t bytes) {
  if (code != 0)
    return code;
  auto made = std::make_shared<aclOpExecutor>();
  made->name = name;
  made->work = std::move(work);
  made->workspaceBytes = *workspace = bytes;
  std::lock_guard lock(mutex);
  for (const aclTensor *tensor : tensors)
    made->tensors.emplace_back(tensor, tensor->serial);
  *executor = made.get();
  executors[made.get()] = made;
  count("executors", 1);
  return 0;
}

int launch(const char *name, void *memory, uint64_t bytes, aclOpExecutor *given, void *stream) {
  if (int code = injected(name))
    return code;
  if (int code = needsContext(name))
    return code;
  std::shared_ptr<aclOpExecutor> executor;
  {
    std::lock_guard lock(mutex);
    auto found = executors.find(given);
    if (found == executors.end())
      return fail(kBadParameter, "executor", std::string(name) + " is given an executor that was never made");
    executor = found->second;
    if (executor->isGone)
      return fail(kBadParameter, "executor", std::string(name) + " is given an executor that is used up or destroyed");
    for (const auto &[tensor, serial] : executor->tensors) {
      auto alive = tensorsAlive.find(tensor);
      if (alive == tensorsAlive.end() || alive->second != serial)
        return fail(kBadParameter, "lifetime", std::string(name) + ": a tensor of the executor was destroyed");
    }
    executor->isUsed = true;
    if (!executor->isRepeatable) {
      executor->isGone = true;
      count("executors", -1);
    }
  }
  if (executor->name != name)
    return fail(kBadParameter, "executor", std::string(name) + " is given an executor of " + executor->name);
  if (bytes != executor->workspaceBytes || (bytes > 0 && !deviceMemory(memory, bytes)))
    return fail(kBadParameter, "workspace", std::string(name) + " has not the workspace that it asked for");
  return enqueue(stream, name, [executor, memory, bytes] {
    if (bytes > 0)
      if (void *workspace = deviceMemory(memory, bytes))
        std::memset(workspace, 0x5a, bytes); // an operator may write all of it
    executor->work();
    return 0;
  });
}

extern "C" {
aclTensor *aclCreateTensor(const int64_t *dims, uint64_t number, int type, const int64_t *strides, int64_t offset,
                           int format, const int64_t *storage, uint64_t storageNumber, void *data) {
  constexpr uint64_t kMostDims = 8;
  if (injected("aclCreateTensor"))
    return nullptr;
  auto refuse = [](const char *rule, const std::string &text) {
    fail(kBadParameter, rule, "aclCreateTensor: " + text);
    return nullptr;
  };
  if (number > kMostDims)
    return refuse("dimensions", std::to_string(number) + " dimensions, and 8 is the most");
  auto *made = new aclTensor;
  made->sizes.assign(dims, dims + number);
  made->strides.assign(strides, strides + number);
  made->type = type;
  made->format = format;
  int64_t last = offset, room = 1;
  for (uint64_t d = 0; d < number; ++d) {
    if (strides[d] < 0) {
      delete made;
      return refuse("stride", "a stride is negative");
    }
    last += (dims[d] - 1) * strides[d];
  }
  for (uint64_t d = 0; d < storageNumber; ++d)
    room *= storage[d];
  const size_t bytes = bytesOf(type);
  const bool isEmpty = made->elements() == 0;
  if (bytes == 0 || (!isEmpty && (last < 0 || last >= room || offset < 0))) {
    delete made;
    return refuse("storage", "a type without size, or a view that reaches beyond its storage");
  }
  if (reinterpret_cast<uintptr_t>(data) % bytes != 0) {
    delete made;
    return refuse("alignment", "the address is no multiple of the element's size");
  }
  if (data && !isEmpty) {
    auto *first = static_cast<std::byte *>(data) + offset * int64_t(bytes);
    made->data = static_cast<std::byte *>(deviceMemory(first, size_t(last - offset + 1) * bytes));
    if (!made->data) {
      delete made;
      return refuse("memory", "the elements are not within one allocation of the device");
    }
  }
  std::lock_guard lock(mutex);
  made->serial = ++serials;
  tensorsAlive[made] = made->serial;
  count("tensors", 1);
  return made;
}
int aclDestroyTensor(const aclTensor *tensor) {
  const int code = injected("aclDestroyTensor");
  std::lock_guard lock(mutex);
  if (tensorsAlive.erase(tensor) == 0)
    return fail(kBadParameter, "lifetime", "aclDestroyTensor of a tensor that does not exist");
  delete tensor;
  count("tensors", -1);
  return code;
}
aclScalar *aclCreateScalar(void *value, int type) {
  if (injected("aclCreateScalar"))
    return nullptr;
  auto *made = new aclScalar{type, 0, 0};
  if (type == F32) {
    float number;
    std::memcpy(&number, value, sizeof number);
    made->number = double(number);
  } else if (type == F64) {
    std::memcpy(&made->number, value, sizeof made->number);
  } else {
    std::memcpy(&made->integer, value, sizeof made->integer);
    made->number = double(made->integer);
  }
  count("scalars", 1);
  return made;
}
int aclDestroyScalar(const aclScalar *scalar) {
  const int code = injected("aclDestroyScalar");
  delete scalar;
  count("scalars", -1);
  return code;
}
aclIntArray *aclCreateIntArray(const int64_t *values, uint64_t number) {
  if (injected("aclCreateIntArray"))
    return nullptr;
  count("arrays", 1);
  return new aclIntArray{{values, values + number}};
}
int aclDestroyIntArray(const aclIntArray *array) {
  delete array;
  count("arrays", -1);
  return injected("aclDestroyIntArray");
}
aclBoolArray *aclCreateBoolArray(const bool *values, uint64_t number) {
  if (injected("aclCreateBoolArray"))
    return nullptr;
  count("arrays", 1);
  return new aclBoolArray{{values, values + number}};
}
int aclDestroyBoolArray(const aclBoolArray *array) {
  delete array;
  count("arrays", -1);
  return injected("aclDestroyBoolArray");
}
int aclSetAclOpExecutorRepeatable(aclOpExecutor *executor) {
  static const bool isOff = std::getenv("KERF_STANDIN_ASCEND_ONCE") != nullptr; // executors that are used up
  if (int code = injected("aclSetAclOpExecutorRepeatable"))
    return code;
  std::lock_guard lock(mutex);
  auto found = executors.find(executor);
  if (found == executors.end() || executor->isUsed || executor->isGone)
    return fail(kBadParameter, "executor", "an executor becomes repeatable before it is used");
  if (isOff)
    return fail(kBadParameter, "repeatable", executor->name + " has no repeatable executor");
  executor->isRepeatable = true;
  return 0;
}
int aclDestroyAclOpExecutor(aclOpExecutor *executor) {
  const int code = injected("aclDestroyAclOpExecutor");
  std::lock_guard lock(mutex);
  auto found = executors.find(executor);
  if (found == executors.end() || !executor->isRepeatable || executor->isGone)
    return fail(kBadParameter, "executor", "only repeatable executors are destroyed, and only once");
  executor->isGone = true;
  count("executors", -1);
  return code;
}
}

} // namespace kerf::standin::cann
