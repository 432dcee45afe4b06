// SPDX-License-Identifier: Apache-2.0
// Reader of NumPy's .npy files and .npz archives, which are zip files of .npy files: stored or deflated, with or
// without the 64-bit extension. Tensors of stored members are views of the mapped file.
#include "Readers.h"
#include "kerf/Package/StoredArray.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

namespace kerf {

namespace {
using Bytes = std::span<const std::byte>;

template <typename T> T little(Bytes bytes, size_t offset) { // the caller has checked the bounds
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

//===-- .npy
//----------------------------------------------------------------------------------------------------------===//

struct NpyType {
  std::string_view descr;
  DType dtype;
};
constexpr std::array kTypes = {
    NpyType{"f8", DType::F64}, NpyType{"f4", DType::F32}, NpyType{"f2", DType::F16}, NpyType{"i8", DType::I64},
    NpyType{"i4", DType::I32}, NpyType{"i2", DType::I16}, NpyType{"i1", DType::I8},  NpyType{"u8", DType::U64},
    NpyType{"u4", DType::U32}, NpyType{"u2", DType::U16}, NpyType{"u1", DType::U8},  NpyType{"b1", DType::Bool},
};

/// Returns the text of the value of `key` in the header's Python dict literal, or nothing if there is no such key.
std::optional<std::string_view> valueOf(std::string_view header, std::string_view key) {
  size_t at = header.find(fmt::format("'{}'", key));
  if (at == std::string_view::npos)
    return std::nullopt;
  at = header.find(':', at);
  if (at == std::string_view::npos)
    return std::nullopt;
  at = header.find_first_not_of(' ', at + 1);
  if (at == std::string_view::npos)
    return std::nullopt;
  size_t end = header[at] == '(' ? header.find(')', at) : header.find_first_of(",}", at);
  if (end == std::string_view::npos)
    return std::nullopt;
  return header.substr(at, end - at + (header[at] == '(' ? 1 : 0));
}

std::optional<Shape> parseTuple(std::string_view text) {
  Shape shape;
  if (text.size() < 2 || text.front() != '(' || text.back() != ')')
    return std::nullopt;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    size_t digits = text.find_first_not_of(' ');
    if (digits == std::string_view::npos)
      break;
    text.remove_prefix(digits);
    int64_t size = 0;
    size_t used = 0;
    for (; used < text.size() && std::isdigit(static_cast<unsigned char>(text[used])); ++used) {
      if (size > (int64_t(1) << 56))
        return std::nullopt;
      size = size * 10 + (text[used] - '0');
    }
    if (used == 0)
      return std::nullopt;
    text.remove_prefix(used);
    shape.push_back(size);
    if (!text.empty() && text.front() == 'L') // written by Python 2
      text.remove_prefix(1);
    if (text.empty())
      break;
    if (text.front() != ',')
      return std::nullopt;
    text.remove_prefix(1);
  }
  return shape;
}

/// Header of a .npy file: element type, shape, and the byte offset of the first element.
struct NpyHeader {
  DType dtype = DType::F32;
  Shape shape;
  size_t start = 0;
};

/// Parses the header of a .npy file. `bytes` is the file or at least its header; `fileBytes` is the size of the
/// whole file.
Result<NpyHeader> readHeader(Bytes bytes, uint64_t fileBytes) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return Error{"not a .npy array (it does not begin with \\x93NUMPY)"};
  unsigned major = std::to_integer<unsigned>(bytes[6]);
  if (major < 1 || major > 3)
    return Error{fmt::format(".npy format version {} is not 1, 2 or 3", major)};
  size_t start = major == 1 ? 10 : 12;
  if (bytes.size() < start)
    return Error{"truncated .npy header"};
  size_t headerBytes = major == 1 ? little<uint16_t>(bytes, 8) : little<uint32_t>(bytes, 8);
  if (headerBytes > bytes.size() - start)
    return Error{
        fmt::format("truncated: the .npy header has {} bytes, but {} follow", headerBytes, bytes.size() - start)};
  std::string_view header(reinterpret_cast<const char *>(bytes.data()) + start, headerBytes);
  auto descr = valueOf(header, "descr"), order = valueOf(header, "fortran_order"), tuple = valueOf(header, "shape");
  if (!descr || !order || !tuple)
    return Error{"the .npy header lacks descr, fortran_order or shape"};

  std::string_view type = *descr;
  if (type.size() < 4 || type.front() != '\'' || type.back() != '\'')
    return Error{fmt::format("dtype {} is no number type; save an array of numbers", type)};
  type = type.substr(1, type.size() - 2);
  if (type.front() == '>')
    return Error{fmt::format("dtype '{}' is big-endian; save array.astype(array.dtype.newbyteorder('<'))", type)};
  const NpyType *row =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const NpyType &t) { return t.descr == type.substr(1); });
  if (row == kTypes.end() || (type.front() != '<' && type.front() != '|' && type.front() != '='))
    return Error{fmt::format("dtype '{}' is not supported; use float64, float32, float16, int64, int32, int16, int8, "
                             "uint64, uint32, uint16, uint8 or bool",
                             type)};
  if (order->starts_with("True"))
    return Error{"stored in Fortran order; save numpy.ascontiguousarray(array)"};
  if (!order->starts_with("False"))
    return Error{fmt::format("fortran_order is {}, neither True nor False", *order)};

  auto shape = parseTuple(*tuple);
  auto elements = shape ? checkedElements(*shape) : std::nullopt;
  if (!elements)
    return Error{fmt::format("shape {} is not a tuple of sizes", *tuple)};
  uint64_t available = fileBytes - start - headerBytes;
  if (uint64_t(*elements) > available / uint64_t(bytesOf(row->dtype)))
    return Error{fmt::format("truncated: shape {} of {} needs {} bytes, but {} follow", shapeText(*shape),
                             toString(row->dtype), *elements * bytesOf(row->dtype), available)};
  return NpyHeader{row->dtype, std::move(*shape), start + headerBytes};
}

Result<Tensor> readNpy(Bytes bytes, std::shared_ptr<const void> owner) {
  auto header = readHeader(bytes, bytes.size());
  if (!header)
    return header.error();
  return Tensor{header->dtype, std::move(header->shape), bytes.data() + header->start, std::move(owner)};
}

//===-- zip
//-----------------------------------------------------------------------------------------------------------===//

constexpr uint16_t kStored = 0, kDeflated = 8; // Member::method

struct Member {
  std::string name;
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0;
  uint64_t packedBytes = 0, bytes = 0, headerOffset = 0;
};

constexpr uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50, kCentral = 0x02014b50,
                   kLocal = 0x04034b50;
constexpr size_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kCentralBytes = 46, kLocalBytes = 30;
constexpr uint32_t kIn64 = 0xffffffff; // in a 32-bit field: the value is in the 64-bit extension

struct Directory {
  uint64_t offset = 0, entries = 0;
};

Result<Directory> findDirectory(Bytes zip) {
  const Error damaged{"no end of a zip archive found: truncated, or not an .npz file"};
  if (zip.size() < kEndBytes)
    return damaged;
  size_t least = zip.size() - std::min(zip.size(), kEndBytes + 0xffff); // the archive's comment is at most 65,535 bytes
  size_t at = zip.size() - kEndBytes;
  while (little<uint32_t>(zip, at) != kEnd)
    if (at-- == least)
      return damaged;
  Directory directory{little<uint32_t>(zip, at + 16), little<uint16_t>(zip, at + 10)};
  if (at >= kLocatorBytes && little<uint32_t>(zip, at - kLocatorBytes) == kLocator64) {
    uint64_t end64 = little<uint64_t>(zip, at - kLocatorBytes + 8);
    if (zip.size() < kEnd64Bytes || end64 > zip.size() - kEnd64Bytes || little<uint32_t>(zip, end64) != kEnd64)
      return damaged;
    directory = {little<uint64_t>(zip, end64 + 48), little<uint64_t>(zip, end64 + 32)};
  }
  return directory;
}

/// Fills fields that are kIn64 from the zip64 extension, the extra field with id 1.
void readExtension(Bytes extra, Member &member) {
  while (extra.size() >= 4) {
    size_t id = little<uint16_t>(extra, 0), size = little<uint16_t>(extra, 2);
    if (size > extra.size() - 4)
      return;
    Bytes field = extra.subspan(4, size);
    for (uint64_t *value : {&member.bytes, &member.packedBytes, &member.headerOffset})
      if (id == 1 && *value == kIn64 && field.size() >= 8) {
        *value = little<uint64_t>(field, 0);
        field = field.subspan(8);
      }
    extra = extra.subspan(4 + size);
  }
}

Result<std::vector<Member>> readDirectory(Bytes zip) {
  auto directory = findDirectory(zip);
  if (!directory)
    return directory.error();
  std::vector<Member> members;
  uint64_t at = directory->offset;
  for (uint64_t i = 0; i < directory->entries; ++i) {
    if (zip.size() < kCentralBytes || at > zip.size() - kCentralBytes || little<uint32_t>(zip, at) != kCentral)
      return Error{fmt::format("the zip directory is damaged at entry {} of {}", i, directory->entries)};
    Member member;
    member.flags = little<uint16_t>(zip, at + 8);
    member.method = little<uint16_t>(zip, at + 10);
    member.crc = little<uint32_t>(zip, at + 16);
    member.packedBytes = little<uint32_t>(zip, at + 20);
    member.bytes = little<uint32_t>(zip, at + 24);
    member.headerOffset = little<uint32_t>(zip, at + 42);
    size_t nameBytes = little<uint16_t>(zip, at + 28), extraBytes = little<uint16_t>(zip, at + 30);
    size_t commentBytes = little<uint16_t>(zip, at + 32);
    if (nameBytes + extraBytes + commentBytes > zip.size() - at - kCentralBytes)
      return Error{fmt::format("the zip directory is damaged at entry {} of {}", i, directory->entries)};
    member.name.assign(reinterpret_cast<const char *>(zip.data()) + at + kCentralBytes, nameBytes);
    readExtension(zip.subspan(at + kCentralBytes + nameBytes, extraBytes), member);
    at += kCentralBytes + nameBytes + extraBytes + commentBytes;
    members.push_back(std::move(member));
  }
  return members;
}

struct Content {
  Bytes bytes;
  std::shared_ptr<const void> owner;
};

Result<Content> inflateMember(Bytes packed, const Member &member) {
  constexpr uint64_t kMostRatio = 1032; // of deflate, by zlib's technical notes: do not allocate more for a false size
  if (member.bytes > (packed.size() + 1) * kMostRatio || packed.size() > UINT32_MAX || member.bytes > UINT32_MAX)
    return Error{fmt::format("damaged: {} bytes are said to unpack to {}", packed.size(), member.bytes)};
  auto [tensor, out] = allocateTensor(DType::U8, {int64_t(member.bytes)});
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return Error{"zlib cannot start; free some memory"};
  stream.next_in = const_cast<Bytef *>(reinterpret_cast<const Bytef *>(packed.data()));
  stream.avail_in = uInt(packed.size());
  stream.next_out = reinterpret_cast<Bytef *>(out);
  stream.avail_out = uInt(member.bytes);
  int status = inflate(&stream, Z_FINISH);
  uint64_t unpacked = member.bytes - stream.avail_out;
  inflateEnd(&stream);
  if (status != Z_STREAM_END || unpacked != member.bytes)
    return Error{fmt::format("damaged: {} of {} bytes unpack", unpacked, member.bytes)};
  return Content{{tensor.data, size_t(member.bytes)}, tensor.owner};
}

/// Returns the member's bytes as they are in the archive, perhaps deflated.
Result<Bytes> packedOf(Bytes zip, const Member &member) {
  if (member.flags & 1)
    return Error{"encrypted; write the file without encryption"};
  if (zip.size() < kLocalBytes || member.headerOffset > zip.size() - kLocalBytes ||
      little<uint32_t>(zip, member.headerOffset) != kLocal)
    return Error{"its header is missing: the archive is truncated or damaged"};
  uint64_t begin = member.headerOffset + kLocalBytes + little<uint16_t>(zip, member.headerOffset + 26) +
                   little<uint16_t>(zip, member.headerOffset + 28);
  if (begin > zip.size() || member.packedBytes > zip.size() - begin)
    return Error{fmt::format("its {} bytes end outside of the archive of {} bytes: truncated or damaged",
                             member.packedBytes, zip.size())};
  if (member.method != kStored && member.method != kDeflated)
    return Error{fmt::format("zip compression method {} is not supported; use numpy.savez or numpy.savez_compressed",
                             member.method)};
  if (member.method == kStored && member.packedBytes != member.bytes)
    return Error{
        fmt::format("damaged: it is stored uncompressed in {} bytes, but has {}", member.packedBytes, member.bytes)};
  return zip.subspan(begin, member.packedBytes);
}

Error wrongChecksum(uint32_t found, uint32_t recorded) {
  return Error{fmt::format("damaged: its checksum is {:08x}, the archive says {:08x}", found, recorded)};
}

Result<Content> contentOf(Bytes zip, const Member &member, const std::shared_ptr<const void> &file) {
  auto packed = packedOf(zip, member);
  if (!packed)
    return packed.error();
  Content content{*packed, file};
  if (member.method == kDeflated) {
    auto inflated = inflateMember(*packed, member);
    if (!inflated)
      return inflated.error();
    content = std::move(*inflated);
  }
  uint32_t crc = uint32_t(crc32_z(0, reinterpret_cast<const Bytef *>(content.bytes.data()), content.bytes.size()));
  if (crc != member.crc)
    return wrongChecksum(crc, member.crc);
  return content;
}

constexpr std::string_view kSuffix = ".npy";

/// Unpacks the first `bytes` bytes of a deflated member, or fewer where the member is damaged.
std::vector<std::byte> beginningOf(Bytes packed, uint64_t bytes) {
  std::vector<std::byte> out(bytes);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
    return {};
  stream.next_in = const_cast<Bytef *>(reinterpret_cast<const Bytef *>(packed.data()));
  stream.avail_in = uInt(std::min<uint64_t>(packed.size(), UINT32_MAX));
  stream.next_out = reinterpret_cast<Bytef *>(out.data());
  stream.avail_out = uInt(bytes);
  inflate(&stream, Z_SYNC_FLUSH);
  out.resize(bytes - stream.avail_out);
  inflateEnd(&stream);
  return out;
}

Result<StoredArray> locate(Bytes zip, const Member &member) {
  constexpr uint64_t kHeaderBytes = 12 + 65535; // the most in version 1, and ample in the later versions
  auto packed = packedOf(zip, member);
  if (!packed)
    return packed.error();
  std::vector<std::byte> unpacked;
  if (member.method == kDeflated)
    unpacked = beginningOf(*packed, std::min(member.bytes, kHeaderBytes));
  auto header = readHeader(member.method == kDeflated ? Bytes(unpacked) : *packed, member.bytes);
  if (!header)
    return header.error();
  return StoredArray{header->dtype, std::move(header->shape), uint64_t(packed->data() - zip.data()) + header->start,
                     member.method == kDeflated};
}

/// Returns the array's name: the member's name without ".npy".
Result<std::string> arrayName(const std::string &path, const Member &member) {
  if (!member.name.ends_with(kSuffix))
    return Error{
        fmt::format("'{}' holds '{}', which is not a .npy array; write the file with numpy.savez", path, member.name)};
  return member.name.substr(0, member.name.size() - kSuffix.size());
}

/// Returns the error of an array in an archive, with the places and a way out.
Error failedArray(const std::string &name, const std::string &path, const Error &error) {
  return errorWithWayOut(fmt::format("array '{}' of '{}': {}", name, path, error.message), kWriteAgain);
}
} // namespace

Result<std::map<std::string, StoredArray>> listArrays(const std::string &path) {
  auto file = mapFile(path);
  if (!file)
    return file.error();
  Bytes bytes((*file)->data, (*file)->bytes);
  std::map<std::string, StoredArray> arrays;
  if (path.ends_with(kSuffix)) {
    auto header = readHeader(bytes, bytes.size());
    if (!header)
      return errorWithWayOut(fmt::format("array '{}': {}", path, header.error().message), kWriteAgain);
    arrays[""] = {header->dtype, std::move(header->shape), header->start, false};
    return arrays;
  }
  auto members = readDirectory(bytes);
  if (!members)
    return errorWithWayOut(fmt::format("cannot read '{}': {}", path, members.error().message), kWriteAgain);
  for (const Member &member : *members) {
    auto name = arrayName(path, member);
    if (!name)
      return name.error();
    auto array = locate(bytes, member);
    if (!array)
      return failedArray(*name, path, array.error());
    arrays.insert_or_assign(*name, std::move(*array));
  }
  return arrays;
}

Status verifyArrays(const std::string &path) {
  constexpr uint64_t kPieceBytes = 1 << 20;
  if (!path.ends_with(".npz"))
    return ok();
  auto file = mapFile(path);
  if (!file)
    return file.error();
  Bytes zip((*file)->data, (*file)->bytes);
  auto members = readDirectory(zip);
  if (!members)
    return errorWithWayOut(fmt::format("cannot read '{}': {}", path, members.error().message), kWriteAgain);
  std::vector<std::byte> piece(kPieceBytes);
  for (const Member &member : *members) {
    if (member.method != kStored)
      continue; // readTensors checks deflated members
    auto packed = packedOf(zip, member);
    if (!packed)
      return failedArray(member.name, path, packed.error());
    uint64_t begin = uint64_t(packed->data() - zip.data());
    uLong crc = crc32_z(0, nullptr, 0);
    for (uint64_t at = 0; at < packed->size(); at += kPieceBytes) {
      uint64_t bytes = std::min(kPieceBytes, packed->size() - at);
      if (Status status = readBytes(path, begin + at, bytes, piece.data()); !status)
        return status;
      crc = crc32_z(crc, reinterpret_cast<const Bytef *>(piece.data()), bytes);
    }
    if (uint32_t(crc) != member.crc)
      return failedArray(member.name, path, wrongChecksum(uint32_t(crc), member.crc));
  }
  return ok();
}

Status readBytes(const std::string &path, uint64_t offset, uint64_t bytes, std::byte *out) {
  auto unreadable = [&] {
    return Error{fmt::format("cannot read '{}': {}; make the file readable", path, std::strerror(errno))};
  };
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return unreadable();
  while (bytes > 0) {
    ssize_t count = pread(fd, out, size_t(bytes), off_t(offset));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0) {
      Error error =
          count < 0
              ? unreadable()
              : Error{fmt::format("cannot read '{}': it ends too early; do not change it while it is read", path)};
      close(fd);
      return error;
    }
    out += count, offset += uint64_t(count), bytes -= uint64_t(count);
  }
  close(fd);
  return ok();
}

Result<TensorMap> readNpz(const std::string &path) {
  auto file = mapFile(path);
  if (!file)
    return file.error();
  Bytes zip((*file)->data, (*file)->bytes);
  auto members = readDirectory(zip);
  if (!members)
    return errorWithWayOut(fmt::format("cannot read '{}': {}", path, members.error().message), kWriteAgain);
  TensorMap tensors;
  for (const Member &member : *members) {
    auto name = arrayName(path, member);
    if (!name)
      return name.error();
    auto content = contentOf(zip, member, *file);
    if (!content)
      return failedArray(*name, path, content.error());
    auto tensor = readNpy(content->bytes, content->owner);
    if (!tensor)
      return failedArray(*name, path, tensor.error());
    tensors.insert_or_assign(*name, std::move(*tensor));
  }
  return tensors;
}

Result<TensorMap> readNpyFolder(const std::string &path) {
  TensorMap tensors;
  std::error_code code;
  for (std::filesystem::directory_iterator entry(path, code), end; !code && entry != end; entry.increment(code)) {
    if (entry->path().extension() != kSuffix)
      continue;
    auto file = mapFile(entry->path().string());
    if (!file)
      return file.error();
    auto tensor = readNpy({(*file)->data, (*file)->bytes}, *file);
    if (!tensor)
      return errorWithWayOut(fmt::format("array '{}': {}", entry->path().string(), tensor.error().message),
                             kWriteAgain);
    tensors.emplace(entry->path().stem().string(), std::move(*tensor));
  }
  if (code)
    return Error{fmt::format("cannot list '{}': {}; make the folder readable", path, code.message())};
  if (tensors.empty())
    return Error{fmt::format("no .npy file in '{}'; give a folder of .npy files, or a Hugging Face folder with "
                             "model.safetensors",
                             path)};
  return tensors;
}

} // namespace kerf
