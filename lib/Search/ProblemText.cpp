// SPDX-License-Identifier: Apache-2.0
#include "ProblemText.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <simdjson.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <zlib.h>

using namespace kerf;
using namespace kerf::search;

namespace {

constexpr size_t kMostBytes = simdjson::SIMDJSON_MAXSIZE_BYTES; // 4 GB: simdjson counts in 32 bits
constexpr size_t kChunk = 1 << 22;

Error cannotRead(const std::string &path, const std::string &why) {
  return {fmt::format("cannot read '{}': {}", path, why)};
}

Error tooLong(const std::string &path) {
  return cannotRead(path, fmt::format("its text has more than {} bytes, which is the limit", kMostBytes));
}

class Descriptor {
public:
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (number >= 0)
      close(number);
  }
  int get() const { return number; }
  int release() { return std::exchange(number, -1); }

private:
  int number;
};

/// A growing buffer from malloc, whose realloc grows large blocks without copying them.
struct Growing {
  char *bytes = nullptr;
  size_t room = 0;
  Growing() = default;
  Growing(const Growing &) = delete;
  Growing &operator=(const Growing &) = delete;
  ~Growing() { std::free(bytes); }
  /// Makes room for `size` bytes and the padding. Returns false when no memory is left.
  bool grow(size_t size) {
    auto *grown = static_cast<char *>(std::realloc(bytes, size + simdjson::SIMDJSON_PADDING));
    if (grown)
      bytes = grown, room = size;
    return grown;
  }
};

/// zlib's reader. Plain text passes through unchanged, and several gzip members are read as one text.
class GzipFile {
public:
  /// Takes ownership of the descriptor.
  explicit GzipFile(int descriptor) : file(gzdopen(descriptor, "rb")) {
    if (file)
      gzbuffer(file, 1 << 18);
    else
      close(descriptor);
  }
  GzipFile(const GzipFile &) = delete;
  GzipFile &operator=(const GzipFile &) = delete;
  ~GzipFile() {
    if (file)
      gzclose(file);
  }
  gzFile get() const { return file; }

private:
  gzFile file;
};

std::string gzipError(gzFile file) {
  int code = Z_OK;
  const char *message = gzerror(file, &code);
  switch (code) {
  case Z_OK:
    return "";
  case Z_ERRNO:
    return std::strerror(errno);
  case Z_BUF_ERROR:
    return fmt::format("its gzip data is cut off after {} bytes of text; copy or download the file again",
                       gztell(file));
  default:
    return fmt::format("its gzip data is damaged after {} bytes of text ({}); copy or download the file again",
                       gztell(file), message);
  }
}

} // namespace

Result<ProblemText> ProblemText::load(const std::string &path) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (file.get() < 0 || fstat(file.get(), &info) != 0)
    return cannotRead(path, std::strerror(errno));
  if (S_ISDIR(info.st_mode))
    return cannotRead(path, "it is a folder; give a file");
  unsigned char magic[2] = {};
  bool plain = S_ISREG(info.st_mode) &&
               !(pread(file.get(), magic, sizeof magic, 0) == sizeof magic && magic[0] == 0x1f && magic[1] == 0x8b);
  return plain ? map(file.get(), static_cast<size_t>(info.st_size), path) : unpack(file.release(), path);
}

/// Maps the file's pages, followed by the padding as zeros.
Result<ProblemText> ProblemText::map(int descriptor, size_t size, const std::string &path) {
  if (size > kMostBytes)
    return tooLong(path);
  size_t mapped = size + simdjson::SIMDJSON_PADDING;
  void *memory = mmap(nullptr, mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return cannotRead(path, std::strerror(errno));
  ProblemText text;
  text.bytes.reset(static_cast<const char *>(memory),
                   [mapped](const char *all) { munmap(const_cast<char *>(all), mapped); });
  text.used = size;
  if (size > 0 && mmap(memory, size, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_POPULATE, descriptor, 0) == MAP_FAILED)
    return cannotRead(path, std::strerror(errno));
  return text;
}

/// Reads through zlib: gzip files, and pipes, which cannot be mapped.
Result<ProblemText> ProblemText::unpack(int descriptor, const std::string &path) {
  GzipFile file(descriptor);
  if (!file.get())
    return cannotRead(path, "zlib can't open it");
  Growing memory;
  size_t used = 0;
  while (true) {
    if (used > kMostBytes)
      return tooLong(path);
    if (used + kChunk > memory.room && !memory.grow(std::max(2 * memory.room, kChunk)))
      return cannotRead(path, fmt::format("no memory for {} bytes of text", 2 * memory.room));
    int count = gzread(file.get(), memory.bytes + used, kChunk);
    used += static_cast<size_t>(std::max(count, 0));
    if (count == static_cast<int>(kChunk))
      continue;
    if (std::string why = gzipError(file.get()); count < 0 || !why.empty())
      return cannotRead(path, why);
    std::memset(memory.bytes + used, 0, simdjson::SIMDJSON_PADDING);
    ProblemText text;
    text.bytes.reset(std::exchange(memory.bytes, nullptr), [](const char *all) { std::free(const_cast<char *>(all)); });
    text.used = used;
    return text;
  }
}

Result<std::string> kerf::search::gzip(const std::string &bytes) {
  constexpr int kGzipWrapper = 16; // added to the window's bits (zlib.h)
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzipWrapper, MAX_MEM_LEVEL,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    return Error{"zlib cannot start", ExitStatus::InternalCheck};
  std::string packed(deflateBound(&stream, bytes.size()), '\0');
  size_t read = 0, written = 0;
  int status = Z_OK;
  while (status == Z_OK) { // zlib counts available bytes in 32 bits
    stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(bytes.data() + read));
    stream.avail_in = static_cast<unsigned>(std::min(bytes.size() - read, kChunk));
    stream.next_out = reinterpret_cast<Bytef *>(packed.data() + written);
    stream.avail_out = static_cast<unsigned>(std::min(packed.size() - written, kChunk));
    unsigned in = stream.avail_in, out = stream.avail_out;
    status = deflate(&stream, read + in == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    read += in - stream.avail_in;
    written += out - stream.avail_out;
  }
  deflateEnd(&stream);
  if (status != Z_STREAM_END)
    return Error{fmt::format("zlib could not compress {} bytes (status {})", bytes.size(), status),
                 ExitStatus::InternalCheck};
  packed.resize(written);
  return packed;
}
