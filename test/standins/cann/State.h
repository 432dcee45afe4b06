// SPDX-License-Identifier: Apache-2.0
// The functions that the stand-ins of CANN's libraries share: libascendcl.so has them, and the others call them. Tests
// of the device `ascend` load the libraries in place of CANN's. They compute on the CPU, asynchronously, and are
// stricter than CANN: each wrong use is an error whose text begins with the name of the rule.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kerf::standin::cann {

// Numbers of errors that AscendCL's documentation lists.
constexpr int kNullPointer = 161001, kBadParameter = 161002, kNoContext = 107002, kInvalid = 100000, kNoMemory = 207001,
              kKernelFailed = 507015, kCaptureFailed = 107030, kStreamAborted = 107023, kNotJoined = 107024;

/// Remembers the text of an error for aclGetRecentErrMsg of this thread, and returns the error.
int fail(int code, const std::string &rule, const std::string &text);
/// Returns the error with which a call of this function has to fail, 0 otherwise. The variable
/// KERF_STANDIN_ASCEND_FAIL is "FUNCTION:N:CODE": call number N (from 1) of FUNCTION fails with CODE. With "@run"
/// behind the name, the function's work fails when it runs on a stream. With "+ADDRESS" behind the name, only the calls
/// from one place count: ADDRESS is the hexadecimal offset, in the caller's file, of the address the call returns to.
int injected(const std::string &function);
/// Returns whether a call or its work has failed in this way. What comes after it may break rules, as ranks that go on
/// do not know yet that another one has skipped its part.
bool hasInjected();
/// Returns the text of the last error of this thread, and forgets it.
std::string takeText();
/// Returns 0 if the thread has a current context, else the error.
int needsContext(const char *function);
/// Returns the device of the current context.
int currentDevice();

/// Returns the memory behind addresses of a device. The addresses that aclrtMallocAlign32 gives cannot be read by the
/// host. Returns null if the bytes are not within one allocation.
void *deviceMemory(const void *address, size_t bytes);
/// Returns whether the bytes lie in memory from aclrtMallocHost.
bool isPinned(const void *address, size_t bytes);

/// Whether the calling thread captures a stream, so that calls that are not part of the stream's work are refused.
bool isCapturing();

/// Counts objects, which a program has to release: `change` of them came (1) or went (-1).
void count(const char *kind, int64_t change);

/// Enqueues work. Its result is the error of the stream, 0 for none. In a capture the work becomes part of the model.
int enqueue(void *stream, const std::string &what, std::function<int()> work);
/// Whether the stream that runs the calling work was aborted.
bool isAborted();

} // namespace kerf::standin::cann
