// SPDX-License-Identifier: Apache-2.0
// State of the driver's stand-in: devices, their memory, and streams that work in threads of their own.
#pragma once

#include "Ptx.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

/// Marks a function of the driver's API, which alone is visible outside of the library.
#define KERF_CUDA_API extern "C" __attribute__((visibility("default"))) int

namespace kerf::standin::cuda {

/// Values of CUresult that the stand-in returns.
enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinary = 209,
  kEccUncorrectable = 214,
  kInvalidPtx = 218,
  kUnsupportedPtxVersion = 222,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kMisalignedAddress = 716,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureMerge = 902,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureImplicit = 906,
  kCapturedEvent = 907,
  kCaptureWrongThread = 908,
};

struct Device;

/// The properties of the machine that the stand-in plays, from environment variables.
struct Settings {
  int devices = 1;
  int driverVersion = 13000;
  uint64_t memoryBytes = uint64_t(8) << 30;
  int64_t eccLaunch = 0;      // number of the launch that fails, from 1; 0 for none
  int64_t failingCapture = 0; // number of the capture that fails at its end, from 1; 0 for none
  bool busy = false;
  int major = 9, minor = 0;
  uint64_t seed = 0;
};

/// Device memory: its public address cannot be read by the host; the bytes lie at `host`.
struct Allocation {
  Device *device = nullptr;
  uint64_t bytes = 0;
  uint64_t reservedBytes = 0;
  std::byte *host = nullptr;
};

/// Completion of one point in a stream.
class Marker {
public:
  /// Marks the point as reached, now.
  void complete();
  /// Waits until the point is reached.
  void wait();
  bool isComplete();
  std::chrono::steady_clock::time_point time();

private:
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::chrono::steady_clock::time_point when;
};

/// Work of a stream. Returns kSuccess, or the error that breaks the context.
using Work = std::function<int()>;

class Stream;

/// One node of a graph: work that follows other nodes.
struct Node {
  Work work;
  std::vector<size_t> after; // indices of earlier nodes
  Stream *lane = nullptr;    // the stream that gave the node, as a name: the stream may be gone when the graph runs
};

/// A capture that is going on: the nodes so far, and the streams that take part.
struct Capture {
  std::vector<Node> nodes;
  std::set<Stream *> streams;
  Stream *origin = nullptr;
  bool invalid = false;
  int mode = 0;
  std::thread::id thread;                 // the thread that began the capture
  std::map<const void *, size_t> chained; // the last node of each chain (Driver::submit)
};

/// A stream: a queue of work, and the thread that does it.
class Stream : public std::enable_shared_from_this<Stream> {
public:
  Stream(Device &device, bool blocking, uint64_t seed) : device(device), blocking(blocking), random(seed) {}
  /// Starts the thread. It ends when the stream is closed and its queue empty.
  void start();
  void close();
  /// Appends work. Returns the marker of its completion.
  std::shared_ptr<Marker> push(Work work);
  /// Waits until the queue is empty.
  void drain();
  bool isIdle();

  Device &device;
  const bool blocking;
  // Guarded by the driver's mutex:
  std::shared_ptr<Capture> capture;
  std::vector<size_t> captureTail; // the nodes that the stream's next node follows

private:
  struct Item {
    Work work;
    std::shared_ptr<Marker> marker;
  };
  void loop();

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> items;
  bool closed = false, working = false;
  std::mt19937_64 random;
};

/// An event.
struct Event {
  Device *device = nullptr;
  bool timed = true;
  std::shared_ptr<Marker> marker;   // of the last record, or null
  std::shared_ptr<Capture> capture; // where the last record was captured
  std::vector<size_t> captureTail;
};

struct Module;

/// A kernel of a loaded module.
struct Kernel {
  Module *module = nullptr;
  const ptx::Function *function = nullptr;
  int dynamicSharedLimit = 0; // 0: what the default of 48 KiB leaves
};

/// A loaded module and the device memory of its variables.
struct Module {
  Device *device = nullptr;
  std::unique_ptr<ptx::Module> code;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
  std::vector<uint64_t> memory;
};

/// A graph, also an executable one.
struct Graph {
  std::vector<Node> nodes;
};

/// One device and its primary context, whose handle is the device's address.
struct Device {
  int ordinal = 0;
  int retained = 0;
  uint64_t allocatedBytes = 0;
  std::atomic<int> error = kSuccess; // the sticky error of the context
  std::shared_ptr<Stream> nullStream;
  std::vector<std::shared_ptr<Stream>> closing; // destroyed streams that may still have work
};

/// Everything. The only instance lives as long as the process, because threads of streams may outlast `main`.
class Driver {
public:
  static Driver &get();

  /// Reads the environment and creates the devices.
  int initialize();
  /// Returns the current device, or sets `*error`: not initialized, no context, or the context's sticky error.
  Device *enter(int *error);
  /// Makes a random number for a new stream.
  uint64_t newSeed();
  /// Finds the allocation that holds `bytes` bytes at a device address. Null if there is none.
  std::byte *deviceBytes(uint64_t address, uint64_t bytes, Device **owner = nullptr);
  /// Returns whether host memory is page-locked.
  bool isPinned(const void *address, uint64_t bytes);
  /// Returns the stream of a handle, the device's default stream for null, or null if the handle is not alive.
  std::shared_ptr<Stream> stream(void *handle, Device &device);
  /// Gives work to a stream or to the graph that it captures. Waits for its end if `wait` says so. In a graph, the work
  /// also follows the last node that was given with the same `chain`, unless that is null.
  int submit(void *handle, Device &device, Work work, bool wait = false, const void *chain = nullptr);
  /// Waits until all streams of the device are idle.
  void drain(Device &device);
  /// Returns an error if a capture forbids this thread calls that are not of a stream, and invalidates that capture.
  int checkNoCapture();
  /// Allocates device memory filled with 0xFF.
  int allocate(Device &device, uint64_t bytes, uint64_t *address);
  int release(uint64_t address);

  std::mutex mutex; // guards everything below
  bool initialized = false;
  Settings settings;
  std::vector<std::unique_ptr<Device>> devices;
  std::map<uint64_t, Allocation> allocations;
  std::map<uint64_t, uint64_t> pinned; // address and bytes
  std::set<void *> hostAllocations;
  std::map<void *, std::shared_ptr<Stream>> streams;
  std::map<void *, std::shared_ptr<Event>> events;
  std::map<void *, std::shared_ptr<Module>> modules;
  std::map<void *, std::shared_ptr<Kernel>> kernels;
  std::map<void *, std::shared_ptr<Graph>> graphs, executables;
  std::set<std::shared_ptr<Capture>> captures;
  int64_t launches = 0, graphLaunches = 0, captureEnds = 0;
  std::string lastFault; // text of the last kernel's error
  std::mt19937_64 random;
};

/// The device whose context is current in the calling thread.
extern thread_local Device *currentDevice;

/// Begins an API function: `device` becomes the current device, or the function returns the error.
#define KERF_CUDA_ENTER(device)                                                                                        \
  int enterError = 0;                                                                                                  \
  Device *device = Driver::get().enter(&enterError);                                                                   \
  if (!device)                                                                                                         \
  return enterError

} // namespace kerf::standin::cuda
