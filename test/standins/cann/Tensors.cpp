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
};

int64_t aclTensor::elements() const { return kerf::standin::cann::product(sizes); }
bool aclTensor::isDense() const {
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0; stride *= sizes[d])
    if (sizes[d] != 1 && strides[d] != stride)
      return false;
  return true;
}

namespace kerf::standin::cann {

namespace {
std::mutex mutex;
std::map<const aclTensor *, uint64_t> tensorsAlive; // serial numbers
std::map<aclOpExecutor *, std::shared_ptr<aclOpExecutor>> executors;
uint64_t serials = 0;

float floatFromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                  : std::ldexp(1024 + mantissa, exponent - 25);
  return float(bits >> 15 ? -value : value);
}
uint16_t halfFromDouble(double value) {
  const auto sign = uint16_t(std::signbit(value) ? 0x8000 : 0);
  if (std::isnan(value))
    return sign | 0x7e00;
  double magnitude = std::fabs(value);
  if (magnitude == 0)
    return sign;
  if (magnitude >= 65520)
    return sign | 0x7c00;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int unit = std::max(exponent - 11, -24); // of the last bit
  const auto whole = uint32_t(std::nearbyint(std::ldexp(magnitude, -unit)));
  if (unit == -24)
    return uint16_t(sign | whole);
  return uint16_t(sign | ((uint32_t(unit + 24) << 10) + whole));
}
float floatFromBrain(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
uint16_t brainFromFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value))
    return uint16_t(bits >> 16 | 64);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
struct Flag {
  uint8_t byte;
};
double toDouble(Half x) { return floatFromHalf(x.bits); }
double toDouble(Brain x) { return floatFromBrain(x.bits); }
double toDouble(Flag x) { return x.byte; }
template <typename T> double toDouble(T x) { return double(x); }
template <typename T> T fromDouble(double x) {
  if constexpr (std::is_same_v<T, Half>)
    return {halfFromDouble(x)};
  else if constexpr (std::is_same_v<T, Brain>)
    return {brainFromFloat(float(x))};
  else if constexpr (std::is_same_v<T, Flag>)
    return {uint8_t(x != 0)};
  else if constexpr (std::is_integral_v<T>)
    return std::isnan(x)           ? T(0)
           : std::fabs(x) < 9.2e18 ? T(int64_t(x))
           : x < 0                 ? std::numeric_limits<T>::lowest()
                                   : std::numeric_limits<T>::max();
  else
    return T(x);
}

template <typename F> void withType(int type, F f) {
  switch (type) {
  case F32:
    return f(float());
  case F16:
    return f(Half());
  case BF16:
    return f(Brain());
  case F64:
    return f(double());
  case I64:
    return f(int64_t());
  case I32:
    return f(int32_t());
  case I16:
    return f(int16_t());
  case I8:
    return f(int8_t());
  case U8:
    return f(uint8_t());
  default:
    return f(Flag());
  }
}

/// Returns the strides of a tensor that is repeated to `sizes`.
Sizes repeatedStrides(const aclTensor &tensor, const Sizes &sizes) {
  Sizes strides(sizes.size(), 0);
  const size_t added = sizes.size() - tensor.sizes.size();
  for (size_t d = 0; d < tensor.sizes.size(); ++d)
    strides[d + added] = tensor.sizes[d] == 1 ? 0 : tensor.strides[d];
  return strides;
}

/// Calls row(place, first, stride, count) for each run of elements along the last dimension.
template <typename F> void eachRow(const Sizes &sizes, const Sizes &strides, F row) {
  const int64_t count = sizes.empty() ? 1 : sizes.back(), stride = sizes.empty() ? 0 : strides.back();
  const int64_t rows = count == 0 ? 0 : product(sizes) / count;
  Sizes index(sizes.size(), 0);
  int64_t first = 0;
  for (int64_t r = 0; r < rows; ++r) {
    row(r * count, first, stride, count);
    for (size_t d = sizes.size(); d-- > 1;) {
      first += strides[d - 1];
      if (++index[d - 1] < sizes[d - 1])
        break;
      first -= strides[d - 1] * sizes[d - 1];
      index[d - 1] = 0;
    }
  }
}
} // namespace

size_t bytesOf(int type) {
  switch (type) {
  case F64:
  case I64:
    return 8;
  case F32:
  case I32:
    return 4;
  case F16:
  case BF16:
  case I16:
    return 2;
  case I8:
  case U8:
  case Bool:
    return 1;
  default:
    return 0;
  }
}

int64_t product(const Sizes &sizes, size_t begin, size_t end) {
  int64_t all = 1;
  for (size_t d = begin; d < std::min(end, sizes.size()); ++d)
    all *= sizes[d];
  return all;
}

std::vector<double> load(const aclTensor &tensor, const Sizes &sizes) {
  std::vector<double> values(static_cast<size_t>(product(sizes)));
  withType(tensor.type, [&](auto zero) {
    using T = decltype(zero);
    const auto *data = reinterpret_cast<const T *>(tensor.data);
    eachRow(sizes, repeatedStrides(tensor, sizes), [&](int64_t place, int64_t first, int64_t stride, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        values[size_t(place + i)] = toDouble(data[first + i * stride]);
    });
  });
  return values;
}

void store(const aclTensor &tensor, const std::vector<double> &values) {
  withType(tensor.type, [&](auto zero) {
    using T = decltype(zero);
    auto *data = reinterpret_cast<T *>(tensor.data);
    eachRow(tensor.sizes, tensor.strides, [&](int64_t place, int64_t first, int64_t stride, int64_t count) {
      for (int64_t i = 0; i < count; ++i)
        data[first + i * stride] = fromDouble<T>(values[size_t(place + i)]);
    });
  });
}

void copyBits(const aclTensor &from, const aclTensor &to) {
  const size_t bytes = bytesOf(from.type);
  std::vector<std::byte> dense(size_t(to.elements()) * bytes); // the two may overlap
  eachRow(to.sizes, repeatedStrides(from, to.sizes), [&](int64_t place, int64_t first, int64_t stride, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(dense.data() + size_t(place + i) * bytes, from.data + (first + i * stride) * int64_t(bytes), bytes);
  });
  eachRow(to.sizes, to.strides, [&](int64_t place, int64_t first, int64_t stride, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to.data + (first + i * stride) * int64_t(bytes), dense.data() + size_t(place + i) * bytes, bytes);
  });
}

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
  rule(types & bitOf(tensor->type), "dtype", "the operator does not take the type " + std::to_string(tensor->type));
  rule(tensor->format == 2 || tensor->format == 0 || tensor->format == 30 || tensor->format == 47, "format",
       "the format is not ND, NCHW, NCDHW or NCL");
  rule(tensor->data != nullptr, "memory", "a tensor has no memory on the device");
  rule(tensor->elements() > 0, "empty", "a tensor has no elements");
  tensors.push_back(tensor);
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
      return fail(kBadParameter, "executor", std::string(name) + " is given an executor that is used up");
    executor = found->second;
    for (const auto &[tensor, serial] : executor->tensors) {
      auto alive = tensorsAlive.find(tensor);
      if (alive == tensorsAlive.end() || alive->second != serial)
        return fail(kBadParameter, "lifetime", std::string(name) + ": a tensor of the executor was destroyed");
    }
    executor->isUsed = true;
    if (!executor->isRepeatable) {
      executors.erase(found);
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
  for (uint64_t d = 0; d < number; ++d)
    last += (dims[d] - 1) * strides[d];
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
  if (found == executors.end() || executor->isUsed)
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
  if (found == executors.end() || !executor->isRepeatable)
    return fail(kBadParameter, "executor", "only repeatable executors are destroyed");
  executors.erase(found);
  count("executors", -1);
  return code;
}
}

} // namespace kerf::standin::cann
