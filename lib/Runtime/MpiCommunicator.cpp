// SPDX-License-Identifier: Apache-2.0
// Ranks as processes under mpirun or srun. MPI's own waits spin; the waits here test and sleep, a little longer each
// time, so that there can be more ranks than cores. A mutex lets several streams of a rank share MPI, so
// MPI_THREAD_SERIALIZED is enough.
#include "kerf/Runtime/Communicator.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#define OMPI_SKIP_MPICXX 1 // only the C interface: the C++ one would need the C++ libraries of Open MPI or MPICH
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <mutex>
#include <thread>

namespace kerf::runtime {

namespace {
constexpr size_t kMostBytes = size_t(1) << 30; // most bytes of one MPI message, whose count is an int
constexpr int kEagerTests = 32; // tests before the first sleep, enough for an answer from a rank on another core
constexpr std::chrono::microseconds kLongestSleep{200};

std::string mpiText(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, size_t(length));
}

/// Pauses between the tests of a wait: yields at first, then sleeps longer and longer.
class Backoff {
public:
  void pause() {
    if (tests++ < kEagerTests) {
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(sleep);
    sleep = std::min(sleep * 2, kLongestSleep);
  }

private:
  int tests = 0;
  std::chrono::microseconds sleep{5};
};

class MpiCommunicator : public Communicator {
public:
  MpiCommunicator() {
    int number = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    self = number;
    MPI_Comm_size(MPI_COMM_WORLD, &number);
    ranks = number;
    // MPI returns error codes, from which the executor makes one message before it ends the job.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    void *bound = nullptr;
    int found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
    mostTag = found ? *static_cast<int *>(bound) : 32767; // the least that the standard allows
  }
  ~MpiCommunicator() override { MPI_Finalize(); }

  int64_t rank() const override { return self; }
  int64_t size() const override { return ranks; }
  int64_t maxTag() const override { return mostTag; }

  void reserve(size_t messages) override {
    std::lock_guard lock(mutex);
    sending.reserve(messages);
  }

  Status startSend(std::span<const std::byte> bytes, int64_t to, int64_t tag) override {
    for (size_t at = 0; at == 0 || at < bytes.size(); at += kMostBytes) {
      std::lock_guard lock(mutex);
      MPI_Request request;
      int code = MPI_Isend(bytes.data() + at, int(std::min(kMostBytes, bytes.size() - at)), MPI_BYTE, int(to), int(tag),
                           MPI_COMM_WORLD, &request);
      if (code != MPI_SUCCESS)
        return failed("send to", to, code);
      sending.push_back({tag, to, request});
    }
    return ok();
  }

  Status finishSends(int64_t tag) override {
    for (Backoff backoff;; backoff.pause()) {
      std::lock_guard lock(mutex);
      bool any = false;
      for (size_t i = 0; i < sending.size();) {
        if (sending[i].tag != tag) {
          ++i;
          continue;
        }
        int done = 0;
        int code = MPI_Test(&sending[i].request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS)
          return failed("send to", sending[i].to, code);
        if (done) {
          sending.erase(sending.begin() + std::ptrdiff_t(i));
        } else {
          any = true;
          ++i;
        }
      }
      if (!any)
        return ok();
    }
  }

  Status receive(std::span<std::byte> bytes, int64_t from, int64_t tag) override {
    for (size_t at = 0; at == 0 || at < bytes.size(); at += kMostBytes)
      if (Status status = receivePiece(bytes.subspan(at, std::min(kMostBytes, bytes.size() - at)), from, tag); !status)
        return status;
    return ok();
  }

  void abort(const Error &error) override {
    std::fprintf(stderr, "kerf: %s\n", error.message.c_str());
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, int(error.status));
    std::_Exit(int(error.status)); // MPI_Abort may return
  }
  std::optional<Error> failure() const override { return std::nullopt; }

private:
  struct Send {
    int64_t tag = 0, to = 0;
    MPI_Request request;
  };

  Status receivePiece(std::span<std::byte> bytes, int64_t from, int64_t tag) {
    MPI_Request request;
    {
      std::lock_guard lock(mutex);
      int code = MPI_Irecv(bytes.data(), int(bytes.size()), MPI_BYTE, int(from), int(tag), MPI_COMM_WORLD, &request);
      if (code != MPI_SUCCESS)
        return failed("receive from", from, code);
    }
    for (Backoff backoff;; backoff.pause()) {
      std::lock_guard lock(mutex);
      int done = 0;
      MPI_Status status;
      int code = MPI_Test(&request, &done, &status);
      if (code != MPI_SUCCESS)
        return failed("receive from", from, code);
      if (!done)
        continue;
      int count = 0;
      MPI_Get_count(&status, MPI_BYTE, &count);
      if (size_t(count) != bytes.size())
        return Error{
            fmt::format("rank {} expects {} bytes from rank {} (tag {}), which sent {}; report this plan, it is a "
                        "bug of Kerf",
                        self, bytes.size(), from, tag, count),
            ExitStatus::InternalCheck};
      return ok();
    }
  }

  Error failed(const char *verb, int64_t peer, int code) const {
    return {fmt::format("rank {} cannot {} rank {}: {}", self, verb, peer, mpiText(code))};
  }

  std::mutex mutex;
  std::vector<Send> sending;
  int64_t self = 0, ranks = 1, mostTag = 0;
};
} // namespace

Result<std::unique_ptr<Communicator>> createMpiCommunicator() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized)
    return Error{"MPI is already initialized in this process; let Kerf initialize it", ExitStatus::InternalCheck};
  int provided = 0;
  int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS)
    return Error{fmt::format("MPI cannot start: {}; `mpirun -n 2 hostname` tests the installation", mpiText(code))};
  if (provided < MPI_THREAD_SERIALIZED) {
    MPI_Finalize();
    return Error{fmt::format("this MPI library allows only thread level {}, but Kerf needs MPI_THREAD_SERIALIZED ({}); "
                             "use an MPI library that was built with thread support",
                             provided, MPI_THREAD_SERIALIZED)};
  }
  return std::unique_ptr<Communicator>(std::make_unique<MpiCommunicator>());
}

} // namespace kerf::runtime
