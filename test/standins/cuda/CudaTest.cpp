// SPDX-License-Identifier: Apache-2.0
// Tests of the stand-in's driver functions. Every test runs in a process of its own, because the driver reads its
// settings once and a broken context stays broken.
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

extern "C" {
int cuInit(unsigned);
int cuDeviceGetCount(int *);
int cuDeviceGetAttribute(int *, int, int);
int cuDriverGetVersion(int *);
int cuGetProcAddress_v2(const char *, void **, int, uint64_t, int *);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuMemGetInfo_v2(size_t *, size_t *);
int cuMemAlloc_v2(uint64_t *, size_t);
int cuMemFree_v2(uint64_t);
int cuMemHostAlloc(void **, size_t, unsigned);
int cuMemcpyHtoDAsync_v2(uint64_t, const void *, size_t, void *);
int cuMemcpyDtoHAsync_v2(void *, uint64_t, size_t, void *);
int cuMemsetD32Async(uint64_t, unsigned, size_t, void *);
int cuStreamCreateWithPriority(void **, unsigned, int);
int cuStreamSynchronize(void *);
int cuStreamQuery(void *);
int cuStreamWaitEvent(void *, void *, unsigned);
int cuLaunchHostFunc(void *, void (*)(void *), void *);
int cuEventCreate(void **, unsigned);
int cuEventRecord(void *, void *);
int cuEventQuery(void *);
int cuEventSynchronize(void *);
int cuEventElapsedTime_v2(float *, void *, void *);
int cuModuleLoadDataEx(void **, const void *, unsigned, int *, void **);
int cuModuleGetFunction(void **, void *, const char *);
int cuModuleGetGlobal_v2(uint64_t *, size_t *, void *, const char *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                   void **);
int cuStreamBeginCapture_v2(void *, int);
int cuStreamEndCapture(void *, void **);
int cuGraphInstantiateWithFlags(void **, void *, unsigned long long);
int cuGraphLaunch(void *, void *);
int cuGraphExecDestroy(void *);
int cuGraphDestroy(void *);
int kerfStandinEnqueue(void *, void (*)(void *), void *, void (*)(void *), const void *);
int kerfStandinGraphLaunches();
int cuGetErrorName(int, const char **);
int kerfStandinLastFault(char *, size_t);
}

namespace {

const char *const kAddOne = R"(.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 counter = 5;
.visible .entry addOne(.param .align 8 .b8 p[16])
{
  .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<5>;
  ld.param.b64 %rd1, [p]; ld.param.b32 %r1, [p+8];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.s32 %r5, %r3, %r4, %r2;
  setp.ge.s32 %p1, %r5, %r1; @%p1 bra $end;
  mul.wide.s32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; ld.global.u32 %r6, [%rd3]; add.s32 %r6, %r6, 1;
  st.global.u32 [%rd3], %r6;
$end: ret;
}
)";

struct Arguments {
  uint64_t data;
  int32_t count;
};

/// Makes the first device current.
int begin() {
  void *context = nullptr;
  if (int error = cuInit(0))
    return error;
  if (int error = cuDevicePrimaryCtxRetain(&context, 0))
    return error;
  return cuCtxSetCurrent(context);
}

void *newStream() {
  void *stream = nullptr;
  EXPECT_EQ(cuStreamCreateWithPriority(&stream, 1, 0), 0);
  return stream;
}

template <class T> T *pinned(size_t count) {
  void *memory = nullptr;
  EXPECT_EQ(cuMemHostAlloc(&memory, count * sizeof(T), 0), 0);
  return static_cast<T *>(memory);
}

void *loadAddOne() {
  void *module = nullptr, *function = nullptr;
  EXPECT_EQ(cuModuleLoadDataEx(&module, kAddOne, 0, nullptr, nullptr), 0);
  EXPECT_EQ(cuModuleGetFunction(&function, module, "addOne"), 0);
  return function;
}

int launch(void *function, Arguments arguments, unsigned blocks, void *stream) {
  void *parameters[] = {&arguments};
  return cuLaunchKernel(function, blocks, 1, 1, 64, 1, 1, 0, stream, parameters, nullptr);
}

/// Runs a test's body in a child process, after setting environment variables.
template <class Body> void inChild(std::vector<std::pair<const char *, const char *>> environment, Body body) {
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_EXIT(
      {
        for (auto [name, value] : environment)
          setenv(name, value, 1);
        body();
        std::_Exit(testing::Test::HasFailure() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

sigjmp_buf faulted;

} // namespace

TEST(StandinCuda, KernelsRunInOrderOfTheirStream) {
  inChild({}, [] {
    ASSERT_EQ(begin(), 0);
    void *stream = newStream(), *function = loadAddOne();
    constexpr int kCount = 1000;
    auto *host = pinned<uint32_t>(kCount);
    uint64_t memory = 0;
    ASSERT_EQ(cuMemAlloc_v2(&memory, kCount * 4), 0);
    EXPECT_EQ(memory % 256, 0u);
    for (int i = 0; i < kCount; ++i)
      host[i] = uint32_t(i);
    EXPECT_EQ(cuMemcpyHtoDAsync_v2(memory, host, kCount * 4, stream), 0);
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(launch(function, {memory, kCount}, 16, stream), 0);
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(host, memory, kCount * 4, stream), 0);
    EXPECT_EQ(cuStreamSynchronize(stream), 0);
    for (int i = 0; i < kCount; ++i)
      ASSERT_EQ(host[i], uint32_t(i + 5));
    EXPECT_EQ(cuMemFree_v2(memory), 0);
    EXPECT_EQ(cuMemFree_v2(memory), 1);
  });
}

TEST(StandinCuda, HostCannotReadDeviceMemory) {
  inChild({}, [] {
    ASSERT_EQ(begin(), 0);
    uint64_t memory = 0;
    ASSERT_EQ(cuMemAlloc_v2(&memory, 64), 0);
    std::signal(SIGSEGV, [](int) { siglongjmp(faulted, 1); });
    if (sigsetjmp(faulted, 1) == 0) {
      volatile int value = *reinterpret_cast<volatile int *>(memory);
      FAIL() << "read " << value;
    }
    std::signal(SIGSEGV, SIG_DFL);
    uint32_t fresh = 0;
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(&fresh, memory, 4, nullptr), 0);
    EXPECT_EQ(fresh, 0xFFFFFFFF);
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(&fresh, memory + 62, 4, nullptr), 1);
  });
}

TEST(StandinCuda, EventsOrderStreamsAndMeasureTime) {
  inChild({}, [] {
    ASSERT_EQ(begin(), 0);
    void *first = newStream(), *second = newStream(), *start = nullptr, *end = nullptr;
    ASSERT_EQ(cuEventCreate(&start, 0), 0);
    ASSERT_EQ(cuEventCreate(&end, 0), 0);
    static int order = 0, seen = 0;
    EXPECT_EQ(cuEventRecord(start, first), 0);
    EXPECT_EQ(
        cuLaunchHostFunc(
            first, [](void *) { std::this_thread::sleep_for(std::chrono::milliseconds(20)), order = 1; }, nullptr),
        0);
    EXPECT_EQ(cuEventRecord(end, first), 0);
    EXPECT_EQ(cuEventQuery(end), 600);
    EXPECT_EQ(cuStreamQuery(first), 600);
    EXPECT_EQ(cuStreamWaitEvent(second, end, 0), 0);
    EXPECT_EQ(cuLaunchHostFunc(second, [](void *) { seen = order; }, nullptr), 0);
    EXPECT_EQ(cuStreamSynchronize(second), 0);
    EXPECT_EQ(seen, 1);
    EXPECT_EQ(cuEventSynchronize(end), 0);
    float milliseconds = 0;
    EXPECT_EQ(cuEventElapsedTime_v2(&milliseconds, start, end), 0);
    EXPECT_GE(milliseconds, 19);
  });
}

TEST(StandinCuda, IllegalAccessBreaksTheContext) {
  inChild({}, [] {
    ASSERT_EQ(begin(), 0);
    void *stream = newStream(), *function = loadAddOne();
    uint64_t memory = 0;
    ASSERT_EQ(cuMemAlloc_v2(&memory, 64), 0);
    EXPECT_EQ(launch(function, {memory, 17}, 1, stream), 0);
    EXPECT_EQ(cuStreamSynchronize(stream), 700);
    EXPECT_EQ(cuMemAlloc_v2(&memory, 64), 700);
    EXPECT_EQ(launch(function, {memory, 1}, 1, stream), 700);
    char text[512];
    EXPECT_GT(kerfStandinLastFault(text, sizeof text), 0);
    EXPECT_NE(std::string(text).find("addOne, line 11, block (0,0,0), thread (16,0,0)"), std::string::npos) << text;
  });
}

TEST(StandinCuda, ModulesTellTheirErrorsAndVariables) {
  inChild({}, [] {
    ASSERT_EQ(begin(), 0);
    void *module = nullptr;
    char log[200] = "";
    int options[] = {5, 6};
    void *values[] = {log, reinterpret_cast<void *>(sizeof log)};
    EXPECT_EQ(cuModuleLoadDataEx(&module, ".version 8.0\n.target sm_80\n.entry k() { nonsense; }", 2, options, values),
              218);
    EXPECT_NE(std::string(log).find("line 3: `nonsense`: unknown instruction"), std::string::npos) << log;
    EXPECT_EQ(cuModuleLoadDataEx(&module, ".version 9.9\n.target sm_80\n", 0, nullptr, nullptr), 222);
    EXPECT_EQ(cuModuleLoadDataEx(&module, ".version 8.0\n.target sm_100\n", 0, nullptr, nullptr), 209);
    ASSERT_EQ(cuModuleLoadDataEx(&module, kAddOne, 0, nullptr, nullptr), 0);
    uint64_t address = 0;
    size_t bytes = 0;
    EXPECT_EQ(cuModuleGetGlobal_v2(&address, &bytes, module, "counter"), 0);
    EXPECT_EQ(bytes, 4u);
    uint32_t value = 0;
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(&value, address, 4, nullptr), 0);
    EXPECT_EQ(value, 5u);
    void *function = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&function, module, "missing"), 500);
  });
}

TEST(StandinCuda, GraphsReplayForkedStreams) {
  inChild({}, [] {
    ASSERT_EQ(begin(), 0);
    void *first = newStream(), *second = newStream(), *function = loadAddOne(), *fork = nullptr, *join = nullptr;
    ASSERT_EQ(cuEventCreate(&fork, 2), 0);
    ASSERT_EQ(cuEventCreate(&join, 2), 0);
    uint64_t a = 0, b = 0;
    ASSERT_EQ(cuMemAlloc_v2(&a, 64), 0);
    ASSERT_EQ(cuMemAlloc_v2(&b, 64), 0);
    EXPECT_EQ(cuMemsetD32Async(a, 0, 16, first), 0);
    EXPECT_EQ(cuMemsetD32Async(b, 0, 16, first), 0);
    ASSERT_EQ(cuStreamBeginCapture_v2(first, 1), 0);
    EXPECT_EQ(launch(function, {a, 16}, 1, first), 0);
    EXPECT_EQ(cuEventRecord(fork, first), 0);
    EXPECT_EQ(cuStreamWaitEvent(second, fork, 0), 0);
    EXPECT_EQ(launch(function, {b, 16}, 1, second), 0);
    EXPECT_EQ(cuEventRecord(join, second), 0);
    EXPECT_EQ(launch(function, {a, 16}, 1, first), 0);
    EXPECT_EQ(cuStreamWaitEvent(first, join, 0), 0);
    void *graph = nullptr, *executable = nullptr;
    ASSERT_EQ(cuStreamEndCapture(first, &graph), 0);
    ASSERT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), 0);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(cuGraphLaunch(executable, first), 0);
    auto *host = pinned<uint32_t>(2);
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(host, a, 4, first), 0);
    EXPECT_EQ(cuMemcpyDtoHAsync_v2(host + 1, b, 4, first), 0);
    EXPECT_EQ(cuStreamSynchronize(first), 0);
    EXPECT_EQ(host[0], 6u);
    EXPECT_EQ(host[1], 3u);
  });
}

TEST(StandinCuda, CapturesRefuseWaitingAndUnjoinedWork) {
  inChild({}, [] {
    ASSERT_EQ(begin(), 0);
    void *first = newStream(), *second = newStream(), *fork = nullptr, *graph = nullptr;
    ASSERT_EQ(cuEventCreate(&fork, 2), 0);
    ASSERT_EQ(cuStreamBeginCapture_v2(first, 0), 0);
    EXPECT_EQ(cuStreamSynchronize(first), 900);
    EXPECT_EQ(cuStreamEndCapture(first, &graph), 901);
    ASSERT_EQ(cuStreamBeginCapture_v2(first, 1), 0);
    EXPECT_EQ(cuEventRecord(fork, first), 0);
    EXPECT_EQ(cuStreamWaitEvent(second, fork, 0), 0);
    EXPECT_EQ(cuLaunchHostFunc(second, [](void *) {}, nullptr), 0);
    EXPECT_EQ(cuStreamEndCapture(first, &graph), 904);
    EXPECT_EQ(cuStreamSynchronize(first), 0);
  });
}

TEST(StandinCuda, CapturesForbidTheirThreadWhatMayWait) {
  inChild({}, [] {
    ASSERT_EQ(begin(), 0);
    void *first = newStream(), *second = newStream(), *event = nullptr, *graph = nullptr, *module = nullptr;
    uint64_t memory = 0, other = 0;
    ASSERT_EQ(cuMemAlloc_v2(&memory, 64), 0);
    ASSERT_EQ(cuEventCreate(&event, 2), 0);
    ASSERT_EQ(cuEventRecord(event, second), 0);
    const std::vector<std::function<int()>> forbidden = {
        [&] { return cuMemAlloc_v2(&other, 64); },
        [&] { return cuMemFree_v2(memory); },
        [&] { return cuStreamSynchronize(second); },
        [&] { return cuStreamQuery(second); },
        [&] { return cuEventQuery(event); },
        [&] { return cuEventSynchronize(event); },
        [&] { return cuModuleLoadDataEx(&module, kAddOne, 0, nullptr, nullptr); },
    };
    for (const auto &call : forbidden) {
      ASSERT_EQ(cuStreamBeginCapture_v2(first, 1), 0);
      EXPECT_EQ(call(), 900);
      EXPECT_EQ(cuStreamEndCapture(first, &graph), 901);
      ASSERT_EQ(cuStreamBeginCapture_v2(first, 1), 0);
      std::thread([&] { // the mode is that of the capture's own thread
        void *context = nullptr;
        EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), 0);
        EXPECT_EQ(cuCtxSetCurrent(context), 0);
        EXPECT_EQ(cuMemAlloc_v2(&other, 64), 0);
        EXPECT_EQ(cuStreamEndCapture(first, &graph), 908);
      })
          .join();
      EXPECT_EQ(cuStreamEndCapture(first, &graph), 0);
    }
    ASSERT_EQ(cuStreamBeginCapture_v2(first, 1), 0);
    EXPECT_EQ(cuStreamWaitEvent(first, event, 0), 905); // of work outside of the capture
    EXPECT_EQ(cuStreamEndCapture(first, &graph), 901);
  });
}

TEST(StandinCuda, GraphsRunStreamsBesideEachOtherAndKeepTheirWork) {
  inChild({}, [] {
    ASSERT_EQ(begin(), 0);
    void *first = newStream(), *second = newStream(), *fork = nullptr, *join = nullptr;
    ASSERT_EQ(cuEventCreate(&fork, 2), 0);
    ASSERT_EQ(cuEventCreate(&join, 2), 0);
    static std::atomic<int> meetings = 0, released = 0;
    auto meet = [](void *data) { // waits for the other stream's node of the same launch
      auto *launch = static_cast<std::atomic<int> *>(data);
      int mine = ++*launch;
      while (*launch < (mine + 1) / 2 * 2)
        std::this_thread::yield();
    };
    auto release = [](void *) { ++released; };
    ASSERT_EQ(cuStreamBeginCapture_v2(first, 1), 0);
    EXPECT_EQ(cuEventRecord(fork, first), 0);
    EXPECT_EQ(cuStreamWaitEvent(second, fork, 0), 0);
    EXPECT_EQ(kerfStandinEnqueue(first, meet, &meetings, release, nullptr), 0);
    EXPECT_EQ(kerfStandinEnqueue(second, meet, &meetings, release, nullptr), 0);
    EXPECT_EQ(cuEventRecord(join, second), 0);
    EXPECT_EQ(cuStreamWaitEvent(first, join, 0), 0);
    void *graph = nullptr, *executable = nullptr;
    ASSERT_EQ(cuStreamEndCapture(first, &graph), 0);
    ASSERT_EQ(cuGraphInstantiateWithFlags(&executable, graph, 0), 0);
    EXPECT_EQ(cuGraphDestroy(graph), 0);
    EXPECT_EQ(meetings, 0);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(cuGraphLaunch(executable, first), 0);
    EXPECT_EQ(kerfStandinGraphLaunches(), 3);
    EXPECT_EQ(cuStreamSynchronize(first), 0);
    EXPECT_EQ(meetings, 6);
    EXPECT_EQ(released, 0);
    EXPECT_EQ(cuGraphExecDestroy(executable), 0);
    EXPECT_EQ(released, 2);
    EXPECT_EQ(cuGraphLaunch(executable, first), 1);
  });
}

TEST(StandinCuda, FaultsAreInjectedByTheEnvironment) {
  inChild({{"KERF_STANDIN_DEVICES", "0"}}, [] { EXPECT_EQ(cuInit(0), 100); });
  inChild({{"KERF_STANDIN_BUSY", "1"}}, [] { EXPECT_EQ(begin(), 46); });
  inChild({{"KERF_STANDIN_DRIVER", "12040"}, {"KERF_STANDIN_DEVICES", "3"}, {"KERF_STANDIN_CAPABILITY", "8.6"}}, [] {
    ASSERT_EQ(begin(), 0);
    int version = 0, count = 0, minor = 0;
    EXPECT_EQ(cuDriverGetVersion(&version), 0);
    EXPECT_EQ(version, 12040);
    EXPECT_EQ(cuDeviceGetCount(&count), 0);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(cuDeviceGetAttribute(&minor, 76, 0), 0);
    EXPECT_EQ(minor, 6);
  });
  inChild({{"KERF_STANDIN_MEMORY", "1000000"}}, [] {
    ASSERT_EQ(begin(), 0);
    uint64_t memory = 0;
    EXPECT_EQ(cuMemAlloc_v2(&memory, 600000), 0);
    EXPECT_EQ(cuMemAlloc_v2(&memory, 600000), 2);
    size_t free = 0, total = 0;
    EXPECT_EQ(cuMemGetInfo_v2(&free, &total), 0);
    EXPECT_EQ(total, 1000000u);
    EXPECT_LE(free, 400000u);
  });
  inChild({{"KERF_STANDIN_ECC", "2"}}, [] {
    ASSERT_EQ(begin(), 0);
    void *stream = newStream(), *function = loadAddOne();
    EXPECT_EQ(launch(function, {0, 0}, 1, stream), 0);
    EXPECT_EQ(cuStreamSynchronize(stream), 0);
    EXPECT_EQ(launch(function, {0, 0}, 1, stream), 0);
    EXPECT_EQ(cuStreamSynchronize(stream), 214);
    EXPECT_EQ(cuStreamQuery(stream), 214);
    const char *name = nullptr;
    EXPECT_EQ(cuGetErrorName(214, &name), 0);
    EXPECT_STREQ(name, "CUDA_ERROR_ECC_UNCORRECTABLE");
  });
}
