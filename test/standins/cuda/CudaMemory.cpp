// SPDX-License-Identifier: Apache-2.0
// Memory of devices, page-locked memory of the host, and copies between them.
#include "CudaState.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace kerf::standin::cuda {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kAlignment = 256; // of sizes, as far as they count for the device's free memory
constexpr unsigned char kFresh = 0xFF;

uint64_t roundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

} // namespace

int Driver::allocate(Device &device, uint64_t bytes, uint64_t *address) {
  if (bytes == 0)
    return kInvalidValue;
  uint64_t counted = roundUp(bytes, kAlignment);
  std::lock_guard lock(mutex);
  if (bytes > settings.memoryBytes || counted > settings.memoryBytes - device.allocatedBytes)
    return kOutOfMemory;
  Allocation allocation{&device, bytes, roundUp(bytes, kPage) + kPage, nullptr};
  void *host = std::aligned_alloc(kPage, roundUp(bytes, kPage));
  // One page more is reserved, so that no two allocations are adjacent.
  void *reserved =
      mmap(nullptr, allocation.reservedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!host || reserved == MAP_FAILED) {
    std::free(host);
    if (reserved != MAP_FAILED)
      munmap(reserved, allocation.reservedBytes);
    return kOutOfMemory;
  }
  std::memset(host, kFresh, bytes);
  allocation.host = static_cast<std::byte *>(host);
  *address = reinterpret_cast<uint64_t>(reserved);
  allocations[*address] = allocation;
  device.allocatedBytes += counted;
  return kSuccess;
}

int Driver::release(uint64_t address) {
  Device *device = nullptr;
  {
    std::lock_guard lock(mutex);
    auto found = allocations.find(address);
    if (found == allocations.end())
      return kInvalidValue;
    device = found->second.device;
  }
  drain(*device);
  std::lock_guard lock(mutex);
  auto found = allocations.find(address);
  if (found == allocations.end())
    return kInvalidValue;
  device->allocatedBytes -= roundUp(found->second.bytes, kAlignment);
  munmap(reinterpret_cast<void *>(address), found->second.reservedBytes);
  std::free(found->second.host);
  allocations.erase(found);
  return kSuccess;
}

std::byte *Driver::deviceBytes(uint64_t address, uint64_t bytes, Device **owner) {
  std::lock_guard lock(mutex);
  auto behind = allocations.upper_bound(address);
  if (behind == allocations.begin())
    return nullptr;
  const auto &[first, allocation] = *std::prev(behind);
  uint64_t offset = address - first;
  if (offset > allocation.bytes || bytes > allocation.bytes - offset)
    return nullptr;
  if (owner)
    *owner = allocation.device;
  return allocation.host + offset;
}

bool Driver::isPinned(const void *address, uint64_t bytes) {
  std::lock_guard lock(mutex);
  uint64_t number = reinterpret_cast<uint64_t>(address);
  auto behind = pinned.upper_bound(number);
  if (behind == pinned.begin())
    return false;
  const auto &[first, size] = *std::prev(behind);
  return number - first <= size && bytes <= size - (number - first);
}

namespace {

/// Returns whether an address lies in the reserved range of device memory, where the host must not touch it.
bool isDeviceRange(const void *address) {
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  uint64_t number = reinterpret_cast<uint64_t>(address);
  auto behind = driver.allocations.upper_bound(number);
  return behind != driver.allocations.begin() &&
         number - std::prev(behind)->first < std::prev(behind)->second.reservedBytes;
}

/// One side of a copy.
struct Side {
  bool isDevice = false;
  uint64_t address = 0;

  /// Returns the bytes that can be read and written, or null.
  std::byte *bytes(uint64_t count) const {
    return isDevice ? Driver::get().deviceBytes(address, count) : reinterpret_cast<std::byte *>(address);
  }
  bool isValid(uint64_t count) const {
    return isDevice ? bytes(count) != nullptr : address != 0 && !isDeviceRange(reinterpret_cast<void *>(address));
  }
  bool isPageable(uint64_t count) const {
    return !isDevice && !Driver::get().isPinned(reinterpret_cast<void *>(address), count);
  }
};

/// Rows of a copy, each `width` bytes.
struct Rows {
  Side to, from;
  uint64_t width = 0, height = 1, toPitch = 0, fromPitch = 0;

  uint64_t span(uint64_t pitch) const { return height == 0 ? 0 : pitch * (height - 1) + width; }
};

int copyRows(const Rows &rows) {
  std::byte *to = rows.to.bytes(rows.span(rows.toPitch));
  const std::byte *from = rows.from.bytes(rows.span(rows.fromPitch));
  if (!to || !from)
    return kIllegalAddress; // freed between the call and its execution
  for (uint64_t row = 0; row < rows.height; ++row)
    std::memmove(to + row * rows.toPitch, from + row * rows.fromPitch, rows.width);
  return kSuccess;
}

int submitCopy(Device &device, void *stream, const Rows &rows) {
  if (rows.width == 0 || rows.height == 0)
    return kSuccess;
  uint64_t toSpan = rows.span(rows.toPitch), fromSpan = rows.span(rows.fromPitch);
  if (!rows.to.isValid(toSpan) || !rows.from.isValid(fromSpan))
    return kInvalidValue;
  bool pageable = rows.to.isPageable(toSpan) || rows.from.isPageable(fromSpan);
  return Driver::get().submit(stream, device, [rows] { return copyRows(rows); }, pageable);
}

Side deviceSide(uint64_t address) { return {true, address}; }
Side hostSide(const void *address) { return {false, reinterpret_cast<uint64_t>(address)}; }
Side anySide(uint64_t address) { return {isDeviceRange(reinterpret_cast<void *>(address)), address}; }

/// Fills memory with a value of type T.
template <class T> int submitFill(Device &device, void *stream, uint64_t address, T value, uint64_t count) {
  if (count == 0)
    return kSuccess;
  if (address % sizeof(T) || !Driver::get().deviceBytes(address, count * sizeof(T)))
    return kInvalidValue;
  return Driver::get().submit(stream, device, [=]() -> int {
    auto *to = reinterpret_cast<T *>(Driver::get().deviceBytes(address, count * sizeof(T)));
    if (!to)
      return kIllegalAddress;
    std::fill_n(to, count, value);
    return kSuccess;
  });
}

/// CUDA_MEMCPY2D of the driver's API.
struct Copy2D {
  size_t sourceX, sourceY;
  unsigned sourceType; // 1 host, 2 device, 3 array, 4 unified
  const void *sourceHost;
  uint64_t sourceDevice;
  void *sourceArray;
  size_t sourcePitch;
  size_t targetX, targetY;
  unsigned targetType;
  void *targetHost;
  uint64_t targetDevice;
  void *targetArray;
  size_t targetPitch;
  size_t width, height;
};

} // namespace

KERF_CUDA_API cuMemGetInfo_v2(size_t *free, size_t *total) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  std::lock_guard lock(driver.mutex);
  *total = driver.settings.memoryBytes;
  *free = driver.settings.memoryBytes - device->allocatedBytes;
  return kSuccess;
}

KERF_CUDA_API cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  KERF_CUDA_ENTER(device);
  if (int error = Driver::get().checkNoCapture())
    return error;
  return address ? Driver::get().allocate(*device, bytes, address) : int(kInvalidValue);
}

KERF_CUDA_API cuMemFree_v2(uint64_t address) {
  KERF_CUDA_ENTER(device);
  if (int error = Driver::get().checkNoCapture())
    return error;
  Driver::get().drain(*device); // as the driver does, so that no work uses the memory
  int result = address ? Driver::get().release(address) : int(kSuccess);
  return result ? result : int(device->error);
}

KERF_CUDA_API cuMemHostAlloc(void **address, size_t bytes, unsigned int) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  if (int error = driver.checkNoCapture())
    return error;
  if (!address || bytes == 0)
    return kInvalidValue;
  *address = std::aligned_alloc(kPage, roundUp(bytes, kPage));
  if (!*address)
    return kOutOfMemory;
  std::memset(*address, kFresh, bytes);
  std::lock_guard lock(driver.mutex);
  driver.pinned[reinterpret_cast<uint64_t>(*address)] = bytes;
  driver.hostAllocations.insert(*address);
  return kSuccess;
}

KERF_CUDA_API cuMemFreeHost(void *address) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  if (int error = driver.checkNoCapture())
    return error;
  for (auto &each : driver.devices)
    driver.drain(*each);
  std::lock_guard lock(driver.mutex);
  if (driver.hostAllocations.erase(address) == 0)
    return kInvalidValue;
  driver.pinned.erase(reinterpret_cast<uint64_t>(address));
  std::free(address);
  return device->error;
}

KERF_CUDA_API cuMemHostRegister_v2(void *address, size_t bytes, unsigned int) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  if (int error = driver.checkNoCapture())
    return error;
  if (!address || bytes == 0)
    return kInvalidValue;
  std::lock_guard lock(driver.mutex);
  uint64_t begin = reinterpret_cast<uint64_t>(address);
  auto next = driver.pinned.lower_bound(begin);
  bool overlaps = next != driver.pinned.end() && next->first < begin + bytes;
  if (next != driver.pinned.begin())
    overlaps |= std::prev(next)->first + std::prev(next)->second > begin;
  if (overlaps)
    return kHostMemoryAlreadyRegistered;
  driver.pinned[begin] = bytes;
  return kSuccess;
}

KERF_CUDA_API cuMemHostUnregister(void *address) {
  KERF_CUDA_ENTER(device);
  Driver &driver = Driver::get();
  for (auto &each : driver.devices)
    driver.drain(*each);
  std::lock_guard lock(driver.mutex);
  if (driver.hostAllocations.contains(address) || driver.pinned.erase(reinterpret_cast<uint64_t>(address)) == 0)
    return kHostMemoryNotRegistered;
  return device->error;
}

KERF_CUDA_API cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  KERF_CUDA_ENTER(device);
  return submitCopy(*device, stream, {anySide(to), anySide(from), bytes});
}

KERF_CUDA_API cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  KERF_CUDA_ENTER(device);
  return submitCopy(*device, stream, {deviceSide(to), hostSide(from), bytes});
}

KERF_CUDA_API cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  KERF_CUDA_ENTER(device);
  return submitCopy(*device, stream, {hostSide(to), deviceSide(from), bytes});
}

KERF_CUDA_API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  KERF_CUDA_ENTER(device);
  return submitCopy(*device, stream, {deviceSide(to), deviceSide(from), bytes});
}

KERF_CUDA_API cuMemcpy2DAsync_v2(const Copy2D *copy, void *stream) {
  KERF_CUDA_ENTER(device);
  if (!copy)
    return kInvalidValue;
  auto side = [](unsigned type, const void *host, uint64_t deviceAddress, size_t offset, bool *valid) {
    *valid &= type == 1 || type == 2 || type == 4;
    return type == 1   ? hostSide(static_cast<const char *>(host) + offset)
           : type == 2 ? deviceSide(deviceAddress + offset)
                       : anySide(deviceAddress + offset);
  };
  bool valid = true;
  Rows rows;
  rows.width = copy->width;
  rows.height = copy->height;
  rows.toPitch = copy->targetPitch ? copy->targetPitch : copy->targetX + copy->width;
  rows.fromPitch = copy->sourcePitch ? copy->sourcePitch : copy->sourceX + copy->width;
  size_t toOffset = copy->targetY * rows.toPitch + copy->targetX;
  size_t fromOffset = copy->sourceY * rows.fromPitch + copy->sourceX;
  rows.to = side(copy->targetType, copy->targetHost, copy->targetDevice, toOffset, &valid);
  rows.from = side(copy->sourceType, copy->sourceHost, copy->sourceDevice, fromOffset, &valid);
  if (!valid || copy->targetX + copy->width > rows.toPitch || copy->sourceX + copy->width > rows.fromPitch)
    return kInvalidValue;
  return submitCopy(*device, stream, rows);
}

KERF_CUDA_API cuMemsetD8Async(uint64_t address, unsigned char value, size_t count, void *stream) {
  KERF_CUDA_ENTER(device);
  return submitFill<uint8_t>(*device, stream, address, value, count);
}

KERF_CUDA_API cuMemsetD32Async(uint64_t address, unsigned int value, size_t count, void *stream) {
  KERF_CUDA_ENTER(device);
  return submitFill<uint32_t>(*device, stream, address, value, count);
}

} // namespace kerf::standin::cuda
